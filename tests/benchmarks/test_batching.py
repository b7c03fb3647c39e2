"""The study of batches: what is written when it is interrupted."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from benchmarks import batching
from benchmarks.batching import OPERATORS, RUNS, Row
from tfsm.analysis.results import Method, RunOutcome, Study


def make_rows(domain: str, offspring: int, runs: int = RUNS) -> list[Row]:
    return [Row(domain, method, offspring, run, True, 100 + run) for method in OPERATORS for run in range(runs)]


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(batching, "RESULTS", tmp_path)
    return tmp_path


def write_rows(monkeypatch: pytest.MonkeyPatch, rows: list[Row]) -> None:
    monkeypatch.setattr(batching, "collect", lambda folder: rows)
    batching.write_tables(Path("runs"))


def test_recorded_rows_of_other_cases_are_kept(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_rows(monkeypatch, make_rows("hard-maze", 8, 3))
    write_rows(monkeypatch, make_rows("parity", 1))
    write_rows(monkeypatch, make_rows("hard-maze", 8, 5))
    assert batching.read_rows() == [*make_rows("parity", 1), *make_rows("hard-maze", 8, 5)]


def test_nothing_is_tested_before_all_runs_have_ended(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_rows(monkeypatch, [*make_rows("parity", 1), *make_rows("parity", 8, RUNS - 1), *make_rows("parity", 32)])
    lines = (results / "tables.md").read_text().splitlines()
    (interrupted,) = (line for line in lines if line.startswith("| sm-g-sum | 8 |"))
    (complete,) = (line for line in lines if line.startswith("| sm-g-sum | 32 |"))
    assert "19 of 19, 1 not ended" in interrupted
    assert "p =" not in interrupted
    assert "20 of 20 |" in complete
    assert "p = 1" in complete


def test_runs_that_have_not_ended_are_not_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "parity-8").mkdir()
    ends = [(True, 40), (False, 100_000), (False, 512)]
    outcomes = tuple(RunOutcome(run, solved, used, 0.0) for run, (solved, used) in enumerate(ends))
    study = Study("parity", (Method("sm-g-so", outcomes, 100_000),))
    monkeypatch.setattr("tfsm.analysis.results.load_studies", lambda *_, **__: [study])
    assert [row.run for row in batching.collect(tmp_path)] == [0, 1]


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
def test_a_command_that_is_interrupted_can_save_its_work(tmp_path: Path) -> None:
    started, saved = tmp_path / "started", tmp_path / "saved"
    script = f"""
import pathlib, signal, sys, time
def stop(*_):
    time.sleep(0.4)
    pathlib.Path({str(saved)!r}).touch()
    sys.exit(130)
signal.signal(signal.SIGTERM, stop)
pathlib.Path({str(started)!r}).touch()
time.sleep(30)
"""

    def interrupt() -> None:
        while not started.exists():
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=interrupt, daemon=True).start()
    assert batching.run_command([sys.executable, "-c", script]) == 130
    assert saved.exists()
