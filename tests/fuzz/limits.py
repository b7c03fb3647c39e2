"""Limits that a hang cannot outlive."""

from __future__ import annotations

import faulthandler
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

PATIENCE: Final = 30.0
"""Seconds before Ctrl-C is pressed again: a second one ends a run at once, with what it was writing half-written."""


class HangError(BaseException):
    """Something took too long; no `except Exception` takes it for its own."""


@contextmanager
def within(seconds: float, *, interrupt_after: float | None = None) -> Iterator[None]:
    """Fail what takes longer than that.

    Python code is ended by an exception. Compiled code that never comes back takes the whole process with it, and says
    where it was.

    Args:
        seconds: the limit.
        interrupt_after: press Ctrl-C after so many seconds, and again if that was not heard for `PATIENCE`.
    """
    end = time.monotonic() + seconds

    def ring(number: int, frame: FrameType | None) -> None:
        left = end - time.monotonic()
        if interrupt_after is None or left < 0.01:
            raise HangError(f"still busy after {seconds:g} seconds")
        signal.setitimer(signal.ITIMER_REAL, min(PATIENCE, left))
        signal.raise_signal(signal.SIGINT)

    before = {signal.SIGALRM: signal.signal(signal.SIGALRM, ring)}
    if interrupt_after is not None:
        # A shell lets what it starts in the background ignore Ctrl-C.
        before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, seconds if interrupt_after is None else interrupt_after)
    faulthandler.dump_traceback_later(2 * seconds, exit=True, file=sys.__stderr__)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
