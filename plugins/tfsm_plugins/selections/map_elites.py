"""MAP-Elites (Mouret and Clune 2015): the best of every kind of behavior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import tensorflow as tf
from scipy.cluster.vq import kmeans2

from tfsm.errors import TfsmError
from tfsm.interfaces import Admission, Candidate, Choice, Nest, Population, SelectionContext, Tensor
from tfsm_plugins.selections.options import MapElitesOptions
from tfsm_plugins.selections.steady_state import draw_uniformly

SAMPLES: Final = 50
"""Points for each center that it is to be the middle of."""
ROUNDS: Final = 30
SEED: Final = 0
"""The same cells for every run and seed, so that archives can be compared."""


def bounds_of(text: str | None, context: SelectionContext) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and the most of each number of a behavior, `[D]` each.

    Args:
        text: what the user says, `LOW:HIGH,LOW:HIGH`, or None.
        context: what the domain says.
    """
    if text is None:
        if context.bounds is None:
            example = ",".join(["0:1"] * context.behavior)
            raise TfsmError(
                f"map-elites needs the bounds of behavior, and the domain {context.domain} does not tell: give "
                f"those of its {context.behavior} numbers, such as --set bounds={example}"
            )
        pairs = [(float(low), float(high)) for low, high in context.bounds]
    else:
        pairs = [_pair(part, text) for part in text.split(",")]
    if len(pairs) != context.behavior:
        raise TfsmError(
            f"bounds: {len(pairs)} pairs for the {context.behavior} numbers of a behavior of {context.domain}"
        )
    low, high = (np.array(ends, np.float32) for ends in zip(*pairs, strict=True))
    if not (low < high).all() or not np.isfinite([low, high]).all():
        raise TfsmError(f"bounds={text}: each must be finite, and the first below the second")
    return low, high


def _pair(part: str, text: str) -> tuple[float, float]:
    try:
        low, high = (float(number) for number in part.split(":"))
    except ValueError:
        raise TfsmError(f"bounds={text}: expected LOW:HIGH with commas between, such as 0:200,0:200") from None
    return low, high


def sides(population: int, dimensions: int) -> int:
    """Return how many cells a regular grid of no more than so many cells has along each side."""
    side = round(population ** (1.0 / dimensions))
    return side if side**dimensions <= population else side - 1


def grid(context: SelectionContext, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the middles `[N, D]` of a regular grid's cells; places that are left over are never used."""
    count, dimensions = context.population, context.behavior
    side = sides(count, dimensions)
    if side < 2:
        raise TfsmError(
            f"map-elites: a grid of {dimensions} dimensions with {count} cells has less than two along each side: "
            "use --set archive=cvt, or a larger population"
        )
    steps = (np.arange(side) + 0.5) / side
    unit = np.stack(np.meshgrid(*[steps] * dimensions, indexing="ij"), axis=-1).reshape(-1, dimensions)
    middles = np.full([count, dimensions], np.inf, np.float32)
    middles[: len(unit)] = low + unit * (high - low)
    return middles


def centers(context: SelectionContext, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the centers `[N, D]` of a centroidal Voronoi tessellation (Vassiliades et al. 2018)."""
    count, dimensions = context.population, context.behavior
    random = np.random.default_rng(SEED)
    samples = random.random((SAMPLES * count, dimensions))
    found, _ = kmeans2(samples, samples[:count], iter=ROUNDS, minit="matrix")
    return (low + found * (high - low)).astype(np.float32)


@dataclass(frozen=True, kw_only=True)
class MapElites(MapElitesOptions):
    """Each cell of behavior space holds the best individual that was ever seen there; anybody of these breeds.

    The population is the archive: an individual's place is its cell. What lies beyond the bounds belongs to the nearest
    cell.
    """

    needs: ClassVar[tuple[str, ...]] = ("behavior",)

    def init(self, context: SelectionContext) -> Nest:
        """Return where the cells' middles are, `[N, D]`, and the bounds by which distances are measured, `[2, D]`."""
        low, high = bounds_of(self.bounds, context)
        make = grid if self.archive == "grid" else centers
        return {"middles": make(context, low, high), "bounds": tf.stack([low, high])}

    def select(self, population: Population, seed: Tensor) -> Choice:
        """Choose anybody; where the child goes is known when it has been evaluated."""
        parent = draw_uniformly(tf.math.is_finite(population.fitness), seed)
        return Choice(parent, tf.zeros_like(parent))

    def admit(self, population: Population, candidate: Candidate, seed: Tensor) -> Admission:
        """Let a child into its cell if it is better than who is there."""
        cell = self.cell(population, candidate.behavior)
        holder = tf.gather(population.fitness, cell, batch_dims=1)
        return Admission(cell, candidate.fitness > holder, population.state)

    def cell_centers(self, state: Nest) -> Tensor:
        """Return where the cells' middles are, `[N, D]`, for metrics and pictures."""
        return state["middles"]

    def cell(self, population: Population, behavior: Tensor) -> Tensor:
        """Return the cells of behaviors `[B, D]`: those with the nearest middle."""
        middles, bounds = population.state["middles"], population.state["bounds"]  # [B, N, D], [B, 2, D]
        low, high = bounds[:, 0], bounds[:, 1]
        told = tf.cast(behavior, tf.float32)
        inside = tf.clip_by_value(tf.where(tf.math.is_finite(told), told, low), low, high)
        scale = (high - low)[:, None]
        away = tf.reduce_sum(tf.square((inside[:, None] - middles) / scale), axis=-1)  # [B, N]
        return tf.argmin(away, axis=-1, output_type=tf.int32)
