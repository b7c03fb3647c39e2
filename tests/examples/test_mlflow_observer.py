"""The example observer, with a test double of MLflow."""

from __future__ import annotations

import importlib.util
import json
import runpy
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import pytest

import tfsm
from tfsm.plugins import load_plugins
from tfsm.plugins.options import describe

FILE = Path(__file__).parents[2] / "examples" / "mlflow_observer.py"


class Metric(NamedTuple):
    """The fields of `mlflow.entities.Metric`, in order."""

    key: str
    value: float
    timestamp: int
    step: int


class Server:
    """A test double of a tracking server, which keeps what is logged; unknown runs and names are errors."""

    def __init__(self) -> None:
        self.experiments: list[str] = []
        self.runs: dict[str, dict[str, Any]] = {}

    def set_experiment(self, name: str) -> SimpleNamespace:
        if name not in self.experiments:
            self.experiments.append(name)
        return SimpleNamespace(experiment_id=str(self.experiments.index(name)), name=name)

    def create_run(self, experiment_id: str, run_name: str) -> SimpleNamespace:
        assert self.experiments[int(experiment_id)]
        number = f"id-{len(self.runs)}"
        self.runs[number] = {"name": run_name, "params": {}, "metrics": [], "tags": {}, "artifacts": [], "status": None}
        return SimpleNamespace(info=SimpleNamespace(run_id=number))

    def log_param(self, run_id: str, key: str, value: Any) -> None:
        assert key not in self.runs[run_id]["params"], "a parameter is logged once"
        self.runs[run_id]["params"][key] = str(value)

    def log_batch(self, run_id: str, metrics: list[Metric]) -> None:
        assert all(isinstance(metric.value, float) and isinstance(metric.step, int) for metric in metrics)
        assert self.runs[run_id]["status"] is None
        self.runs[run_id]["metrics"] += metrics

    def set_tag(self, run_id: str, key: str, value: str) -> None:
        self.runs[run_id]["tags"][key] = value

    def log_artifact(self, run_id: str, local_path: str) -> None:
        assert Path(local_path).is_file(), "the champion exists when the run has ended"
        self.runs[run_id]["artifacts"].append(Path(local_path).name)

    def set_terminated(self, run_id: str, status: str) -> None:
        self.runs[run_id]["status"] = status


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    server = Server()
    mlflow, entities = ModuleType("mlflow"), ModuleType("mlflow.entities")
    mlflow.set_experiment, mlflow.MlflowClient = server.set_experiment, lambda: server  # type: ignore[attr-defined]
    entities.Metric = Metric  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    monkeypatch.setitem(sys.modules, "mlflow.entities", entities)
    return server


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import the module as if it were in a third-party package."""
    spec = importlib.util.spec_from_file_location("mlflow_observer", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "mlflow_observer", module)
    spec.loader.exec_module(module)
    return module


def test_every_run_is_logged_with_its_metrics(server: Server, example: ModuleType, tmp_path: Path) -> None:
    result = tfsm.evolve(
        "simple-easy",
        mutation="sm-g-abs",
        runs=2,
        seed=1,
        out=tmp_path / "run",
        observers=[example.MlflowObserver(experiment="mine")],
    )
    assert server.experiments == ["mine"]
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    by_name = sorted(server.runs.values(), key=lambda run: str(run["name"]))
    assert [run["name"] for run in by_name] == ["simple-easy-sm-g-abs-000", "simple-easy-sm-g-abs-001"]
    for number, run in enumerate(by_name):
        assert run["status"] == "FINISHED"
        assert run["params"]["intensity"] == "0.5"
        assert run["artifacts"] == [f"run-{number:03d}.keras"]
        assert run["tags"] == {"solved_after": str(result.runs[number].evaluations)}
        own = [line for line in lines if line["run"] == number]
        for key in ("best_fitness", "divergence", "broken"):
            logged = [(metric.step, metric.value) for metric in run["metrics"] if metric.key == key]
            assert logged == [(line["evaluations"], line[key]) for line in own if line[key] is not None]
        medians = [metric.value for metric in run["metrics"] if metric.key == "divergence_median"]
        assert medians == [line["divergence_quantiles"][2] for line in own]


@pytest.mark.slow
def test_an_interrupted_run_is_marked_as_killed(server: Server, example: ModuleType, tmp_path: Path) -> None:
    class Interrupting:
        def on_interval(self, interval: Any) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tfsm.evolve("simple-easy", mutation="control", observers=[example.MlflowObserver(), Interrupting()])
    assert [(run["status"], run["artifacts"]) for run in server.runs.values()] == [("KILLED", [])]


@pytest.mark.slow
def test_without_mlflow_the_run_continues_with_a_warning(example: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)  # as if it were not installed
    with pytest.warns(UserWarning, match=r"observer 'MlflowObserver' failed .*: ModuleNotFoundError: .*mlflow"):
        result = tfsm.evolve("simple-easy", mutation="sm-g-abs", observers=[example.MlflowObserver()])
    assert result.solved == 1


def test_the_example_is_a_plugin(example: ModuleType) -> None:
    plugins = load_plugins(environ={}, entry_points=[EntryPoint("mlflow", "mlflow_observer", "tfsm")])
    assert plugins.warnings() == []
    entry = plugins.observers["mlflow"]
    assert entry.load() is example.MlflowObserver
    assert [option.name for option in describe(entry.options)] == ["experiment", "champions"]  # type: ignore[arg-type]
    assert [option.default for option in describe(entry.options)] == ["tfsm", True]  # type: ignore[arg-type]


def test_the_example_is_a_script(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(FILE), run_name="__main__")
    assert capsys.readouterr().out == "solved 2 of 2 runs; see them with: mlflow ui\n"
    assert [run["status"] for run in server.runs.values()] == ["FINISHED", "FINISHED"]
