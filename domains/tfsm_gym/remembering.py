"""What is kept of episodes for the operators to look at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from tfsm.rollouts.remembering import Memory, spread
from tfsm_gym.rollout import Watching

Moment = tuple[np.ndarray, list[np.ndarray]]
"""Which of a genome's episodes were on, `[E]`, and what was seen in them, `[E, ...]`."""


class Recall(Watching, Protocol):
    """Somebody who watches and remembers."""

    def all(self) -> list[np.ndarray]:
        """Return what is remembered, `[B, ...]` for each of the inputs."""
        ...


class Moments:
    """Some observations of every genome, evenly spread over all steps of all its episodes.

    Args:
        genomes: B.
        count: how many of each.
    """

    def __init__(self, genomes: int, count: int) -> None:
        self._count = count
        # Each by its own clock: what is kept of one genome does not depend on how long others go on.
        self._memories: list[Memory[Moment]] = [Memory(count) for _ in range(genomes)]

    def see(self, seen: Sequence[np.ndarray], on: np.ndarray) -> None:
        """Look at what is seen now."""
        for b in np.flatnonzero(on.any(axis=1)).tolist():
            if self._memories[b].passes():
                self._memories[b].keep((on[b].copy(), [part[b].copy() for part in seen]))

    def all(self) -> list[np.ndarray]:
        """Return `[B, count, ...]`, one episode after the other."""
        chosen = [spread(_in_order(memory.kept), self._count) for memory in self._memories]
        parts = range(len(chosen[0][0]))
        return [np.stack([np.stack([one[part] for one in own]) for own in chosen]) for part in parts]


def _in_order(moments: Sequence[Moment]) -> list[list[np.ndarray]]:
    episodes = range(len(moments[0][0]))
    return [[part[episode] for part in seen] for episode in episodes for on, seen in moments if on[episode]]


class Beginning:
    """The first steps of every genome's first episode, for networks that take sequences.

    Args:
        count: T, how many; where the episode was shorter, the last is there again and again.
    """

    def __init__(self, count: int) -> None:
        self._count, self._step = count, 0
        self._kept: list[np.ndarray] = []

    def see(self, seen: Sequence[np.ndarray], on: np.ndarray) -> None:
        """Look at what is seen now."""
        if not self._kept:
            self._kept = [np.repeat(part[:, :1, None], self._count, axis=2) for part in seen]
        if self._step < self._count:
            for kept, part in zip(self._kept, seen, strict=True):
                # From here on to the end: what comes later overwrites it.
                kept[on[:, 0], 0, self._step :] = part[on[:, 0], 0, None]
        self._step += 1

    def all(self) -> list[np.ndarray]:
        """Return `[B, 1, T, ...]`."""
        return self._kept
