"""Which individuals of which runs were evaluated, and which are in flight: dispatched, but not yet told."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tfsm.evolution.checkpoint import AsyncRunState

Key: TypeAlias = tuple[int, int]
"""Run and number of an individual."""


@dataclass
class RunTracker:
    """Which individuals of one run were evaluated, and which are in flight."""

    evaluated: int = 0
    """Number of results so far."""
    next_number: int = 0
    """The lowest number that was never dispatched."""
    lost: set[int] = field(default_factory=set)
    """Numbers that have to be dispatched again."""
    in_flight: dict[int, int] = field(default_factory=dict)
    """From numbers in flight to how many individuals were evaluated when they were dispatched."""
    ended: bool = False
    children: int = 0
    """Children evaluated in this logging interval; the following count since its start, too."""
    staleness_sum: int = 0
    staleness_max: int = 0
    failed: int = 0


class InFlightTracker:
    """Keeps track of the individuals of some runs.

    Args:
        runs: their numbers.
        initial_population: number of initial individuals per run.
        budget: maximum evaluations per run.
    """

    def __init__(self, runs: Iterable[int], *, initial_population: int, budget: int) -> None:
        self.initial_population, self._budget = initial_population, budget
        self.runs = {run: RunTracker() for run in runs}

    @property
    def active_runs(self) -> list[int]:
        """The runs that have not ended."""
        return [number for number, run in self.runs.items() if not run.ended]

    def next(self) -> Key | None:
        """Return the run and number to dispatch next; None if there is none now.

        From the run with the fewest individuals in flight, so that few children are stale; among those from the run
        with the fewest evaluations, so that all runs advance alike.
        """
        open_ = {run: number for run, tracker in self.runs.items() if (number := self._next_of(tracker)) is not None}
        if not open_:
            return None
        run = min(open_, key=lambda run: (len(self.runs[run].in_flight), self.runs[run].evaluated, run))
        return run, open_[run]

    def dispatch(self, run: int, number: int) -> None:
        """Note that an individual is in flight; a `ValueError` says why it cannot be."""
        tracker = self.runs.get(run)
        if tracker is None or tracker.ended:
            raise ValueError("there is no such run, or it has ended")
        again = number in tracker.lost or number in tracker.in_flight
        if not again and number != tracker.next_number:
            raise ValueError(f"the next number of this run is {tracker.next_number}")
        if number >= self._bound(tracker):
            raise ValueError(f"only {tracker.evaluated} of this run are evaluated")
        tracker.lost.discard(number)
        tracker.in_flight[number] = tracker.evaluated
        tracker.next_number = max(tracker.next_number, number + 1)

    def tell(self, run: int, number: int, *, failed: bool = False) -> int:
        """Note that an individual was evaluated, and return how many of its run were so far."""
        tracker = self.runs[run]
        staleness = tracker.evaluated - tracker.in_flight.pop(number)
        tracker.evaluated += 1
        tracker.failed += failed
        if number >= self.initial_population:
            tracker.children += 1
            tracker.staleness_sum += staleness
            tracker.staleness_max = max(tracker.staleness_max, staleness)
        return tracker.evaluated

    def is_in_flight(self, run: int, number: int) -> bool:
        """Return whether an individual is in flight."""
        return run in self.runs and number in self.runs[run].in_flight

    def mark_lost(self, keys: Collection[Key]) -> None:
        """Note that individuals in flight will not arrive, and have to be dispatched again."""
        for run, number in keys:
            if self.runs[run].in_flight.pop(number, None) is not None:
                self.runs[run].lost.add(number)

    def end(self, run: int) -> None:
        """Note that a run has ended, and forget its individuals in flight."""
        tracker = self.runs[run]
        tracker.ended = True
        tracker.in_flight.clear()
        tracker.lost.clear()

    def end_interval(self, run: int) -> dict[str, Any]:
        """Return the metrics of the logging interval that ends here, and start the next one."""
        tracker = self.runs[run]
        metrics = {
            "staleness": tracker.staleness_sum / tracker.children if tracker.children else None,
            "staleness_most": tracker.staleness_max if tracker.children else None,
            "failed": tracker.failed,
        }
        tracker.children = tracker.staleness_sum = tracker.staleness_max = tracker.failed = 0
        return metrics

    def snapshot(self, run: int) -> AsyncRunState:
        """Return what a checkpoint needs to know of a run."""
        tracker = self.runs[run]
        in_flight = tuple(sorted(tracker.lost | tracker.in_flight.keys()))
        return AsyncRunState(in_flight, tracker.children, tracker.staleness_sum, tracker.staleness_max, tracker.failed)

    def restore(self, run: int, evaluated: int, snapshot: AsyncRunState) -> None:
        """Continue a run from a snapshot, with that many individuals evaluated."""
        self.runs[run] = RunTracker(
            evaluated=evaluated,
            next_number=evaluated + len(snapshot.in_flight),
            # A budget that is lower than it was then does not need later ones, and can be used up without them.
            lost={number for number in snapshot.in_flight if number < self._budget},
            children=snapshot.children,
            staleness_sum=snapshot.staleness_sum,
            staleness_max=snapshot.staleness_max,
            failed=snapshot.failed,
        )

    def _next_of(self, tracker: RunTracker) -> int | None:
        if tracker.ended:
            return None
        if tracker.lost:
            return min(tracker.lost)
        return tracker.next_number if tracker.next_number < self._bound(tracker) else None

    def _bound(self, tracker: RunTracker) -> int:
        # Children only once all of the initial population can be their parents, as in lock step.
        return self.initial_population if tracker.evaluated < self.initial_population else self._budget
