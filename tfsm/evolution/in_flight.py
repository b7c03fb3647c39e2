"""Which individuals of which runs were evaluated, and which are in flight: dispatched, but not yet told.

Individuals travel in batches of consecutive numbers. A batch is named by the number of its first individual.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tfsm.evolution.batches import Batches
from tfsm.evolution.checkpoint import AsyncRunState

Key: TypeAlias = tuple[int, int]
"""Run, and number of the first individual of a batch."""


@dataclass
class RunTracker:
    """Which individuals of one run were evaluated, and which are in flight."""

    evaluated: int = 0
    """Number of results so far."""
    next_number: int = 0
    """The lowest number that was never dispatched."""
    lost: set[int] = field(default_factory=set)
    """Numbers that have to be dispatched again."""
    in_flight: dict[int, range] = field(default_factory=dict)
    """From the first numbers of batches in flight to all of their numbers."""
    evaluated_before: dict[int, int] = field(default_factory=dict)
    """From the first numbers of batches in flight to how many individuals were evaluated when they were dispatched."""
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
        batches: the batches of children, after an initial population that is at most the budget.
        budget: maximum evaluations per run.
    """

    def __init__(self, runs: Iterable[int], *, batches: Batches, budget: int) -> None:
        self._batches, self._budget = batches, budget
        self.initial_population = batches.initial_population
        self.runs = {run: RunTracker() for run in runs}

    @property
    def active_runs(self) -> list[int]:
        """The runs that have not ended."""
        return [number for number, run in self.runs.items() if not run.ended]

    def next(self) -> Key | None:
        """Return the batch to dispatch next; None if there is none now.

        From the run with the fewest batches in flight, so that few children are stale; among those from the run
        with the fewest evaluations, so that all runs advance alike.
        """
        open_ = {run: number for run, tracker in self.runs.items() if (number := self._next_of(tracker)) is not None}
        if not open_:
            return None
        run = min(open_, key=lambda run: (len(self.runs[run].in_flight), self.runs[run].evaluated, run))
        return run, open_[run]

    def dispatch(self, run: int, number: int, most: int | None = None) -> int:
        """Note that a batch is in flight, of at most `most` individuals, and return its size.

        A `ValueError` says why it cannot be.
        """
        tracker = self.runs.get(run)
        if tracker is None or tracker.ended:
            raise ValueError("there is no such run, or it has ended")
        again = number in tracker.lost or number in tracker.in_flight
        if not again and number != tracker.next_number:
            raise ValueError(f"the next number of this run is {tracker.next_number}")
        if number >= self._bound(tracker):
            raise ValueError(f"only {tracker.evaluated} of this run are evaluated")
        tracker.lost |= {*tracker.in_flight.pop(number, ())}
        end = self._end(tracker, number)
        if most is not None:
            end = min(end, number + most)
        tracker.lost -= {*range(number, end)}
        tracker.in_flight[number] = range(number, end)
        tracker.evaluated_before[number] = tracker.evaluated
        tracker.next_number = max(tracker.next_number, end)
        return end - number

    def tell(self, run: int, number: int, *, count: int | None = None, failed: int = 0) -> int:
        """Note that a batch was evaluated, and return how many individuals of its run were so far.

        Args:
            run: the run.
            number: the first individual of the batch.
            count: how many of its individuals count; None: all of them.
            failed: how many of them could not be made.
        """
        tracker = self.runs[run]
        numbers = tracker.in_flight.pop(number)
        count = len(numbers) if count is None else count
        # Those told before it in the same batch are others, too.
        least = tracker.evaluated - tracker.evaluated_before.pop(number)
        tracker.evaluated += count
        tracker.failed += failed
        if number >= self.initial_population:
            tracker.children += count
            tracker.staleness_sum += count * least + count * (count - 1) // 2
            tracker.staleness_max = max(tracker.staleness_max, least + count - 1)
        return tracker.evaluated

    def numbers(self, run: int, number: int) -> range:
        """Return the numbers of a batch in flight."""
        return self.runs[run].in_flight[number]

    def is_cut(self, run: int, number: int) -> bool:
        """Return whether a batch of children in flight was cut off by the budget."""
        numbers = self.numbers(run, number)
        return numbers.stop == self._budget < self._batches.end(number) and number >= self.initial_population

    def is_in_flight(self, run: int, number: int) -> bool:
        """Return whether a batch is in flight."""
        return run in self.runs and number in self.runs[run].in_flight

    def mark_lost(self, keys: Collection[Key]) -> None:
        """Note that batches in flight will not arrive, and have to be dispatched again."""
        for run, number in keys:
            self.runs[run].lost |= {*self.runs[run].in_flight.pop(number, ())}

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
        in_flight = tuple(sorted(tracker.lost.union(*tracker.in_flight.values())))
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

    def _end(self, tracker: RunTracker, number: int) -> int:
        """Return the number after the last individual of a batch to dispatch."""
        initial = number < self.initial_population
        bound = min(self._bound(tracker), number + self._batches.size if initial else self._batches.end(number))
        end = number
        while end < bound and (end in tracker.lost or end >= tracker.next_number):
            end += 1
        return end

    def _bound(self, tracker: RunTracker) -> int:
        # Children only once all of the initial population can be their parents, as in lock step.
        return self.initial_population if tracker.evaluated < self.initial_population else self._budget
