"""When it is time for a checkpoint: by the clock or by evaluations, and never so often that it slows a run down."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tfsm.errors import TfsmError

SHARE: Final = 0.03
"""Of the time, what checkpoints by the clock may take at the most."""
SPEED: Final = 2e8
"""Bytes a second that the first checkpoint is expected to be written with; from then on it is known."""
_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0}
_NEVER: Final = ("never", "off")


@dataclass(frozen=True)
class CheckpointInterval:
    """How often; never, where both are None."""

    seconds: float | None = None
    evaluations: int | None = None

    def __bool__(self) -> bool:
        return self.seconds is not None or self.evaluations is not None


def parse_interval(text: str) -> CheckpointInterval:
    """Understand what a user says about how often.

    >>> parse_every("90s"), parse_every("5m").seconds, parse_every("10000").evaluations, bool(parse_every("never"))
    (Every(seconds=90.0, evaluations=None), 300.0, 10000, False)
    """
    told = text.strip().lower()
    if told in _NEVER:
        return CheckpointInterval()
    found = re.fullmatch(r"(\d[\d_]*(?:\.\d+)?)\s*([smh]?)", told)
    number = float(found[1].replace("_", "")) if found else 0.0
    if found and found[2] and number > 0:
        return CheckpointInterval(seconds=number * _UNITS[found[2]])
    if found and not found[2] and number >= 1 and number == int(number):
        return CheckpointInterval(evaluations=int(number))
    raise TfsmError(
        f"checkpoint_every={text}: expected seconds, minutes or hours (30s, 5m, 1h), a number of evaluations (10000), "
        "or never"
    )


class CheckpointSchedule:
    """Says when the next checkpoint is due.

    By the clock, it waits longer where one takes long: so that all of them take no more than `SHARE` of the time.

    Args:
        every: how often.
        clock: seconds that only ever grow, whatever becomes of the time of day.
        size: bytes that a checkpoint is likely to have.
    """

    def __init__(self, every: CheckpointInterval, clock: Callable[[], float] = time.monotonic, size: int = 0) -> None:
        self._every, self._clock = every, clock
        self._next = clock() + max(every.seconds or 0.0, size / SPEED / SHARE)
        self._last = 0

    def bound(self, spent: int) -> int:
        """Return the number of evaluations, above `spent`, at which to look again at the latest."""
        every = self._every.evaluations
        return 2**62 if every is None else (spent // every + 1) * every

    def is_due(self, spent: int) -> bool:
        """Say whether it is time."""
        if self._every.evaluations is not None:
            if spent < self._last:  # of other runs
                self._last = 0
            return spent // self._every.evaluations > self._last // self._every.evaluations
        return self._every.seconds is not None and self._clock() >= self._next

    def record(self, spent: int, seconds: float) -> None:
        """Hear that there was a checkpoint just now, and how long it took."""
        self._last = spent
        self._next = self._clock() + max(self._every.seconds or 0.0, seconds / SHARE)
