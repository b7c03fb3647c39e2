"""Run directories, checkpoints and champions that version 0.1 wrote can be opened, reported, resumed and replayed."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from tests.cli.test_model import run
from tfsm.evolution.checkpoint import read_checkpoint
from tfsm.evolution.event_log import read_events

FOLDER = Path(__file__).parent / "runs-0.1"
EXPECTED = json.loads((FOLDER.parent / "runs-0.1.json").read_text())
"""Reports of version 0.1, and digests of its output when it resumed the same directories."""


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a working directory with a copy of the stored directories."""
    shutil.copytree(FOLDER, tmp_path / "stored")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "stored"


def _lines(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]


def _assert_close(value: Any, expected: Any, where: str) -> None:
    """Compare JSON values; numbers agree but for rounding in the last digits."""
    if isinstance(expected, dict):
        assert value.keys() >= expected.keys(), where
        for key in expected:
            _assert_close(value[key], expected[key], f"{where}.{key}")
    elif isinstance(expected, list):
        assert len(value) == len(expected), where
        for index, (one, other) in enumerate(zip(value, expected, strict=True)):
            _assert_close(one, other, f"{where}[{index}]")
    elif isinstance(expected, float):
        assert math.isclose(value, expected, rel_tol=1e-6, abs_tol=1e-12), where
    else:
        assert value == expected, where


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_report_has_the_recorded_numbers(stored: Path, name: str) -> None:
    done = run("report", stored / name, "--json")
    assert done.returncode == 0, done.stderr
    [study] = json.loads(done.stdout)["studies"]
    [expected] = EXPECTED[name]["report"]["studies"]
    for method, before in zip(study["methods"], expected["methods"], strict=True):
        _assert_close(method["runs"], before["runs"], name)
    _assert_close(study["comparisons"], expected["comparisons"], name)


def test_runs_are_listed_and_champions_load_in_plain_keras(stored: Path) -> None:
    done = run("runs", "list", stored)
    assert done.returncode == 0, done.stderr
    for name in ("parity", "hard-maze", "children"):
        assert name in done.stdout
        shown = run("runs", "show", stored / name, "--json")
        assert shown.returncode == 0, shown.stderr
    model = keras.saving.load_model(stored / "parity" / "champions" / "run-000.keras")
    assert all(np.isfinite(weights).all() for weights in model.get_weights())


def test_the_checkpoint_and_the_order_of_single_children_can_be_read(stored: Path) -> None:
    events = read_events(stored / "children" / "order.log")
    (file,) = (stored / "children" / "checkpoints").iterdir()
    checkpoint, _ = read_checkpoint(file)
    assert checkpoint.event_count == len(events) == 120
    assert {event.number for event in events if event.kind == "<"} == set(range(60))


SLOW = pytest.mark.slow


@pytest.mark.parametrize("name", ["parity", *(pytest.param(name, marks=SLOW) for name in ("hard-maze", "children"))])
def test_a_checkpoint_resumes(stored: Path, name: str) -> None:
    directory = stored / name
    before = _lines(directory)
    done = run("run", "--resume", directory, "--evaluations", "90", "-q")
    assert done.returncode == 0, done.stderr
    after = _lines(directory)
    assert [line for line in after if line["evaluations"] <= 50] == [
        line for line in before if line["evaluations"] <= 50
    ]
    results = json.loads((directory / "run.json").read_text())["runs"]
    assert {max(line["evaluations"] for line in after if line["run"] == one["run"]) for one in results} == {90}


def test_a_changed_setting_is_refused_by_name(stored: Path) -> None:
    done = run("run", "--resume", stored / "parity", "--evaluations", "30")
    assert done.returncode != 0
    assert "evaluations" in done.stderr
