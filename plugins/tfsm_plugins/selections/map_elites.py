"""MAP-Elites (Mouret and Clune 2015): an archive of the best individual per cell of behavior space."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import tensorflow as tf
from scipy.cluster.vq import kmeans2

from tfsm.abilities import Admission, Candidate, Population, SelectionContext
from tfsm.errors import TfsmError
from tfsm.interfaces import Choice, Nest, Tensor
from tfsm_plugins.selections import MapElitesOptions
from tfsm_plugins.selections.steady_state import draw_uniformly

SAMPLES_PER_CELL: Final = 50
"""Random points per cell, from which k-means computes the centers."""
KMEANS_ITERATIONS: Final = 30
SEED: Final = 0
"""The same cells for every run and seed, so that archives can be compared."""


def parse_bounds(text: str | None, context: SelectionContext) -> tuple[np.ndarray, np.ndarray]:
    """Return the lower and upper bounds of a behavior, `[D]` each.

    Args:
        text: the user's bounds, `LOW:HIGH,LOW:HIGH`, or None for the domain's.
        context: the context, with the domain's bounds.
    """
    if text is None:
        if context.bounds is None:
            example = ",".join(["0:1"] * context.behavior)
            raise TfsmError(
                f"map-elites needs the bounds of behavior, which domain {context.domain} does not define: give "
                f"--set bounds={example}, with LOW:HIGH for each of its {context.behavior} numbers"
            )
        pairs = [(float(low), float(high)) for low, high in context.bounds]
    else:
        pairs = [_pair(part, text) for part in text.split(",")]
    if len(pairs) != context.behavior:
        raise TfsmError(
            f"bounds: {len(pairs)} pairs, but the behavior of {context.domain} has {context.behavior} numbers"
        )
    low, high = (np.array(ends, np.float32) for ends in zip(*pairs, strict=True))
    if not (low < high).all() or not np.isfinite([low, high]).all():
        raise TfsmError(f"bounds={text}: expected finite numbers with LOW < HIGH")
    return low, high


def _pair(part: str, text: str) -> tuple[float, float]:
    try:
        low, high = (float(number) for number in part.split(":"))
    except ValueError:
        raise TfsmError(f"bounds={text}: expected LOW:HIGH separated by commas, such as 0:200,0:200") from None
    return low, high


def cells_per_side(population: int, dimensions: int) -> int:
    """Return the number of cells along each side of the largest regular grid with at most `population` cells."""
    side = round(population ** (1.0 / dimensions))
    return side if side**dimensions <= population else side - 1


def grid_centers(context: SelectionContext, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the centers `[N, D]` of the cells of a regular grid; infinity for slots beyond the grid."""
    count, dimensions = context.population, context.behavior
    side = cells_per_side(count, dimensions)
    if side < 2:
        raise TfsmError(
            f"map-elites: a grid of {dimensions} dimensions with {count} cells has fewer than two cells per side: "
            "use --set archive=cvt or a larger population"
        )
    steps = (np.arange(side) + 0.5) / side
    unit = np.stack(np.meshgrid(*[steps] * dimensions, indexing="ij"), axis=-1).reshape(-1, dimensions)
    centers = np.full([count, dimensions], np.inf, np.float32)
    centers[: len(unit)] = low + unit * (high - low)
    return centers


def cvt_centers(context: SelectionContext, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return the centers `[N, D]` of a centroidal Voronoi tessellation (Vassiliades et al. 2018)."""
    count, dimensions = context.population, context.behavior
    random = np.random.default_rng(SEED)
    samples = random.random((SAMPLES_PER_CELL * count, dimensions))
    unit, _ = kmeans2(samples, samples[:count], iter=KMEANS_ITERATIONS, minit="matrix")
    return (low + unit * (high - low)).astype(np.float32)


@dataclass(frozen=True, kw_only=True)
class MapElites(MapElitesOptions):
    """Each cell of behavior space holds its best individual so far; a parent is drawn uniformly from them.

    The population is the archive: the slot of an individual is its cell. Behavior outside of the bounds belongs to the
    nearest cell.
    """

    needs: ClassVar[tuple[str, ...]] = ("behavior",)

    def init(self, context: SelectionContext) -> Nest:
        """Return the centers of the cells `[N, D]`, and the bounds `[2, D]`, which scale distances."""
        low, high = parse_bounds(self.bounds, context)
        compute_centers = grid_centers if self.archive == "grid" else cvt_centers
        return {"middles": compute_centers(context, low, high), "bounds": tf.stack([low, high])}

    def select(self, population: Population, seed: Tensor) -> Choice:
        """Choose a random elite; the child's slot is known only after its evaluation."""
        parent = draw_uniformly(tf.math.is_finite(population.fitness), seed)
        return Choice(parent, tf.zeros_like(parent))

    def admit(self, population: Population, candidate: Candidate, seed: Tensor) -> Admission:
        """Accept a child that is better than the elite of its cell."""
        cell = self.cell(population, candidate.behavior)
        elite = tf.gather(population.fitness, cell, batch_dims=1)
        return Admission(cell, candidate.fitness > elite, population.state)

    def cell_centers(self, state: Nest) -> Tensor:
        """Return the centers of the cells `[N, D]`, for metrics and plots."""
        return state["middles"]

    def cell(self, population: Population, behavior: Tensor) -> Tensor:
        """Return the cells `[B]` of behaviors `[B, D]`: those with the nearest center."""
        centers, bounds = population.state["middles"], population.state["bounds"]  # [B, N, D], [B, 2, D]
        low, high = bounds[:, 0], bounds[:, 1]
        behavior = tf.cast(behavior, tf.float32)
        inside = tf.clip_by_value(tf.where(tf.math.is_finite(behavior), behavior, low), low, high)
        scale = (high - low)[:, None]
        distances = tf.reduce_sum(tf.square((inside[:, None] - centers) / scale), axis=-1)  # [B, N]
        return tf.argmin(distances, axis=-1, output_type=tf.int32)
