"""The progress of several experiments, told as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfsm.evolution.records import Progress
from tfsm.experiments.settings import Settings


class Together:
    """Adds up where experiments stand.

    Args:
        observer: whom to tell; only of progress.
        settings: of the experiments.
    """

    def __init__(self, observer: Any, settings: Sequence[Settings]) -> None:
        self._observer = observer
        self._known = [
            Progress(own.runs, 0, 0, 0, own.runs * own.evaluations, float("-inf"), "compiling") for own in settings
        ]

    def part(self, place: int) -> Part:
        """Return an observer for one of the experiments."""
        return Part(self, place)

    def tell(self, place: int, progress: Progress) -> None:
        """Hear where one stands, and tell where all do."""
        self._known[place] = progress
        known = self._known
        phases = {own.phase for own in known}
        self._observer.progress(
            Progress(
                runs=sum(own.runs for own in known),
                finished=sum(own.finished for own in known),
                solved=sum(own.solved for own in known),
                evaluations=sum(own.evaluations for own in known),
                budget=sum(own.budget for own in known),
                best_fitness=max(own.best_fitness for own in known),
                phase="evolving" if "evolving" in phases else progress.phase,
            )
        )


class Part:
    """An observer of one of several experiments.

    Args:
        together: who adds up.
        place: which one it is.
    """

    def __init__(self, together: Together, place: int) -> None:
        self._together, self._place = together, place

    def progress(self, progress: Progress) -> None:
        """Pass it on."""
        self._together.tell(self._place, progress)
