"""What to do where a domain that is plain Python fails: wait only so long, and go on or stop."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np

from tfsm.errors import TfsmError

WARM_UP: Final = 120.0
"""Seconds that a first evaluation may take longer: there is something to load, or to compile."""


@dataclass
class Care:
    """Asks a domain, with care."""

    timeout: float | None = None
    """Seconds that one call may take."""
    failures: Literal["stop", "broken"] = "stop"
    """Whether an individual whose evaluation fails ends the run, or counts as broken."""
    warn: Callable[[str], None] = field(default=lambda message: None)
    """Told of the first that counts as broken."""
    failed: bool = False
    """Whether it ended the run; then the populations are as they were before the call."""
    broken: int = 0
    """How many counted as broken."""

    def results(self, ask: Callable[[np.ndarray], Any], places: np.ndarray) -> Iterator[tuple[np.ndarray, Any | None]]:
        """Ask for individuals, and yield some of them together with what was found; None where that fails.

        Args:
            ask: from places among the individuals to what a domain says of them.
            places: those that are wanted.
        """
        try:
            found = self._within_time(ask, places)
        except TimedOut:
            self.failed = True
            raise
        # SystemExit too: a simulator that calls sys.exit() has failed like any other.
        except (Exception, SystemExit):
            if self.failures == "stop":
                self.failed = True
                raise
            # Nobody knows whose fault it was, or whether it was a passing one: each is asked for once more, alone.
            for place in places:
                yield from self._alone(ask, np.array([place]))
            return
        yield places, found

    def _alone(self, ask: Callable[[np.ndarray], Any], place: np.ndarray) -> Iterator[tuple[np.ndarray, Any | None]]:
        try:
            found = self._within_time(ask, place)
        except TimedOut:
            self.failed = True
            raise
        except (Exception, SystemExit) as error:
            if not self.broken:
                self.warn(f"warning: an evaluation failed, and counts as broken: {type(error).__name__}: {error}")
            self.broken += 1
            yield place, None
            return
        yield place, found

    def first(self, ask: Callable[[], Any]) -> Any:
        """Ask for the first time, when there may be something to load or to compile; a failure is the caller's."""
        return self._within_time(lambda _: ask(), np.arange(1), WARM_UP)

    def _within_time(self, ask: Callable[[np.ndarray], Any], places: np.ndarray, more: float = 0.0) -> Any:
        if self.timeout is None:
            return ask(places)
        answers: queue.Queue[tuple[bool, Any]] = queue.Queue()

        def answer() -> None:
            try:
                answers.put((True, ask(places)))
            except BaseException as error:
                answers.put((False, error))

        # A thread cannot be ended from outside; a daemon at least does not keep the process from ending.
        threading.Thread(target=answer, daemon=True, name="evaluation").start()
        try:
            well, found = answers.get(timeout=self.timeout + more)
        except queue.Empty:
            raise TimedOut(
                f"an evaluation took longer than {self.timeout + more:g} seconds (evaluation_timeout); what hangs "
                "cannot be ended within this process: with --grain children it can, and the run goes on"
            ) from None
        if not well:
            raise found
        return found


class TimedOut(TfsmError):
    """An evaluation that took too long."""
