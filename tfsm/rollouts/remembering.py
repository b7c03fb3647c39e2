"""Keeping some of very many things."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np

T = TypeVar("T")


class Memory(Generic[T]):
    """Keeps some of many things, evenly spread over all of them however many they become.

    Args:
        count: how many to keep at least, once there were so many; there are fewer than twice as many at any time.
    """

    def __init__(self, count: int) -> None:
        self._count, self._every, self._seen = count, 1, 0
        self.kept: list[T] = []
        """From the first on."""

    def passes(self) -> bool:
        """Take notice of one more, and say whether to keep it: then `keep` comes next."""
        self._seen += 1
        return (self._seen - 1) % self._every == 0

    def keep(self, thing: T) -> None:
        """Keep what was taken notice of last."""
        self.kept.append(thing)
        if len(self.kept) == 2 * self._count:
            self.kept, self._every = self.kept[::2], 2 * self._every


def spread(things: Sequence[T], count: int) -> list[T]:
    """Choose so many, evenly spread from the first to the last; where there are fewer, some more than once.

    >>> spread("abcdefg", 3), spread("ab", 4)
    (['a', 'd', 'g'], ['a', 'a', 'b', 'b'])
    """
    return [things[i] for i in np.linspace(0, len(things) - 1, count).round().astype(int)]
