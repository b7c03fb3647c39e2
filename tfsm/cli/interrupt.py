"""Ctrl-C as a request to end soon, with everything kept; a second one ends at once."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any, Self

from tfsm.cli.console import say


class Interrupt:
    """While entered, takes SIGINT and SIGTERM as requests."""

    def __init__(self) -> None:
        self._asked = False
        self._before: dict[signal.Signals, Any] = {}

    def asked(self) -> bool:
        """Say whether an end was asked for."""
        return self._asked

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True
        say("ending after this step, with everything so far on disk; once more to end at once")
