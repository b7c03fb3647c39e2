"""`tfsm doctor` tells how a run would be compiled, without running it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_run_cli import tfsm


def diagnosis(*arguments: str, cwd: Path) -> dict[str, Any]:
    done = tfsm("doctor", *arguments, "--json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_parity_has_no_slow_path(tmp_path: Path) -> None:
    found = diagnosis("parity", "--mutation", "sm-g-abs", "--runs", "20", cwd=tmp_path)
    assert found["weights"] == 1302
    assert found["compile"] == "xla"
    assert found["runs_at_once"] == 20
    assert found["slow"] == []
    assert found["sensitivities"] == "kept for a parent's next child"
    # Genomes and as many sensitivities, in float32.
    assert found["memory_mib"] == pytest.approx(2 * 20 * 250 * 1302 * 4 / 2**20, rel=0.01)
    assert [layer["kind"] for layer in found["layers"]] == ["SimpleRNN", "SimpleRNN", "Dense"]
    assert not list(tmp_path.iterdir()), "nothing is written"


def test_what_slows_a_run_is_named_with_its_reason(tmp_path: Path) -> None:
    found = diagnosis(
        "parity", "--mutation", "sm-g-so", "--runs", "9", "--set", "compile=graph", "--set", "memory=0.01", cwd=tmp_path
    )
    assert found["slow"] == ["no XLA: compile = 'graph'"]
    assert found["runs_at_once"] == 8
    assert "8 of 9 runs at a time" in found["note"]
    assert found["sensitivities"] == "measured for every child"
    assert any(
        "copies the weights" in line
        for line in diagnosis("simple-easy", "--mutation", "sm-g-abs", cwd=tmp_path)["slow"]
    )


def test_the_table_is_for_people(tmp_path: Path) -> None:
    done = tfsm("doctor", "parity", "--mutation", "control", cwd=tmp_path)
    assert done.returncode == 0
    assert "nothing falls back to a slow path" in done.stdout
    assert "recurrent_1" in done.stdout
    assert done.stderr == ""
