"""Novelty search (Lehman and Stanley 2011): selection for novel behavior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from tfsm.abilities import Admission, Candidate, Population, SelectionContext
from tfsm.interfaces import Choice, Nest, Tensor
from tfsm.kernels.random import fold_in, split, uniform
from tfsm_plugins.selections import NoveltyOptions
from tfsm_plugins.selections.steady_state import draw_tournament


@dataclass(frozen=True, kw_only=True)
class Novelty(NoveltyOptions):
    r"""Tournaments by novelty: the most novel individual is the parent, the least novel is replaced.

    .. math:: \rho(x) = \frac1k \sum_{i=1}^k |b(x) - b_i|

    over the `k` behaviors nearest to `b(x)` in the population and the archive. A random share of the children is added
    to the archive. Fitness only determines the champion.
    """

    needs: ClassVar[tuple[str, ...]] = ("behavior",)

    def init(self, context: SelectionContext) -> Nest:
        """Return an empty archive, and the number of behaviors added to it so far."""
        return {"archive": tf.zeros([self.archive, context.behavior]), "count": tf.constant(0)}

    def select(self, population: Population, seed: Tensor) -> Choice:
        """Select by novelty."""
        parent_seed, removal_seed = split(seed, 2)
        number = population.fitness.shape[-1]

        def score(entrants: Tensor) -> Tensor:
            return self.novelty(population, entrants)

        parent, _ = draw_tournament(score, number, self.size, parent_seed)
        _, replaced = draw_tournament(score, number, self.size, removal_seed)
        return Choice(parent, replaced)

    def admit(self, population: Population, candidate: Candidate, seed: Tensor) -> Admission:
        """Accept every child, and add some to the archive."""
        archive, count = population.state["archive"], population.state["count"]
        healthy = tf.math.is_finite(candidate.fitness)
        added = healthy & (uniform(fold_in(seed, 1), 1)[:, 0] < self.archived)
        position = added[:, None] & tf.equal(tf.range(self.archive), (count % self.archive)[:, None])  # [B, A]
        behavior = tf.cast(candidate.behavior, archive.dtype)[:, None]
        state = {"archive": tf.where(position[..., None], behavior, archive), "count": count + tf.cast(added, tf.int32)}
        return Admission(candidate.slot, tf.ones_like(added), state)

    def novelty(self, population: Population, indices: Tensor) -> Tensor:
        """Return the novelty of some individuals: `[B, size]`; -1 for broken ones."""
        behavior = tf.cast(population.behavior, tf.float32)  # [B, N, D]
        archive, count = population.state["archive"], population.state["count"]
        queries = tf.gather(behavior, indices, batch_dims=1)  # [B, S, D]
        others = tf.concat([behavior, archive], axis=1)
        healthy = tf.math.is_finite(population.fitness)
        known = tf.concat([healthy, tf.range(self.archive) < count[:, None]], axis=1)  # [B, N + A]
        itself = tf.equal(tf.range(others.shape[1]), indices[..., None])  # [B, S, N + A]
        distances = tf.norm(queries[:, :, None] - others[:, None], axis=-1)
        distances = tf.where(known[:, None] & ~itself, distances, float("inf"))
        nearest = -tf.math.top_k(-distances, min(self.neighbors, others.shape[1])).values
        exists = tf.math.is_finite(nearest)
        total = tf.reduce_sum(tf.where(exists, nearest, 0.0), axis=-1)
        mean = tf.math.divide_no_nan(total, tf.reduce_sum(tf.cast(exists, tf.float32), axis=-1))
        return tf.where(tf.gather(healthy, indices, batch_dims=1), mean, -1.0)
