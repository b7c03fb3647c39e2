"""Kill -9 of a command loses nothing, whenever it comes."""

from __future__ import annotations

import signal
from importlib.util import find_spec

import pytest

from tests.faults.lab import Bench, FinalState, Lab, assert_nothing_lost
from tests.faults.process_faults import (
    WAYS,
    drivers,
    drivers_of_children,
    dying,
    dying_of_children,
    expected,
    failing,
    failing_task,
    hanging,
    hopeless,
    kills,
    kills_of_workers,
    moments,
    signals,
    studies,
)


def test_one_moment(lab: Lab, bench: Bench) -> None:
    assert_nothing_lost(kills(lab, bench, [("evolving", 0.5)], seed=5))


@pytest.mark.slow
def test_fifty_moments(lab: Lab, bench: Bench) -> None:
    assert assert_nothing_lost(kills(lab, bench, moments(50))) == 50


@pytest.mark.parametrize(
    "way", [way if way == "SIGTERM" else pytest.param(way, marks=pytest.mark.slow) for way in WAYS]
)
def test_a_signal(lab: Lab, bench: Bench, way: str) -> None:
    assert_nothing_lost(signals(lab, bench, [way], by_command=way == "SIGINT"))


@pytest.mark.slow
def test_a_worker_that_dies(bench: Bench) -> None:
    assert_nothing_lost(dying(bench, ["die", "segfault"]))


@pytest.mark.slow
def test_workers_that_are_killed(bench: Bench) -> None:
    assert_nothing_lost(kills_of_workers(bench))


@pytest.mark.slow
def test_workers_that_always_die(bench: Bench) -> None:
    assert_nothing_lost([hopeless(bench)])


@pytest.mark.slow
def test_a_domain_that_fails_in_a_worker(bench: Bench) -> None:
    assert_nothing_lost(failing_task(bench, ["raise", "memory"]))


@pytest.mark.slow
def test_a_driver_that_is_interrupted_or_killed(lab: Lab, bench: Bench) -> None:
    assert_nothing_lost(drivers(lab, bench, [signal.SIGINT, signal.SIGKILL]))


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")
def test_a_worker_of_ray_that_dies(bench: Bench) -> None:
    assert_nothing_lost(dying(bench, ["die"], "ray"))


@pytest.fixture(scope="module")
def wanted(bench: Bench) -> FinalState:
    return expected(bench)


@pytest.mark.slow
def test_one_by_one_it_is_the_same_experiment(bench: Bench, wanted: FinalState) -> None:
    kinds = ("run ", "champion ", "snapshot ")
    assert {name: piece for name, piece in wanted.pieces.items() if name.startswith(kinds)} == {
        name: piece for name, piece in bench.expected.pieces.items() if name.startswith(kinds)
    }


@pytest.mark.slow
def test_workers_that_die(bench: Bench, wanted: FinalState) -> None:
    assert_nothing_lost(dying_of_children(bench, wanted, ["die", "segfault"]))


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")
def test_workers_of_ray_that_die(bench: Bench, wanted: FinalState) -> None:
    assert_nothing_lost(dying_of_children(bench, wanted, ["die"], "ray"))


@pytest.mark.slow
def test_an_evaluation_that_hangs(bench: Bench, wanted: FinalState) -> None:
    assert_nothing_lost([hanging(bench, wanted)])


@pytest.mark.slow
def test_a_domain_that_fails(bench: Bench, wanted: FinalState) -> None:
    assert_nothing_lost(failing(bench, wanted, ["raise", "memory"]))


@pytest.mark.slow
def test_drivers_that_are_killed(lab: Lab, bench: Bench) -> None:
    moments = [(signal.SIGKILL, 20, 0.3), (signal.SIGKILL, 100, 0.1), (signal.SIGINT, 40, 0.0)]
    assert_nothing_lost(drivers_of_children(lab, bench, moments))


@pytest.mark.slow
@pytest.mark.parametrize("where", [[], ["--backend", "processes", "--workers", "2"]])
def test_a_study(lab: Lab, where: list[str]) -> None:
    assert_nothing_lost(studies(lab, *where))
