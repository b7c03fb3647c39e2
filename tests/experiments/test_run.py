"""Experiments from Python: parts of one's own, models of one's own, and what is kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import tfsm
from tests.helpers.domains import BestReplacesWorst, OneGenomeNoise, Target
from tests.helpers.engines import Recorder
from tfsm.evolution.engine import Engine
from tfsm.runs.finished_run import open_run

SMALL: dict[str, Any] = {"population": 6, "evaluations": 30, "seed": 2}


def test_everything_may_be_an_object_of_ones_own(tmp_path: Path) -> None:
    result = tfsm.evolve(
        Target(near=0.0),
        mutation=OneGenomeNoise(),
        selection=BestReplacesWorst(),
        intensity=0.1,
        out=tmp_path / "own",
        **SMALL,
    )
    assert result.runs[0].evaluations == 30
    record = json.loads((tmp_path / "own" / "run.json").read_text())
    assert record["settings"]["domain"] == "Target"
    assert record["settings"]["mutation"] == "OneGenomeNoise"
    assert record["settings"]["selection"] == "BestReplacesWorst"


def test_an_operator_of_ones_own_needs_an_intensity() -> None:
    with pytest.raises(tfsm.TfsmError, match="no intensity is known for mutation 'OneGenomeNoise'"):
        tfsm.evolve(Target(), mutation=OneGenomeNoise(), **SMALL)


def test_a_model_of_ones_own_is_evolved_and_left_as_it_was() -> None:
    layers = keras.layers
    model = keras.Sequential([keras.Input((2, 1)), layers.GRU(3), layers.Dense(2, "softmax")])
    before = tfsm.flatten(model)
    result = tfsm.evolve("parity", model=model, mutation="sm-g-sum", bits=2, init="model", **SMALL)
    np.testing.assert_array_equal(tfsm.flatten(model), before)
    champion = result.champion()
    assert [type(layer) for layer in champion.layers] == [layers.GRU, layers.Dense]
    np.testing.assert_array_equal(tfsm.flatten(champion), result.best.champion)


def test_a_model_that_does_not_fit_the_domain_is_refused_with_both_shapes() -> None:
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(2)])
    with pytest.raises(tfsm.TfsmError, match=r"inputs are \(N, 5\), the domain's are \(N, 4, 1\)"):
        tfsm.evolve("parity", model=model)


def test_a_model_without_gradient_is_refused_for_gradient_operators_only() -> None:
    inputs = keras.Input((2, 1))
    hidden = keras.layers.SimpleRNN(3)(inputs)
    model = keras.Model(inputs, keras.ops.round(keras.layers.Dense(2, "softmax")(hidden)))
    with pytest.raises(tfsm.TfsmError, match=r"not differentiable.*use the mutation 'sm-r'"):
        tfsm.evolve("parity", model=model, mutation="sm-g-sum", bits=2, **SMALL)
    result = tfsm.evolve("parity", model=model, mutation="sm-r", bits=2, **SMALL)
    assert result.runs[0].evaluations <= 30


def test_observers_hear_what_the_directory_keeps(tmp_path: Path) -> None:
    recorder = Recorder()
    result = tfsm.evolve(
        "simple-medium",
        mutation="sm-g-so",
        runs=2,
        seed=4,
        evaluations=60,
        out=tmp_path / "run",
        observers=[recorder],
    )
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert lines == sorted(recorder.metrics, key=lambda line: (line["evaluations"], line["run"]))
    kept = keras.models.load_model(tmp_path / "run" / "champions" / "run-001.keras")
    np.testing.assert_array_equal(tfsm.flatten(kept), result.runs[1].champion)


def test_a_directory_in_use_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(tfsm.TfsmError, match="never overwritten"):
        tfsm.evolve("simple-easy", mutation="control", out=tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]


def test_a_failure_on_the_way_is_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Engine, *arguments: Any) -> None:
        raise RuntimeError("the machine caught fire")

    monkeypatch.setattr(Engine, "reset", fail)
    with pytest.raises(RuntimeError, match="caught fire"):
        tfsm.evolve("simple-easy", mutation="control", out=tmp_path / "run")
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["status"] == "failed"
    assert "caught fire" in record["error"]


def test_files_that_options_name_are_kept_with_the_run(tmp_path: Path) -> None:
    source = tmp_path / "map.txt"
    source.write_text("as it was")

    class WithMap(Target):
        def files(self) -> dict[str, Path]:
            return {"map": source}

    tfsm.evolve(WithMap(), mutation="control", intensity=0.1, out=tmp_path / "run", **SMALL)
    source.write_text("changed since")
    kept = open_run(tmp_path / "run").settings.domain_options["map"]
    assert Path(kept) == tmp_path / "run" / "inputs" / "map.txt"
    assert Path(kept).read_text() == "as it was"
