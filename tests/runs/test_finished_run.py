"""Opening run directories; errors name content that no run could have written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.outcomes import write_run
from tfsm.errors import TfsmError
from tfsm.runs.records import behavior_file
from tfsm.runs.result import open_run

SETTINGS = {
    "selection": "tournament",
    "seed": 0,
    "population": 2,
    "init": "xavier-normal",
    "init_scale": None,
    "log_every": 1,
}


def write(directory: Path, **settings: Any) -> Path:
    write_run(directory, **(SETTINGS | settings))
    file = directory / "run.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"plan": {"jit": False}}))
    return directory


def test_settings_are_restored(tmp_path: Path) -> None:
    run = open_run(write(tmp_path / "r", mutated_layers=["out"]))
    assert (run.settings.population, run.settings.mutated_layers, run.best()) == (2, ("out",), 0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"population": -1}, "run.json: settings: population=-1: expected an integer >= 1"),
        ({"init": ["x"]}, "run.json: settings: init="),
        ({"intensity": None}, "run.json: settings: intensity=null: expected a number >= 0"),
        ({"domain_options": 3}, "run.json: settings: domain_options: expected a table of options"),
    ],
)
def test_invalid_settings_are_named(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(TfsmError) as caught:
        open_run(write(tmp_path / "r", **settings))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "behavior", [np.zeros(2), np.zeros((3, 4, 2)), np.full((2, 4, 2), "x"), np.zeros((0, 4, 2))],
    ids=["flat", "longer", "words", "empty"],
)  # fmt: skip
def test_inconsistent_behavior_is_named(behavior: np.ndarray, tmp_path: Path) -> None:
    run = open_run(write(tmp_path / "r"))
    file = behavior_file(run.directory, 0)
    file.parent.mkdir()
    np.savez(file, evaluations=[1, 2], behavior=behavior)
    with pytest.raises(TfsmError, match=r"run-000.npz: not the behavior of a run"):
        run.behavior(0)
