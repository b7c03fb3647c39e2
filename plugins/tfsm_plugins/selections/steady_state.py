"""Tournament, hill-climber, random."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from tfsm.interfaces import Choice, Tensor
from tfsm.kernels.random import distinct_integers, split, uniform
from tfsm_plugins.selections.options import HillClimberOptions, RandomOptions, TournamentOptions


@dataclass(frozen=True, kw_only=True)
class HillClimber(HillClimberOptions):
    """The champion is always the parent; a child takes its place only by being better."""

    batched: ClassVar[bool] = True

    def choose(self, fitness: Tensor, seed: Tensor) -> Choice:
        """Choose the only one there is, in populations `[B, 1]`."""
        champion = tf.zeros_like(fitness[..., 0], tf.int32)
        return Choice(champion, champion)

    def accepts(self, child: Tensor, replaced: Tensor) -> Tensor:
        """Let a better child in."""
        return child > replaced


@dataclass(frozen=True, kw_only=True)
class RandomSelection(RandomOptions):
    """Anybody becomes the parent, anybody leaves, the child always enters."""

    batched: ClassVar[bool] = True

    def choose(self, fitness: Tensor, seed: Tensor) -> Choice:
        """Choose from populations `[B, N]`, of which all are equally likely."""
        population = fitness.shape[-1]
        parent, replaced = (tf.cast(uniform(own, 1)[..., 0] * population, tf.int32) for own in split(seed, 2))
        return Choice(parent, replaced)

    def accepts(self, child: Tensor, replaced: Tensor) -> Tensor:
        """Let every child in."""
        return tf.ones_like(child, tf.bool)


def draw_uniformly(among: Tensor, seed: Tensor) -> Tensor:
    """Draw one of those marked in `[B, N]`, all equally likely, with seeds `[B, 2]`: `[B]`."""
    drawn = tf.where(among, uniform(seed, among.shape[-1]), -1.0)
    return tf.argmax(drawn, axis=-1, output_type=tf.int32)


def draw_tournament(
    score: Callable[[Tensor], Tensor], population: int, size: int, seed: Tensor
) -> tuple[Tensor, Tensor]:
    """Draw a few without replacement; return the best `[B]` and the worst `[B]`, of equals the first and the last.

    Args:
        score: from who takes part, `[B, size]`, to how well they do.
        population: N.
        size: how many take part, all of them where there are no more.
        seed: `[B, 2]`
    """
    size = min(size, population)
    rivals = distinct_integers(seed, size, population)
    found = score(rivals)
    worst = size - 1 - tf.argmin(found[..., ::-1], axis=-1)
    best = tf.argmax(found, axis=-1)
    return tf.gather(rivals, best, batch_dims=1), tf.gather(rivals, worst, batch_dims=1)


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

        parent, replaced = draw_tournament(score, population, self.size, parent_seed)
        if self.removal == "fresh":
            _, replaced = draw_tournament(score, population, self.size, removal_seed)
        return Choice(parent, replaced)

    def accepts(self, child: Tensor, replaced: Tensor) -> Tensor:
        """Let every child in."""
        return tf.ones_like(child, tf.bool)
