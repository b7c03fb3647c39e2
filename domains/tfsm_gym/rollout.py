"""Episodes in lock step: all that are still on are asked at once, then each goes on by its answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from tfsm.rollouts.asking import Decide
from tfsm_gym.acting import Actor
from tfsm_gym.environments import Environments
from tfsm_gym.observing import Reader


class Watching(Protocol):
    """Somebody who is shown what is seen at every step."""

    def see(self, seen: Sequence[np.ndarray], on: np.ndarray) -> None:
        """Look at `[B, E, ...]`; only where `on`, `[B, E]`, it is of this step."""
        ...


class Played(NamedTuple):
    """What came of B genomes' E episodes each."""

    total: np.ndarray
    """`[B, E]`, the sum of rewards; NaN where an output or a reward was no number."""
    steps: np.ndarray
    """`[B, E]`"""
    terminated: np.ndarray
    """`[B, E]`, bool: whether the environment came to an end, and not only the time."""


def play(
    environments: Environments,
    reader: Reader,
    actor: Actor,
    decide: Decide,
    seeds: np.ndarray,
    *,
    hold: int = 1,
    watching: Watching | None = None,
) -> Played:
    """Play episodes, all side by side.

    Args:
        environments: where.
        reader: what is seen of them.
        actor: how answers are read.
        decide: who acts.
        seeds: of the episodes, `[B, E]`.
        hold: steps that each action is held for.
        watching: shown what is seen.
    """
    count = seeds.size
    seen = [np.zeros([*seeds.shape, *x.shape], x.dtype) for x in reader.blank.values()]
    flat = [part.reshape([count, *part.shape[2:]]) for part in seen]  # the same numbers
    reader.see(environments.reset(seeds.ravel().tolist()), flat, np.arange(count))
    total, steps, terminated = np.zeros(count), np.zeros(count, np.int64), np.zeros(count, bool)
    on = np.ones(count, bool)
    while True:
        if watching is not None:
            watching.see(seen, on.reshape(seeds.shape))
        answers = decide(seen).reshape([count, -1])
        sound = np.isfinite(answers).all(axis=1)
        total[on & ~sound] = np.nan
        on &= sound
        going = np.flatnonzero(on)
        if not len(going):
            break
        found = environments.step(going.tolist(), list(actor.act(answers[going])), hold)
        total[going] += [stepped.reward for stepped in found]
        steps[going] += [stepped.steps for stepped in found]
        terminated[going] = [stepped.terminated for stepped in found]
        on[going] = [not (stepped.terminated or stepped.truncated) for stepped in found]
        reader.see([stepped.observation for stepped in found], flat, going)
    total[~np.isfinite(total)] = np.nan
    return Played(*(x.reshape(seeds.shape) for x in (total, steps, terminated)))
