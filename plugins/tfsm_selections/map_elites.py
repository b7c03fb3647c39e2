"""MAP-Elites (Mouret and Clune 2015): the best of every kind of behavior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from tfsm.contracts import Admission, Choice, Nest, Newcomer, Population, Surroundings, Tensor
from tfsm_selections.cells import bounds_of, centers, grid
from tfsm_selections.contests import anybody
from tfsm_selections.options import MapElitesOptions


@dataclass(frozen=True, kw_only=True)
class MapElites(MapElitesOptions):
    """Each cell of behavior space holds the best individual that was ever seen there; anybody of these breeds.

    The population is the archive: an individual's place is its cell. What lies beyond the bounds belongs to the nearest
    cell.
    """

    needs: ClassVar[tuple[str, ...]] = ("behavior",)

    def memory(self, surroundings: Surroundings) -> Nest:
        """Return where the cells' middles are, `[N, D]`, and the bounds by which distances are measured, `[2, D]`."""
        low, high = bounds_of(self.bounds, surroundings)
        make = grid if self.archive == "grid" else centers
        return {"middles": make(surroundings, low, high), "bounds": tf.stack([low, high])}

    def select(self, population: Population, seed: Tensor) -> Choice:
        """Choose anybody; where the child goes is known when it has been evaluated."""
        parent = anybody(tf.math.is_finite(population.fitness), seed)
        return Choice(parent, tf.zeros_like(parent))

    def admit(self, population: Population, newcomer: Newcomer, seed: Tensor) -> Admission:
        """Let a child into its cell if it is better than who is there."""
        cell = self.cell(population, newcomer.behavior)
        holder = tf.gather(population.fitness, cell, batch_dims=1)
        return Admission(cell, newcomer.fitness > holder, population.memory)

    def cells(self, memory: Nest) -> Tensor:
        """Return where the cells' middles are, `[N, D]`, for metrics and pictures."""
        return memory["middles"]

    def cell(self, population: Population, behavior: Tensor) -> Tensor:
        """Return the cells of behaviors `[B, D]`: those with the nearest middle."""
        middles, bounds = population.memory["middles"], population.memory["bounds"]  # [B, N, D], [B, 2, D]
        low, high = bounds[:, 0], bounds[:, 1]
        told = tf.cast(behavior, tf.float32)
        inside = tf.clip_by_value(tf.where(tf.math.is_finite(told), told, low), low, high)
        scale = (high - low)[:, None]
        away = tf.reduce_sum(tf.square((inside[:, None] - middles) / scale), axis=-1)  # [B, N]
        return tf.argmin(away, axis=-1, output_type=tf.int32)
