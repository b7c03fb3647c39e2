"""When it is time for a checkpoint."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfsm.errors import TfsmError
from tfsm.evolution.checkpoint_schedule import SHARE, SPEED, CheckpointInterval, CheckpointSchedule, parse_interval


@given(st.floats(0.01, 600), st.lists(st.floats(0, 100), min_size=1, max_size=30), st.floats(0.01, 5))
def test_checkpoints_by_the_clock_take_no_more_than_their_share(
    seconds: float, costs: list[float], step: float
) -> None:
    now = [0.0]
    cadence = CheckpointSchedule(CheckpointInterval(seconds=seconds), lambda: now[0])
    spent = [0.0]
    step = max(step, seconds / 7, max(costs) / 7)
    for cost in costs:
        waited = 0
        while not cadence.is_due(0):
            now[0] += step
            waited += 1
            assert waited < 10_000, "it is never time"
        # What it cost up to here, without the last, which has not been paid for yet.
        assert sum(spent) <= SHARE * now[0] * (1 + 1e-9) + 1e-9
        now[0] += cost
        spent.append(cost)
        cadence.record(0, cost)
        assert not cadence.is_due(0)


def test_between_two_by_the_clock_is_the_time_that_was_asked_for() -> None:
    now = [100.0]
    cadence = CheckpointSchedule(CheckpointInterval(seconds=60), lambda: now[0])
    for _ in range(3):
        assert not cadence.is_due(0)
        now[0] += 59.9
        assert not cadence.is_due(0)
        now[0] += 0.1
        assert cadence.is_due(0)
        cadence.record(0, 0.0)


@given(st.integers(1, 50), st.integers(0, 200))
def test_by_evaluations_one_is_due_at_every_multiple_and_nowhere_else(every: int, began: int) -> None:
    cadence = CheckpointSchedule(CheckpointInterval(evaluations=every))
    cadence.record(began, 1e9)  # however long one takes
    spent = began
    for _ in range(5):
        bound = cadence.next_check(spent)
        assert spent < bound <= spent + every
        assert bound % every == 0
        assert not any(cadence.is_due(number) for number in range(spent, bound))
        assert cadence.is_due(bound)
        cadence.record(bound, 0.0)
        spent = bound


def test_by_evaluations_other_runs_have_their_own() -> None:
    cadence = CheckpointSchedule(CheckpointInterval(evaluations=10))
    cadence.record(100, 0.0)
    assert [spent for spent in range(0, 101, 5) if cadence.is_due(spent)][:3] == [10, 15, 20]
    cadence.record(20, 0.0)
    assert not cadence.is_due(25)
    assert cadence.is_due(30)


def test_the_first_one_waits_as_long_as_its_size_is_worth() -> None:
    now = [0.0]
    cadence = CheckpointSchedule(CheckpointInterval(seconds=10.0), clock=lambda: now[0], size=int(10 * SPEED))
    now[0] = 10.0 / SHARE - 1.0
    assert not cadence.is_due(1)
    now[0] = 10.0 / SHARE
    assert cadence.is_due(1)


def test_never_is_never() -> None:
    cadence = CheckpointSchedule(parse_interval("never"), lambda: 1e9)
    assert not cadence.is_due(10**9)
    assert cadence.next_check(5) > 10**12


@pytest.mark.parametrize("text", ["", "soon", "0", "-5", "1.5", "0s", "5 days", "1e3", "m"])
def test_what_cannot_be_understood_says_what_can(text: str) -> None:
    with pytest.raises(TfsmError, match="expected seconds, minutes or hours"):
        parse_interval(text)
