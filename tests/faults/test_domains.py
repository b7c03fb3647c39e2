"""A domain that fails costs nothing: it is gone on from where it failed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.faults.bench import Bench, with_fragile
from tests.faults.domains import BROKEN, FATAL, RAISING, failing_once, fatal, hanging, stopping, surviving
from tests.faults.lab import Lab
from tests.faults.trial import assert_nothing_lost
from tests.faults.workers import environment
from tfsm.errors import TfsmError
from tfsm.evolution.evaluation import Trial
from tfsm.models.network import Network


@pytest.mark.parametrize("kind", ["raise", "exit", "count", pytest.param("all", marks=pytest.mark.slow)])
def test_a_domain_that_fails(bench: Bench, kind: str) -> None:
    if kind == "all":
        assert_nothing_lost(stopping(bench, RAISING, [1, 2, 8, 9, 10, 25, 60, 110]))
    else:
        assert_nothing_lost(stopping(bench, [kind], [9, 60]))


def test_a_domain_that_returns_numbers_that_are_none(bench: Bench) -> None:
    assert_nothing_lost(surviving(bench, BROKEN, [60]))


@pytest.mark.slow
def test_failures_that_count_as_broken(bench: Bench, tmp_path: Path) -> None:
    broken = Bench(tmp_path, sets=("failures=broken",))
    assert_nothing_lost(surviving(broken, RAISING, [3, 60]))
    assert_nothing_lost(failing_once(broken, RAISING, [60]))


@pytest.mark.slow
def test_a_domain_that_hangs(tmp_path: Path) -> None:
    assert_nothing_lost(hanging(Bench(tmp_path, {"evaluation_timeout": 3.0}), [9, 60]))


@pytest.mark.slow
def test_a_domain_that_takes_the_process_with_it(lab: Lab, bench: Bench) -> None:
    assert_nothing_lost(fatal(lab, bench, list(FATAL)))


def test_a_domain_that_exits_at_once_is_an_error_and_no_end(tmp_path: Path) -> None:
    fragile = with_fragile(tmp_path).domains["fragile"].load()
    flag = tmp_path / "fragile.json"
    flag.write_text(json.dumps({"kind": "exit", "at": fragile.calls[0] + 1}))
    domain = fragile()
    with environment(FRAGILE=str(flag)), pytest.raises(TfsmError, match=r"Fragile.evaluate called sys.exit\(0\)"):
        Trial(domain, Network(domain.network()))
