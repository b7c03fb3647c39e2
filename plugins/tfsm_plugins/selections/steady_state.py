"""Steady-state schemes that only look at fitness: tournament, hill-climber and random."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from tfsm.interfaces import Choice, Tensor
from tfsm.kernels.random import distinct_integers, split, uniform
from tfsm_plugins.selections import HillClimberOptions, RandomOptions, TournamentOptions


@dataclass(frozen=True, kw_only=True)
class HillClimber(HillClimberOptions):
    """The champion is always the parent; only a better child replaces it."""

    batched: ClassVar[bool] = True

    def choose(self, fitness: Tensor, seed: Tensor) -> Choice:
        """Choose the only individual of each population `[B, 1]`."""
        champion = tf.zeros_like(fitness[..., 0], tf.int32)
        return Choice(champion, champion)

    def accepts(self, child: Tensor, replaced: Tensor) -> Tensor:
        """Accept a better child."""
        return child > replaced


@dataclass(frozen=True, kw_only=True)
class RandomSelection(RandomOptions):
    """Parent and replaced individual are random; every child is accepted."""

    batched: ClassVar[bool] = True

    def choose(self, fitness: Tensor, seed: Tensor) -> Choice:
        """Choose uniformly from populations `[B, N]`."""
        population = fitness.shape[-1]
        parent, replaced = (tf.cast(uniform(key, 1)[..., 0] * population, tf.int32) for key in split(seed, 2))
        return Choice(parent, replaced)

    def accepts(self, child: Tensor, replaced: Tensor) -> Tensor:
        """Accept every child."""
        return tf.ones_like(child, tf.bool)


def draw_uniformly(eligible: Tensor, seed: Tensor) -> Tensor:
    """Draw one of the eligible individuals of `[B, N]` uniformly, with seeds `[B, 2]`; return indices `[B]`."""
    keys = tf.where(eligible, uniform(seed, eligible.shape[-1]), -1.0)
    return tf.argmax(keys, axis=-1, output_type=tf.int32)


def draw_tournament(
    score: Callable[[Tensor], Tensor], population: int, size: int, seed: Tensor, *, later_best: bool = False
) -> tuple[Tensor, Tensor]:
    """Draw individuals without replacement; return the best `[B]` and the worst `[B]`.

    Of equally good ones, the last is the worst. The best is the first, or with `later_best` also the last: if all are
    equally good, the same individual is then the best and the worst.

    Args:
        score: a function from indices `[B, size]` to scores `[B, size]`.
        population: N.
        size: the tournament size, at most N individuals are drawn.
        seed: `[B, 2]`.
        later_best: whether the last of the best is chosen, instead of the first.
    """
    size = min(size, population)
    entrants = distinct_integers(seed, size, population)
    scores = score(entrants)
    worst = size - 1 - tf.argmin(scores[..., ::-1], axis=-1)
    best = size - 1 - tf.argmax(scores[..., ::-1], axis=-1) if later_best else tf.argmax(scores, axis=-1)
    return tf.gather(entrants, best, batch_dims=1), tf.gather(entrants, worst, batch_dims=1)


@dataclass(frozen=True, kw_only=True)
class Tournament(TournamentOptions):
    """The best of a tournament is the parent, the worst of a tournament is replaced, every child is accepted.

    The paper does not say which individual is replaced. The default is the obvious reading, a fresh tournament. The
    paper's published code replaces the worst of the tournament that selected the parent (`removal = "same"`), and of
    equals prefers the later one for both roles (`removal = "same-later"`): a parent among equals is replaced itself.
    """

    batched: ClassVar[bool] = True

    def choose(self, fitness: Tensor, seed: Tensor) -> Choice:
        """Choose from populations `[B, N]`."""
        parent_seed, removal_seed = split(seed, 2)
        population = fitness.shape[-1]

        def score(entrants: Tensor) -> Tensor:
            return tf.gather(fitness, entrants, batch_dims=1)

        later_best = self.removal == "same-later"
        parent, replaced = draw_tournament(score, population, self.size, parent_seed, later_best=later_best)
        if self.removal == "fresh":
            _, replaced = draw_tournament(score, population, self.size, removal_seed)
        return Choice(parent, replaced)

    def accepts(self, child: Tensor, replaced: Tensor) -> Tensor:
        """Accept every child."""
        return tf.ones_like(child, tf.bool)
