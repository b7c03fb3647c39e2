"""The schedule of checkpoints."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfsm.errors import TfsmError
from tfsm.evolution.checkpoint_schedule import SHARE, SPEED, CheckpointInterval, CheckpointSchedule, parse_interval


@given(st.floats(0.01, 600), st.lists(st.floats(0, 100), min_size=1, max_size=30), st.floats(0.01, 5))
def test_timed_checkpoints_take_no_more_than_their_share(seconds: float, costs: list[float], step: float) -> None:
    now = [0.0]
    schedule = CheckpointSchedule(CheckpointInterval(seconds=seconds), lambda: now[0])
    costs_so_far = [0.0]
    step = max(step, seconds / 7, max(costs) / 7)
    for cost in costs:
        steps = 0
        while not schedule.is_due(0):
            now[0] += step
            steps += 1
            assert steps < 10_000, "no checkpoint is ever due"
        # The costs so far; that of the next checkpoint is not included yet.
        assert sum(costs_so_far) <= SHARE * now[0] * (1 + 1e-9) + 1e-9
        now[0] += cost
        costs_so_far.append(cost)
        schedule.record(0, cost)
        assert not schedule.is_due(0)


def test_timed_checkpoints_are_due_after_the_requested_time() -> None:
    now = [100.0]
    schedule = CheckpointSchedule(CheckpointInterval(seconds=60), lambda: now[0])
    for _ in range(3):
        assert not schedule.is_due(0)
        now[0] += 59.9
        assert not schedule.is_due(0)
        now[0] += 0.1
        assert schedule.is_due(0)
        schedule.record(0, 0.0)


@given(st.integers(1, 50), st.integers(0, 200))
def test_checkpoints_by_evaluations_are_due_at_every_multiple(every: int, start: int) -> None:
    schedule = CheckpointSchedule(CheckpointInterval(evaluations=every))
    schedule.record(start, 1e9)  # the cost of a checkpoint does not matter
    evaluations = start
    for _ in range(5):
        bound = schedule.next_check(evaluations)
        assert evaluations < bound <= evaluations + every
        assert bound % every == 0
        assert not any(schedule.is_due(number) for number in range(evaluations, bound))
        assert schedule.is_due(bound)
        schedule.record(bound, 0.0)
        evaluations = bound


def test_checkpoints_of_a_group_with_fewer_evaluations_are_due() -> None:
    schedule = CheckpointSchedule(CheckpointInterval(evaluations=10))
    schedule.record(100, 0.0)
    assert [evaluations for evaluations in range(0, 101, 5) if schedule.is_due(evaluations)][:3] == [10, 15, 20]
    schedule.record(20, 0.0)
    assert not schedule.is_due(25)
    assert schedule.is_due(30)


def test_the_first_checkpoint_is_delayed_by_its_estimated_cost() -> None:
    now = [0.0]
    schedule = CheckpointSchedule(CheckpointInterval(seconds=10.0), clock=lambda: now[0], size=int(10 * SPEED))
    now[0] = 10.0 / SHARE - 1.0
    assert not schedule.is_due(1)
    now[0] = 10.0 / SHARE
    assert schedule.is_due(1)


def test_never_schedules_no_checkpoint() -> None:
    schedule = CheckpointSchedule(parse_interval("never"), lambda: 1e9)
    assert not schedule.is_due(10**9)
    assert schedule.next_check(5) > 10**12


@pytest.mark.parametrize("text", ["", "soon", "0", "-5", "1.5", "0s", "5 days", "1e3", "m"])
def test_an_invalid_interval_is_an_error_with_valid_units(text: str) -> None:
    with pytest.raises(TfsmError, match="expected seconds, minutes or hours"):
        parse_interval(text)
