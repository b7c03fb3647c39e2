"""The tracker of individuals in flight, compared with a plain history of all events."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfsm.evolution.batches import Batches
from tfsm.evolution.checkpoint import AsyncRunState
from tfsm.evolution.in_flight import InFlightTracker

MOVES = st.lists(st.tuples(st.sampled_from(["out", "in", "in", "end", "save"]), st.integers(0, 99)), max_size=120)


class History:
    """All events, searched from the beginning at every query."""

    def __init__(self, runs: int, initial: int, budget: int) -> None:
        self.runs, self.initial, self.budget = runs, initial, budget
        self.events: list[tuple[str, int, int]] = []
        self.ended: set[int] = set()

    def evaluated(self, run: int) -> list[int]:
        return [number for kind, event_run, number in self.events if kind == "in" and event_run == run]

    def in_flight(self, run: int) -> list[int]:
        found: list[int] = []
        for kind, event_run, number in self.events:
            if kind == "lost":
                found = []
            elif event_run == run:
                found = [*found, number] if kind == "out" else [other for other in found if other != number]
        return [] if run in self.ended else found

    def staleness(self, run: int, number: int) -> int:
        dispatched = max(i for i, event in enumerate(self.events) if event == ("out", run, number))
        return sum(kind == "in" and event_run == run for kind, event_run, _ in self.events[dispatched:])

    def allowed(self, run: int) -> set[int]:
        bound = self.initial if len(self.evaluated(run)) < self.initial else self.budget
        taken = {*self.evaluated(run), *self.in_flight(run)}
        return set() if run in self.ended else set(range(bound)) - taken


@given(st.integers(1, 4), st.integers(1, 5), st.integers(0, 8), MOVES)
def test_the_tracker_agrees_with_a_plain_history(
    runs: int, initial: int, extra: int, moves: list[tuple[str, int]]
) -> None:
    budget = initial + extra
    tracker, history = (
        InFlightTracker(range(runs), batches=Batches(initial_population=initial), budget=budget),
        History(runs, initial, budget),
    )
    stale: dict[int, list[int]] = {run: [] for run in range(runs)}
    for move, which in moves:
        in_flight = [(run, number) for run in range(runs) for number in history.in_flight(run)]
        if move == "out":
            allowed = {run: history.allowed(run) for run in range(runs) if history.allowed(run)}
            expected = min(
                allowed, key=lambda run: (len(history.in_flight(run)), len(history.evaluated(run)), run), default=None
            )
            found = tracker.next()
            assert found == (None if expected is None else (expected, min(allowed[expected])))
            if found is not None:
                tracker.dispatch(*found)
                history.events.append(("out", *found))
        elif move == "in" and in_flight:
            run, number = in_flight[which % len(in_flight)]
            if number >= initial:
                stale[run].append(history.staleness(run, number))
            history.events.append(("in", run, number))
            assert tracker.tell(run, number) == len(history.evaluated(run))
        elif move == "end" and which < runs:
            tracker.end(which)
            history.ended.add(which)
        elif move == "save":
            state = {run: (tracker.runs[run].evaluated, tracker.snapshot(run)) for run in tracker.active_runs}
            tracker = InFlightTracker(range(runs), batches=Batches(initial_population=initial), budget=budget)
            for run in range(runs):
                if run in state:
                    tracker.restore(run, *state[run])
                else:
                    tracker.end(run)
            history.events.append(("lost", -1, -1))
        for run in range(runs):
            assert all(
                tracker.is_in_flight(run, number) == (number in history.in_flight(run)) for number in range(budget)
            )
            assert len(set(history.evaluated(run))) == len(history.evaluated(run)) <= budget
    for run in set(range(runs)) - history.ended:
        values = stale[run]
        metrics = tracker.end_interval(run)
        assert metrics["staleness"] == (sum(values) / len(values) if values else None)
        assert metrics["staleness_most"] == (max(values) if values else None)
        assert tracker.end_interval(run)["staleness"] is None, "the next interval begins"


@pytest.mark.parametrize(
    ("run", "number", "reason"),
    [(7, 0, "no such run"), (1, 0, "it has ended"), (0, 5, "next number of this run is 2"), (0, 2, "only 1 of this")],
)
def test_an_impossible_dispatch_is_refused(run: int, number: int, reason: str) -> None:
    tracker = InFlightTracker(range(2), batches=Batches(initial_population=2), budget=9)
    tracker.dispatch(0, 0)
    tracker.dispatch(0, 1)
    tracker.tell(0, 1)
    tracker.end(1)
    with pytest.raises(ValueError, match=reason):
        tracker.dispatch(run, number)


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(1, 4))
def test_a_lower_budget_can_be_used_up(moves: list[int], extra: int) -> None:
    tracker = InFlightTracker(range(1), batches=Batches(initial_population=2), budget=20)
    for move in moves:
        run_tracker, chosen = tracker.runs[0], tracker.next()
        if move % 2 and chosen is not None:
            tracker.dispatch(*chosen)
        elif run_tracker.in_flight:
            tracker.tell(0, sorted(run_tracker.in_flight)[move % len(run_tracker.in_flight)])
    evaluated, state = tracker.runs[0].evaluated, tracker.snapshot(0)
    tracker = InFlightTracker(range(1), batches=Batches(initial_population=2), budget=evaluated + 1 + extra)
    tracker.restore(0, evaluated, state)
    while tracker.runs[0].evaluated < evaluated + 1 + extra:
        chosen = tracker.next()
        assert chosen is not None
        assert chosen[1] < evaluated + 1 + extra
        tracker.dispatch(*chosen)
        tracker.tell(*chosen)


def test_failures_of_an_interval_are_counted() -> None:
    tracker = InFlightTracker(range(1), batches=Batches(initial_population=1), budget=9)
    for number in range(3):
        tracker.dispatch(0, number)
        tracker.tell(0, number, failed=number != 1)
    assert tracker.snapshot(0) == AsyncRunState((), children=2, failed=2)
    assert tracker.end_interval(0)["failed"] == 2
    assert tracker.end_interval(0)["failed"] == 0


def test_a_batch_lost_in_flight_is_dispatched_again_as_a_whole() -> None:
    tracker = InFlightTracker(range(1), batches=Batches(3, initial_population=4), budget=12)
    sizes = []
    while (key := tracker.next()) is not None:
        sizes.append((key[1], tracker.dispatch(*key)))
    assert sizes == [(0, 3), (3, 1)], "children only once all initial individuals are evaluated"
    assert tracker.tell(0, 3) == 1
    assert tracker.tell(0, 0) == 4
    assert [tracker.dispatch(*tracker.next()) for _ in range(3)] == [3, 3, 2]
    assert tracker.is_cut(0, 10)
    assert not tracker.is_cut(0, 7)
    assert tracker.next() is None
    assert tracker.tell(0, 7) == 7
    state = tracker.snapshot(0)
    assert state.in_flight == (4, 5, 6, 10, 11)
    # A larger budget completes the last batch.
    tracker = InFlightTracker(range(1), batches=Batches(3, initial_population=4), budget=14)
    tracker.restore(0, 7, state)
    assert [(key, tracker.dispatch(*key)) for key in iter(tracker.next, None)] == [
        ((0, 4), 3),
        ((0, 10), 3),
        ((0, 13), 1),
    ]
    assert tracker.tell(0, 10) == 10
    assert tracker.end_interval(0) == {"staleness": (0 + 1 + 2 + 0 + 1 + 2) / 6, "staleness_most": 2, "failed": 0}
