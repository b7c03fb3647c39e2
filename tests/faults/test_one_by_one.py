"""Nothing is lost while children are made one by one either."""

from __future__ import annotations

import signal
from importlib.util import find_spec

import pytest

from tests.faults import one_by_one
from tests.faults.bench import Bench
from tests.faults.final import Final
from tests.faults.lab import Lab
from tests.faults.trial import assert_nothing_lost

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wanted(bench: Bench) -> Final:
    return one_by_one.expected(bench)


def test_one_by_one_it_is_the_same_experiment(bench: Bench, wanted: Final) -> None:
    kinds = ("run ", "champion ", "snapshot ")
    assert {name: piece for name, piece in wanted.pieces.items() if name.startswith(kinds)} == {
        name: piece for name, piece in bench.expected.pieces.items() if name.startswith(kinds)
    }


def test_workers_that_die(bench: Bench, wanted: Final) -> None:
    assert_nothing_lost(one_by_one.dying(bench, wanted, ["die", "segfault"]))


@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")
def test_workers_of_ray_that_die(bench: Bench, wanted: Final) -> None:
    assert_nothing_lost(one_by_one.dying(bench, wanted, ["die"], "ray"))


def test_an_evaluation_that_hangs(bench: Bench, wanted: Final) -> None:
    assert_nothing_lost([one_by_one.hanging(bench, wanted)])


def test_a_domain_that_fails(bench: Bench, wanted: Final) -> None:
    assert_nothing_lost(one_by_one.failing(bench, wanted, ["raise", "memory"]))


def test_drivers_that_are_killed(lab: Lab, bench: Bench) -> None:
    moments = [(signal.SIGKILL, 20, 0.3), (signal.SIGKILL, 100, 0.1), (signal.SIGINT, 40, 0.0)]
    assert_nothing_lost(one_by_one.drivers(lab, bench, moments))
