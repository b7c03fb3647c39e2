"""Lexicase selection (Spector 2012), with the epsilon of La Cava et al. (2016) for real-valued cases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from tfsm.abilities import Admission, Candidate, Population, SelectionContext
from tfsm.interfaces import Choice, Nest, Tensor
from tfsm.kernels.random import split, uniform
from tfsm_plugins.selections import LexicaseOptions
from tfsm_plugins.selections.steady_state import draw_tournament, draw_uniformly


@dataclass(frozen=True, kw_only=True)
class Lexicase(LexicaseOptions):
    """Filter the population by one case after another, in random order: only individuals close to the best remain.

    A remaining individual becomes the parent, which favors specialists over generalists.
    """

    needs: ClassVar[tuple[str, ...]] = ("cases",)

    def init(self, context: SelectionContext) -> Nest:
        """Return an empty state."""
        return ()

    def select(self, population: Population, seed: Tensor) -> Choice:
        """Select the parent case by case, and the individual to replace by tournament."""
        order_seed, last_seed, removal_seed = split(seed, 3)
        cases = population.cases  # [B, N, C]
        number = cases.shape[-1]
        order = tf.argsort(uniform(order_seed, number), axis=-1)  # [B, C]
        epsilon = self._epsilon(cases, tf.math.is_finite(population.fitness))

        def filter_by_case(i: Tensor, remaining: Tensor) -> tuple[Tensor, Tensor]:
            case = order[:, i]
            values = tf.gather(cases, case, axis=2, batch_dims=1)  # [B, N]
            values = tf.where(remaining, values, float("-inf"))
            threshold = tf.reduce_max(values, axis=-1) - tf.gather(epsilon, case, batch_dims=1)
            return i + 1, remaining & (values >= threshold[:, None])

        healthy = tf.math.is_finite(population.fitness)
        _, remaining = tf.while_loop(
            lambda i, _: i < number, filter_by_case, (tf.constant(0), healthy), maximum_iterations=number
        )
        _, replaced = draw_tournament(
            lambda entrants: tf.gather(population.fitness, entrants, batch_dims=1),
            population.fitness.shape[-1],
            self.size,
            removal_seed,
        )
        return Choice(draw_uniformly(remaining, last_seed), replaced)

    def admit(self, population: Population, candidate: Candidate, seed: Tensor) -> Admission:
        """Accept every child."""
        return Admission(candidate.slot, tf.ones_like(candidate.slot, tf.bool), ())

    def _epsilon(self, cases: Tensor, healthy: Tensor) -> Tensor:
        """Return the tolerance per case: `[B, C]`."""
        if self.epsilon is not None:
            return tf.fill(tf.shape(cases[:, 0]), self.epsilon)
        count = tf.reduce_sum(tf.cast(healthy, tf.int32), axis=-1)
        median = _median(cases, healthy, count)
        return _median(tf.abs(cases - median[:, None]), healthy, count)


def _median(values: Tensor, included: Tensor, count: Tensor) -> Tensor:
    """Return the lower median of the included individuals along the second axis: `[B, C]`."""
    ordered = tf.sort(tf.where(included[..., None], values, float("inf")), axis=1)
    return tf.gather(ordered, tf.maximum(count - 1, 0) // 2, axis=1, batch_dims=1)
