"""When to write checkpoints: by the clock or by evaluations, and never so often that it slows a run down."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tfsm.errors import TfsmError

SHARE: Final = 0.03
"""Maximum share of the time that checkpoints by the clock may take."""
SPEED: Final = 2e8
"""Expected bytes per second of the first checkpoint; after that the speed is known."""
_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0}
_NEVER: Final = ("never", "off")


@dataclass(frozen=True)
class CheckpointInterval:
    """How often to write checkpoints; never if both are None."""

    seconds: float | None = None
    evaluations: int | None = None

    def __bool__(self) -> bool:
        return self.seconds is not None or self.evaluations is not None


def parse_interval(text: str) -> CheckpointInterval:
    """Parse the setting `checkpoint_every`.

    >>> parse_interval("90s"), parse_interval("10000").evaluations, bool(parse_interval("never"))
    (CheckpointInterval(seconds=90.0, evaluations=None), 10000, False)
    """
    value = text.strip().lower()
    if value in _NEVER:
        return CheckpointInterval()
    match = re.fullmatch(r"(\d[\d_]*(?:\.\d+)?)\s*([smh]?)", value)
    number = float(match[1].replace("_", "")) if match else 0.0
    if match and match[2] and number > 0:
        return CheckpointInterval(seconds=number * _UNITS[match[2]])
    if match and not match[2] and number >= 1 and number == int(number):
        return CheckpointInterval(evaluations=int(number))
    raise TfsmError(
        f"checkpoint_every={text}: expected seconds, minutes or hours (30s, 5m, 1h), a number of evaluations (10000), "
        "or never"
    )


class CheckpointSchedule:
    """Decides when the next checkpoint is due.

    By the clock, it waits longer where writing takes long, so that checkpoints take at most `SHARE` of the time.

    Args:
        every: how often.
        clock: a monotonic clock, in seconds.
        size: expected bytes of a checkpoint.
    """

    def __init__(self, every: CheckpointInterval, clock: Callable[[], float] = time.monotonic, size: int = 0) -> None:
        self._every, self._clock = every, clock
        self._next = clock() + max(every.seconds or 0.0, size / SPEED / SHARE)
        self._last = 0

    def next_check(self, used: int) -> int:
        """Return the number of evaluations, above `used`, at which to check again at the latest."""
        every = self._every.evaluations
        return 2**62 if every is None else (used // every + 1) * every

    def is_due(self, used: int) -> bool:
        """Return whether a checkpoint is due after that many evaluations."""
        if self._every.evaluations is not None:
            if used < self._last:  # of other runs
                self._last = 0
            return used // self._every.evaluations > self._last // self._every.evaluations
        return self._every.seconds is not None and self._clock() >= self._next

    def record(self, used: int, seconds: float) -> None:
        """Note that a checkpoint was written just now, and how long it took."""
        self._last = used
        self._next = self._clock() + max(self._every.seconds or 0.0, seconds / SHARE)
