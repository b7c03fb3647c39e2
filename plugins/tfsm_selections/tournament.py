"""The paper's selection: a steady state with tournaments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from tfsm.contracts import Choice, Tensor
from tfsm.kernels.noise import distinct_integers, split
from tfsm_selections.options import TournamentOptions


@dataclass(frozen=True, kw_only=True)
class Tournament(TournamentOptions):
    """The best of a few becomes the parent, the worst of a few leaves, the child always enters.

    The paper does not say who leaves. The obvious reading, a fresh tournament, is the default; its published code
    removes the worst of the same tournament that chose the parent (`removal = "same"`).
    """

    batched: ClassVar[bool] = True

    def choose(self, fitness: Tensor, seed: Tensor) -> Choice:
        """Choose from populations `[B, N]`."""
        parent_seed, removal_seed = split(seed, 2)
        population = fitness.shape[-1]
        contest = distinct_integers(parent_seed, self.size, population)  # [B, size]
        rivals = tf.gather(fitness, contest, batch_dims=1)
        parent = tf.gather(contest, tf.argmax(rivals, axis=-1), batch_dims=1)
        if self.removal == "fresh":
            contest = distinct_integers(removal_seed, self.size, population)
            rivals = tf.gather(fitness, contest, batch_dims=1)
        # Among equals the later one leaves.
        last_worst = self.size - 1 - tf.argmin(rivals[..., ::-1], axis=-1)
        return Choice(parent, tf.gather(contest, last_worst, batch_dims=1))

    def accepts(self, child: Tensor, replaced: Tensor) -> Tensor:
        """Let every child in."""
        return tf.ones_like(child, tf.bool)
