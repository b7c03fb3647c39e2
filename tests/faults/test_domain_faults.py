"""A failing domain loses no results: the experiment resumes where it failed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.faults.domain_faults import (
    BROKEN,
    FATAL,
    RAISING,
    crash_process,
    fail_and_continue,
    fail_and_resume,
    fail_once,
    hang,
)
from tests.faults.lab import Bench, FinalState, Lab, assert_nothing_lost, load_fragile
from tests.faults.process_faults import environment
from tfsm.errors import TfsmError
from tfsm.evolution.evaluation import Evaluator
from tfsm.models.network import Network


@pytest.mark.sample(3)
@pytest.mark.parametrize("kind", ["raise", "exit", "count", pytest.param("all", marks=pytest.mark.slow)])
def test_a_failing_domain_loses_nothing(bench: Bench, kind: str) -> None:
    if kind == "all":
        assert_nothing_lost(fail_and_resume(bench, RAISING, [1, 2, 8, 9, 10, 25, 60, 110]))
    else:
        assert_nothing_lost(fail_and_resume(bench, [kind], [9, 60]))


def test_a_domain_that_returns_nan_or_infinity_loses_nothing(bench: Bench) -> None:
    assert_nothing_lost(fail_and_continue(bench, BROKEN, [60]))


@pytest.mark.slow
def test_failures_that_count_as_broken_lose_nothing(bench: Bench, tmp_path: Path) -> None:
    broken = Bench(tmp_path, sets=("failures=broken",))
    assert_nothing_lost(fail_and_continue(broken, RAISING, [3, 60]))
    assert_nothing_lost(fail_once(broken, RAISING, [60]))


@pytest.mark.slow
def test_a_hanging_domain_loses_nothing(tmp_path: Path) -> None:
    assert_nothing_lost(hang(Bench(tmp_path, {"evaluation_timeout": 3.0}), [9, 60]))


@pytest.mark.slow
def test_a_domain_that_crashes_the_process_loses_nothing(lab: Lab, bench: Bench) -> None:
    assert_nothing_lost(crash_process(lab, bench, list(FATAL)))


def test_a_domain_that_calls_exit_is_an_error(tmp_path: Path) -> None:
    fragile = load_fragile(tmp_path).domains["fragile"].load()
    flag = tmp_path / "fragile.json"
    flag.write_text(json.dumps({"kind": "exit", "at": fragile.calls[0] + 1}))
    domain = fragile()
    with environment(FRAGILE=str(flag)), pytest.raises(TfsmError, match=r"Fragile.evaluate called sys.exit\(0\)"):
        _ = Evaluator(domain, Network(domain.network()), jit=False).template


@pytest.fixture
def copy(bench: Bench, tmp_path: Path) -> Path:
    assert bench.expected.pieces["status"] == "finished"
    return Path(shutil.copytree(bench.root / "run-1", tmp_path / "copy"))


def list_lost(bench: Bench, copy: Path) -> list[str]:
    return bench.expected.list_lost(FinalState.of(copy))


def test_a_copy_has_no_losses(bench: Bench, copy: Path) -> None:
    assert list_lost(bench, copy) == []
    kinds = {name.split()[0] for name in bench.expected.pieces}
    assert {"status", "run", "line", "champion", "snapshot", "what"} == kinds


def test_a_missing_line_and_a_changed_digit_are_detected(bench: Bench, copy: Path) -> None:
    log = copy / "metrics.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join([lines[0].replace("0.", "1.", 1), *lines[1:]]))
    assert list_lost(bench, copy) == ["line 0 of the log"]
    log.write_text("".join(lines[:-1]))
    assert list_lost(bench, copy) == [f"line {len(lines) - 1} of the log", f"line {len(lines)} of the log"]


def test_a_changed_result_is_detected(bench: Bench, copy: Path) -> None:
    record = json.loads((copy / "run.json").read_text())
    record["runs"][1]["best_fitness"] *= 1 + 1e-7
    (copy / "run.json").write_text(json.dumps(record | {"status": "interrupted"}))
    assert list_lost(bench, copy) == ["run 1", "status"]


def test_a_changed_champion_is_detected(bench: Bench, copy: Path) -> None:
    shutil.copy(copy / "champions" / "run-000.keras", copy / "champions" / "run-002.keras")
    assert list_lost(bench, copy) == ["champion run-002"]


def test_a_changed_snapshot_and_a_temporary_file_are_detected(bench: Bench, copy: Path) -> None:
    file = copy / "behavior" / "run-000.npz"
    with np.load(file) as archive:
        tables = {name: archive[name] for name in archive.files}
    tables["behavior"][1, 0, 0] = np.nextafter(tables["behavior"][1, 0, 0], np.float32(9))
    np.savez(file, **tables)
    (copy / ".run.json.part.json").touch()
    assert list_lost(bench, copy) == ["left behind: .run.json.part.json", "snapshot at 50 of run-000"]
