"""The paper's selection: a steady state with tournaments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from tfsm.contracts import Choice, Tensor
from tfsm.kernels.noise import split
from tfsm_selections.contests import contest
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

        def score(rivals: Tensor) -> Tensor:
            return tf.gather(fitness, rivals, batch_dims=1)

        parent, replaced = contest(score, population, self.size, parent_seed)
        if self.removal == "fresh":
            _, replaced = contest(score, population, self.size, removal_seed)
        return Choice(parent, replaced)

    def accepts(self, child: Tensor, replaced: Tensor) -> Tensor:
        """Let every child in."""
        return tf.ones_like(child, tf.bool)
