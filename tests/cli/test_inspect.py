"""`tfsm doctor` and `tfsm runs`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.helpers.commands import tfsm
from tests.helpers.outcomes import write_run
from tfsm.cli.inspect import app
from tfsm.errors import TfsmError


def run_doctor(*arguments: str, cwd: Path) -> dict[str, Any]:
    done = tfsm("doctor", *arguments, "--json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_parity_has_no_slow_path(tmp_path: Path) -> None:
    found = run_doctor("parity", "--mutation", "sm-g-abs", "--runs", "20", cwd=tmp_path)
    assert found["weights"] == 1302
    assert found["compile"] == "xla"
    assert found["runs_at_once"] == 20
    assert found["slow"] == []
    assert found["threads"] == "1 per operation"
    assert found["offspring"] == "one child at a time"
    assert found["sensitivities"] == "cached for a parent's next child"
    # Genomes and as many sensitivities, in float32.
    assert found["memory_mib"] == pytest.approx(2 * 20 * 250 * 1302 * 4 / 2**20, rel=0.01)
    assert found["disk_mib"] == pytest.approx(3 * found["memory_mib"], rel=0.01)
    assert found["limits"].startswith("a population of ")
    assert [layer["kind"] for layer in found["layers"]] == ["SimpleRNN", "SimpleRNN", "Dense"]
    assert not list(tmp_path.iterdir()), "nothing is written"


@pytest.mark.slow
def test_slow_layers_are_named_with_a_reason(tmp_path: Path) -> None:
    found = run_doctor(
        "parity", "--mutation", "sm-g-so", "--runs", "9", "--set", "compile=graph", "--set", "memory=0.01", cwd=tmp_path
    )
    assert found["slow"] == ["no XLA: compile = 'graph'"]
    assert found["runs_at_once"] == 8
    assert "8 of 9 runs at a time" in found["note"]
    assert found["sensitivities"] == "measured for every child"
    assert any(
        "copies the weights" in line
        for line in run_doctor("simple-easy", "--mutation", "sm-g-abs", cwd=tmp_path)["slow"]
    )


def test_the_table_is_readable(tmp_path: Path) -> None:
    done = tfsm("doctor", "parity", "--mutation", "control", cwd=tmp_path)
    assert done.returncode == 0
    assert "nothing falls back to a slow path" in done.stdout
    assert "recurrent_1" in done.stdout
    assert done.stderr == ""


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_run(tmp_path / "runs" / "a")
    write_run(tmp_path / "runs" / "b", domain="other", mutation="sm-r", status="interrupted")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "runs"


def tfsm_runs(*arguments: str, input: str | None = None) -> Result:
    return CliRunner().invoke(app, list(arguments), input=input)


def test_listing_filters_and_prints_json(runs: Path) -> None:
    everything = json.loads(tfsm_runs("list", "--json").stdout)
    assert {item["directory"] for item in everything} == {"runs/a", "runs/b"}
    for filter_, expected in {
        ("--domain", "oth*"): ["runs/b"],
        ("--mutation", "control"): ["runs/a"],
        ("--status", "interrupted"): ["runs/b"],
        ("--kind", "sweep"): [],
        ("--solved",): ["runs/a", "runs/b"],
        ("--unsolved",): [],
    }.items():
        found = json.loads(tfsm_runs("list", *filter_, "--json").stdout)
        assert sorted(item["directory"] for item in found) == expected, filter_


def test_the_table_names_every_directory(runs: Path) -> None:
    lines = tfsm_runs("list", str(runs)).stdout.splitlines()
    assert lines[0].split()[:3] == ["directory", "kind", "domain"]
    assert any("interrupted" in line and "1/2" in line and "other" in line for line in lines)


def test_show_prints_how_each_run_ended(runs: Path) -> None:
    shown = tfsm_runs("show", "runs/a").stdout
    assert "run of made-up, finished, 1 of 2 runs solved" in shown
    assert ["control", "0", "yes", "40", "1.0000"] in [line.split() for line in shown.splitlines()]
    assert "intensity: 0.1" in shown
    assert json.loads(tfsm_runs("show", "runs/a", "--json").stdout)["settings"]["mutation"] == "control"


def test_remove_asks_for_confirmation(runs: Path) -> None:
    assert "kept" in tfsm_runs("rm", "runs/a", input="n\n").stderr
    assert (runs / "a").exists()
    assert tfsm_runs("rm", "runs/a", input="y\n").exit_code == 0
    assert not (runs / "a").exists()
    assert tfsm_runs("rm", "runs/b", "--yes").exit_code == 0
    assert not (runs / "b").exists()


def test_nothing_is_removed_if_one_directory_is_not_a_run(runs: Path) -> None:
    result = tfsm_runs("rm", "runs/a", str(runs.parent), "--yes")
    assert isinstance(result.exception, TfsmError)
    assert "nothing was removed" in str(result.exception)
    assert (runs / "a").exists()


def test_what_does_not_fit_the_memory_is_refused(tmp_path: Path) -> None:
    flags = ("--mutation", "control", "--runs", "1", "--population", "1000000000", "--evaluations", "2000000000")
    done = tfsm("run", "parity", *flags, "--out", "out", cwd=tmp_path)
    assert done.returncode == 2
    assert "not enough memory: 1 run at once of a population of 1,000,000,000 with 1,302 weights" in done.stderr
    assert len(done.stderr.splitlines()) <= 2
    assert not (tmp_path / "out").exists()
