"""Event files agree with the run directory."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfsm
from tfsm.evolution.observers import Champion, ExperimentInfo, Interval
from tfsm.models.genome import Section
from tfsm_plugins.observers.tensorboard import TensorBoard

pytest.importorskip("tensorboard")

SMALL: dict[str, Any] = {"runs": 2, "seed": 4, "evaluations": 60, "population": 6, "log_every": 20, "size": 3}


def read_events(folder: Path) -> dict[str, list[tuple[int, np.ndarray]]]:
    """Return what TensorBoard would show of a folder: steps and values by tag."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator = EventAccumulator(str(folder), size_guidance={"tensors": 0})
    accumulator.Reload()
    return {
        tag: [(event.step, tf.make_ndarray(event.tensor_proto)) for event in accumulator.Tensors(tag)]
        for tag in accumulator.Tags()["tensors"]
    }


class Champions:
    """Records the champions and sensitivities of each run."""

    def __init__(self) -> None:
        self.genomes: dict[tuple[int, int], np.ndarray] = {}
        self.sensitivities: dict[tuple[int, int], np.ndarray] = {}

    def on_interval(self, interval: Interval) -> None:
        key = interval.run, interval.evaluations
        if interval.champion is not None:
            self.genomes[key] = interval.champion.genome
        if interval.sensitivity is not None:
            self.sensitivities[key] = interval.sensitivity


@pytest.fixture(scope="module")
def recorded_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Champions]:
    champions = Champions()
    out = tmp_path_factory.mktemp("tensorboard") / "run"
    tfsm.evolve("parity", mutation="sm-g-abs", out=out, observers=["tensorboard", champions], bits=2, units=3, **SMALL)
    return out, champions


def read_lines(out: Path, run: int) -> list[dict[str, Any]]:
    every = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [line for line in every if line["run"] == run]


def test_every_run_has_a_folder(recorded_run: tuple[Path, Champions]) -> None:
    out, _ = recorded_run
    assert sorted(path.name for path in (out / "tensorboard").iterdir()) == ["run-000", "run-001"]


@pytest.mark.parametrize("run", [0, 1])
def test_scalars_agree_with_metrics_jsonl(recorded_run: tuple[Path, Champions], run: int) -> None:
    out, _ = recorded_run
    found = read_events(out / "tensorboard" / f"run-{run:03d}")
    flat: dict[str, list[tuple[int, np.float32]]] = {}
    for line in read_lines(out, run):
        least, lower, median, upper, most = line["divergence_quantiles"]
        numbers = {
            "fitness/best": line["best_fitness"],
            "fitness/mean": line["mean_fitness"],
            "divergence/mean": line["divergence"],
            "divergence/min": least,
            "divergence/q25": lower,
            "divergence/median": median,
            "divergence/q75": upper,
            "divergence/max": most,
            **{f"children/{name}": line[name] for name in ("better", "neutral", "broken")},
        }
        for layer, (low, middle, high) in line["sensitivity"].items():
            numbers |= {f"sensitivity/{layer}/q05": low, f"sensitivity/{layer}/q95": high}
            numbers[f"sensitivity/{layer}/median"] = middle
        for tag, number in numbers.items():
            flat.setdefault(tag, []).append((line["evaluations"], np.float32(number)))  # as stored in event files
    drawn = {tag for tag, values in found.items() if values[0][1].ndim}
    assert {tag: values for tag, values in found.items() if tag not in drawn} == flat
    layers = set(read_lines(out, run)[0]["sensitivity"])
    assert len(layers) == 3
    assert drawn == {f"{group}/{layer}" for group in ("weights", "sensitivity") for layer in layers}


@pytest.mark.parametrize("group", ["weights", "sensitivity"])
def test_histograms_count_the_weights_of_each_layer(recorded_run: tuple[Path, Champions], group: str) -> None:
    out, champions = recorded_run
    vectors = champions.genomes if group == "weights" else champions.sensitivities
    # Kernels and biases of two recurrent layers of three units, and of two outputs.
    sizes = {"recurrent_1": 3 + 9 + 3, "recurrent_2": 9 + 9 + 3, "answer": 6 + 2}
    found = read_events(out / "tensorboard" / "run-001")
    start = 0
    for layer, size in sizes.items():
        own = {step: vector[start : start + size] for (run, step), vector in vectors.items() if run == 1}
        assert [step for step, _ in found[f"{group}/{layer}"]] == sorted(own)
        for step, buckets in found[f"{group}/{layer}"]:  # rows of left edge, right edge, count
            assert buckets[:, 2].sum() == size
            assert (buckets[0, 0], buckets[-1, 1]) == pytest.approx((own[step].min(), own[step].max()))
            below = np.searchsorted(np.sort(own[step]), buckets[1:, 0])  # weights to the left of each inner edge
            np.testing.assert_allclose(np.cumsum(buckets[:-1, 2]), below, atol=1)
        start += size


@pytest.mark.slow
def test_metrics_of_an_operator_are_scalars_and_histograms_are_optional(tmp_path: Path) -> None:
    options = {"tensorboard.histograms": False, "tensorboard.directory": str(tmp_path / "events"), "bits": 2}
    tfsm.evolve("parity", mutation="sm-r", observers=["tensorboard"], **(SMALL | {"runs": 1}), **options)
    found = read_events(tmp_path / "events" / "run-000")
    assert {"operator/search_steps", "operator/unreached"} <= found.keys()
    assert all(value.ndim == 0 for values in found.values() for _, value in values)


def test_unknown_values_are_omitted(tmp_path: Path) -> None:
    observer = TensorBoard()
    observer.on_experiment_start(
        ExperimentInfo({}, tmp_path, (Section("dense", ((0, 3),)), Section("broken", ((3, 4),))))
    )
    quantiles = [1.0, 2.0, None, None, None]
    line = {
        "best_fitness": None,
        "divergence": None,
        "divergence_quantiles": quantiles,
        "sensitivity": {"a": [None] * 3},
    }
    champion = Champion(0.5, np.array([1.0, np.nan, 3.0, np.inf]))
    observer.on_interval(Interval(7, 10, {"run": 7, "evaluations": 10, **line}, champion=champion))
    observer.on_experiment_end("failed")
    found = read_events(tmp_path / "tensorboard" / "run-007")
    assert set(found) == {"divergence/min", "divergence/q25", "weights/dense"}
    assert found["weights/dense"][0][1][:, 2].sum() == 2


@pytest.mark.slow
def test_without_a_directory_the_run_continues_with_a_warning() -> None:
    with pytest.warns(
        UserWarning, match=r"'tensorboard' failed .*: there is no run directory .* tensorboard.directory"
    ):
        result = tfsm.evolve("simple-easy", mutation="sm-g-abs", observers=["tensorboard"])
    assert result.solved == 1


def test_two_experiments_are_not_mixed(tmp_path: Path) -> None:
    (tmp_path / "run-000").mkdir()
    with pytest.raises(tfsm.TfsmError, match="already exists"):
        TensorBoard(directory=str(tmp_path)).on_experiment_start(ExperimentInfo({}, None, ()))


def test_the_error_without_tensorboard_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)  # as if it were not installed
    with pytest.raises(tfsm.TfsmError, match=r"^the observer 'tensorboard' needs tensorboard: pip install 'tfsm\[tens"):
        tfsm.evolve("simple-easy", mutation="control", observers=["tensorboard"], out=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
