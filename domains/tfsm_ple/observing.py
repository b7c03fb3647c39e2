"""What the network sees of a game, and what is kept of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol

import numpy as np

from tfsm.errors import TfsmError
from tfsm_ple.playing import Play

NOTHING: Final = -1.0
"""Stands where a list has no more numbers: no distance and no place on a screen is negative."""


class Observer(Protocol):
    """Looks at a game."""

    @property
    def blank(self) -> np.ndarray:
        """An observation of nothing, for its shape and type."""
        ...

    def see(self, play: Play) -> np.ndarray:
        """Return what there is to be seen now."""
        ...


class Pixels:
    """The screen in grey.

    Args:
        side: pixels of each side.
    """

    def __init__(self, side: int) -> None:
        self._side = side
        self.blank: np.ndarray = np.zeros((side, side), np.uint8)
        """`[side, side]`"""

    def see(self, play: Play) -> np.ndarray:
        """Return the screen: `[side, side]`, bytes."""
        return play.grey(self._side)


class States:
    """The numbers that a game says of itself, in the alphabetical order of their names.

    Args:
        name: the game's, for messages.
        first: what it says of itself at the start.
        slots: how many numbers to keep of a list, which may grow; one that starts longer keeps its length.
        scale: what every number is multiplied with.
    """

    def __init__(self, name: str, first: Any, *, slots: int, scale: float) -> None:
        self._name, self._scale = name, scale
        if first is None:
            raise self._refused("has no state")
        self._lengths = {path: self._length(value, slots) for path, value in _leaves(first)}
        self.blank: np.ndarray = np.zeros(sum(self._lengths.values()), np.float32)
        """`[numbers]`"""

    def see(self, play: Play) -> np.ndarray:
        """Return the state's numbers."""
        return self.row(play.state())

    def row(self, state: Any) -> np.ndarray:
        """Return a state as a row of always the same numbers."""
        row, at = np.full_like(self.blank, NOTHING), 0
        leaves = dict(_leaves(state))
        if leaves.keys() != self._lengths.keys():
            raise self._refused("has a state whose names change")
        for path, length in self._lengths.items():
            numbers = self._numbers(leaves[path])[:length]
            row[at : at + len(numbers)] = numbers * self._scale
            at += length
        return row

    def _length(self, value: Any, slots: int) -> int:
        length = len(self._numbers(value))
        return max(length, slots) if isinstance(value, list) else length

    def _numbers(self, value: Any) -> np.ndarray:
        try:
            return np.ravel(np.asarray(value, np.float32))
        except (TypeError, ValueError):
            raise self._refused(f"has {value!r} in its state, which is no number") from None

    def _refused(self, why: str) -> TfsmError:
        return TfsmError(f"the game {self._name!r} {why}: use --set observation=pixels")


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, Mapping):
        for key in sorted(value, key=str):
            yield from _leaves(value[key], (*path, str(key)))
    else:
        yield path, value
