"""Workers may die, and drivers too."""

from __future__ import annotations

import signal
from importlib.util import find_spec

import pytest

from tests.faults import workers
from tests.faults.bench import Bench
from tests.faults.lab import Lab
from tests.faults.trial import assert_nothing_lost

pytestmark = pytest.mark.slow


def test_a_worker_that_dies(bench: Bench) -> None:
    assert_nothing_lost(workers.dying(bench, ["die", "segfault"]))


def test_workers_that_are_killed(bench: Bench) -> None:
    assert_nothing_lost(workers.kills_of_workers(bench))


def test_workers_that_always_die(bench: Bench) -> None:
    assert_nothing_lost([workers.hopeless(bench)])


def test_a_domain_that_fails_in_a_worker(bench: Bench) -> None:
    assert_nothing_lost(workers.failing_task(bench, ["raise", "memory"]))


def test_a_driver_that_is_interrupted_or_killed(lab: Lab, bench: Bench) -> None:
    assert_nothing_lost(workers.drivers(lab, bench, [signal.SIGINT, signal.SIGKILL]))


@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")
def test_a_worker_of_ray_that_dies(bench: Bench) -> None:
    assert_nothing_lost(workers.dying(bench, ["die"], "ray"))
