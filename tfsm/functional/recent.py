"""A table that does not grow for ever."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import RLock
from typing import Any, Final

MOST: Final = 64
"""More than a program needs that has a few operators; fewer than it notices if it makes new ones all the time."""


class Recent:
    """Keeps what was made for a key, and of more than `MOST` keys those that were used last.

    Things are made one at a time, whoever asks: two threads do not make the same one, nor trace one model at once.
    """

    def __init__(self) -> None:
        self._kept: dict[Hashable, Any] = {}
        self._lock = RLock()
        self.made = 0
        """How many things were made so far."""

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return what is kept for a key, or make it."""
        with self._lock:
            found = self._kept.pop(key) if key in self._kept else self._new(make)
            self._kept[key] = found  # the last of all
            if len(self._kept) > MOST:
                del self._kept[next(iter(self._kept))]
            return found

    def _new(self, make: Callable[[], Any]) -> Any:
        made = make()
        self.made += 1
        return made

    def __len__(self) -> int:
        return len(self._kept)
