"""Killed commands, signals and dying workers lose no results."""

from __future__ import annotations

import signal
from importlib.util import find_spec

import pytest

from tests.faults.lab import Bench, FinalState, Lab, assert_nothing_lost
from tests.faults.process_faults import (
    SIGNALS,
    crash_child_worker,
    crash_every_worker,
    crash_worker,
    draw_moments,
    fail_child,
    fail_in_worker,
    hang_evaluation,
    interrupt_driver,
    interrupt_driver_of_children,
    interrupt_studies,
    kill_commands,
    kill_workers,
    run_undisturbed,
    send_signals,
)


def test_a_killed_command_loses_nothing(lab: Lab, bench: Bench) -> None:
    assert_nothing_lost(kill_commands(lab, bench, [("evolving", 0.5)], seed=5))


@pytest.mark.slow
def test_commands_killed_at_fifty_moments_lose_nothing(lab: Lab, bench: Bench) -> None:
    assert assert_nothing_lost(kill_commands(lab, bench, draw_moments(50))) == 50


@pytest.mark.slow  # tests/cli/test_run.py interrupts a run by default
@pytest.mark.parametrize("way", SIGNALS)
def test_a_signal_loses_nothing(lab: Lab, bench: Bench, way: str) -> None:
    assert_nothing_lost(send_signals(lab, bench, [way], by_command=way == "SIGINT"))


@pytest.mark.slow
def test_a_worker_that_dies_loses_nothing(bench: Bench) -> None:
    assert_nothing_lost(crash_worker(bench, ["die", "segfault"]))


@pytest.mark.slow
def test_killed_workers_lose_nothing(bench: Bench) -> None:
    assert_nothing_lost(kill_workers(bench))


@pytest.mark.slow
def test_workers_that_always_die_lose_nothing(bench: Bench) -> None:
    assert_nothing_lost([crash_every_worker(bench)])


@pytest.mark.slow
def test_a_domain_that_fails_in_a_worker_loses_nothing(bench: Bench) -> None:
    assert_nothing_lost(fail_in_worker(bench, ["raise", "memory"]))


@pytest.mark.slow
def test_an_interrupted_or_killed_driver_leaves_no_workers_and_loses_nothing(lab: Lab, bench: Bench) -> None:
    assert_nothing_lost(interrupt_driver(lab, bench, [signal.SIGINT, signal.SIGKILL]))


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")
def test_a_ray_worker_that_dies_loses_nothing(bench: Bench) -> None:
    assert_nothing_lost(crash_worker(bench, ["die"], "ray"))


@pytest.fixture(scope="module")
def expected(bench: Bench) -> FinalState:
    return run_undisturbed(bench)


@pytest.mark.slow
def test_single_children_give_the_same_experiment_as_groups(bench: Bench, expected: FinalState) -> None:
    kinds = ("run ", "champion ", "snapshot ")
    assert {name: piece for name, piece in expected.pieces.items() if name.startswith(kinds)} == {
        name: piece for name, piece in bench.expected.pieces.items() if name.startswith(kinds)
    }


@pytest.mark.slow
def test_dying_workers_of_single_children_lose_nothing(bench: Bench, expected: FinalState) -> None:
    assert_nothing_lost(crash_child_worker(bench, expected, ["die", "segfault"]))


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")
def test_dying_ray_workers_of_single_children_lose_nothing(bench: Bench, expected: FinalState) -> None:
    assert_nothing_lost(crash_child_worker(bench, expected, ["die"], "ray"))


@pytest.mark.slow
def test_a_hanging_evaluation_of_a_single_child_loses_nothing(bench: Bench, expected: FinalState) -> None:
    assert_nothing_lost([hang_evaluation(bench, expected)])


@pytest.mark.slow
def test_a_failing_domain_of_single_children_loses_nothing(bench: Bench, expected: FinalState) -> None:
    assert_nothing_lost(fail_child(bench, expected, ["raise", "memory"]))


@pytest.mark.slow
def test_an_interrupted_or_killed_driver_of_single_children_loses_nothing(lab: Lab, bench: Bench) -> None:
    moments = [(signal.SIGKILL, 20, 0.3), (signal.SIGKILL, 100, 0.1), (signal.SIGINT, 40, 0.0)]
    assert_nothing_lost(interrupt_driver_of_children(lab, bench, moments))


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--backend", "processes", "--workers", "2"]])
def test_a_killed_or_failed_study_loses_nothing(lab: Lab, options: list[str]) -> None:
    assert_nothing_lost(interrupt_studies(lab, *options))
