"""Lexicase selection (Spector 2012), with the slack of La Cava et al. (2016) for cases that are numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from tfsm.interfaces import Admission, Candidate, Choice, Nest, Population, SelectionContext, Tensor
from tfsm.kernels.random import split, uniform
from tfsm_plugins.selections.options import LexicaseOptions
from tfsm_plugins.selections.steady_state import draw_tournament, draw_uniformly


@dataclass(frozen=True, kw_only=True)
class Lexicase(LexicaseOptions):
    """Go through the cases in random order, and keep in each only those who are about as good as the best.

    Whoever is left breeds: somebody who is good at something, rather than at everything a little.
    """

    needs: ClassVar[tuple[str, ...]] = ("cases",)

    def init(self, context: SelectionContext) -> Nest:
        """Return nothing: nothing is remembered."""
        return ()

    def select(self, population: Population, seed: Tensor) -> Choice:
        """Choose the parent case by case, and the worst of a few to leave."""
        order_seed, last_seed, removal_seed = split(seed, 3)
        cases = population.cases  # [B, N, C]
        number = cases.shape[-1]
        order = tf.argsort(uniform(order_seed, number), axis=-1)  # [B, C]
        slack = self._slack(cases, tf.math.is_finite(population.fitness))

        def passed(i: Tensor, left: Tensor) -> tuple[Tensor, Tensor]:
            case = order[:, i]
            values = tf.gather(cases, case, axis=2, batch_dims=1)  # [B, N]
            values = tf.where(left, values, float("-inf"))
            least = tf.reduce_max(values, axis=-1) - tf.gather(slack, case, batch_dims=1)
            return i + 1, left & (values >= least[:, None])

        healthy = tf.math.is_finite(population.fitness)
        _, left = tf.while_loop(lambda i, _: i < number, passed, (tf.constant(0), healthy), maximum_iterations=number)
        _, replaced = draw_tournament(
            lambda rivals: tf.gather(population.fitness, rivals, batch_dims=1),
            population.fitness.shape[-1],
            self.size,
            removal_seed,
        )
        return Choice(draw_uniformly(left, last_seed), replaced)

    def admit(self, population: Population, candidate: Candidate, seed: Tensor) -> Admission:
        """Let every child in."""
        return Admission(candidate.slot, tf.ones_like(candidate.slot, tf.bool), ())

    def _slack(self, cases: Tensor, healthy: Tensor) -> Tensor:
        """Return how far behind the best still passes: `[B, C]`."""
        if self.epsilon is not None:
            return tf.fill(tf.shape(cases[:, 0]), self.epsilon)
        count = tf.reduce_sum(tf.cast(healthy, tf.int32), axis=-1)
        middle = _median(cases, healthy, count)
        return _median(tf.abs(cases - middle[:, None]), healthy, count)


def _median(values: Tensor, counted: Tensor, count: Tensor) -> Tensor:
    """Return the median (of two middle ones the lower) of those counted along the second axis: `[B, C]`."""
    ordered = tf.sort(tf.where(counted[..., None], values, float("inf")), axis=1)
    return tf.gather(ordered, tf.maximum(count - 1, 0) // 2, axis=1, batch_dims=1)
