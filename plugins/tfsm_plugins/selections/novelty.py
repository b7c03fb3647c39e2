"""Novelty search (Lehman and Stanley 2011): selection for what nobody has done before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from tfsm.interfaces import Admission, Candidate, Choice, Nest, Population, SelectionContext, Tensor
from tfsm.kernels.random import fold_in, split, uniform
from tfsm_plugins.selections.options import NoveltyOptions
from tfsm_plugins.selections.steady_state import draw_tournament


@dataclass(frozen=True, kw_only=True)
class Novelty(NoveltyOptions):
    r"""Let the most novel of a few breed, and the least novel of a few leave.

    .. math:: \rho(x) = \frac1k \sum_{i=1}^k |b(x) - b_i|

    over the `k` behaviors nearest to `b(x)` among those of the population and of the archive, which gets a random
    share of all children. Fitness says who is champion, and no more.
    """

    needs: ClassVar[tuple[str, ...]] = ("behavior",)

    def init(self, context: SelectionContext) -> Nest:
        """Return an empty archive, and how many were put into it."""
        return {"archive": tf.zeros([self.archive, context.behavior]), "count": tf.constant(0)}

    def select(self, population: Population, seed: Tensor) -> Choice:
        """Choose by novelty."""
        parent_seed, removal_seed = split(seed, 2)
        number = population.fitness.shape[-1]

        def score(rivals: Tensor) -> Tensor:
            return self.novelty(population, rivals)

        parent, _ = draw_tournament(score, number, self.size, parent_seed)
        _, replaced = draw_tournament(score, number, self.size, removal_seed)
        return Choice(parent, replaced)

    def admit(self, population: Population, candidate: Candidate, seed: Tensor) -> Admission:
        """Let every child in, and put some into the archive."""
        archive, count = population.state["archive"], population.state["count"]
        healthy = tf.math.is_finite(candidate.fitness)
        kept = healthy & (uniform(fold_in(seed, 1), 1)[:, 0] < self.archived)
        here = kept[:, None] & tf.equal(tf.range(self.archive), (count % self.archive)[:, None])  # [B, A]
        told = tf.cast(candidate.behavior, archive.dtype)[:, None]
        state = {"archive": tf.where(here[..., None], told, archive), "count": count + tf.cast(kept, tf.int32)}
        return Admission(candidate.slot, tf.ones_like(kept), state)

    def novelty(self, population: Population, who: Tensor) -> Tensor:
        """Return how novel some of the individuals are: `[B, size]`; broken ones are not at all."""
        behavior = tf.cast(population.behavior, tf.float32)  # [B, N, D]
        archive, count = population.state["archive"], population.state["count"]
        own = tf.gather(behavior, who, batch_dims=1)  # [B, S, D]
        others = tf.concat([behavior, archive], axis=1)
        healthy = tf.math.is_finite(population.fitness)
        known = tf.concat([healthy, tf.range(self.archive) < count[:, None]], axis=1)  # [B, N + A]
        itself = tf.equal(tf.range(others.shape[1]), who[..., None])  # [B, S, N + A]
        away = tf.norm(own[:, :, None] - others[:, None], axis=-1)
        away = tf.where(known[:, None] & ~itself, away, float("inf"))
        nearest = -tf.math.top_k(-away, min(self.neighbors, others.shape[1])).values
        there = tf.math.is_finite(nearest)
        total = tf.reduce_sum(tf.where(there, nearest, 0.0), axis=-1)
        mean = tf.math.divide_no_nan(total, tf.reduce_sum(tf.cast(there, tf.float32), axis=-1))
        return tf.where(tf.gather(healthy, who, batch_dims=1), mean, -1.0)
