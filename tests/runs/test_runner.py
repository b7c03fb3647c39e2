"""Experiments from Python: user-defined parts and models, run directories, and backends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import tfsm
from tests.helpers.domains import BestReplacesWorst, HostTarget, OneGenomeNoise, Target
from tests.helpers.engines import Recorder
from tfsm.evolution.engine import Engine
from tfsm.evolution.event_log import read_events
from tfsm.evolution.observers import Progress
from tfsm.interfaces import Observer
from tfsm.parallel.pool import Backend, choose_backend, resume_backend
from tfsm.plugins import load_plugins
from tfsm.runs.observers import CombinedProgress
from tfsm.runs.result import open_run
from tfsm.runs.runner import run_experiment
from tfsm.settings import Settings, resolve

SMALL: dict[str, Any] = {"population": 6, "evaluations": 30, "seed": 2}


@pytest.mark.slow
def test_all_parts_may_be_user_defined_objects(tmp_path: Path) -> None:
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


def test_a_user_defined_operator_needs_an_intensity() -> None:
    with pytest.raises(tfsm.TfsmError, match="mutation 'OneGenomeNoise' has no default intensity"):
        tfsm.evolve(Target(), mutation=OneGenomeNoise(), **SMALL)


def test_a_user_defined_model_is_evolved_and_left_unchanged() -> None:
    layers = keras.layers
    model = keras.Sequential([keras.Input((2, 1)), layers.GRU(2), layers.Dense(2, "softmax")])
    before = tfsm.flatten(model)
    result = tfsm.evolve("parity", model=model, mutation="control", bits=2, init="model", **SMALL)
    np.testing.assert_array_equal(tfsm.flatten(model), before)
    champion = result.champion()
    assert [type(layer) for layer in champion.layers] == [layers.GRU, layers.Dense]
    np.testing.assert_array_equal(tfsm.flatten(champion), result.best.champion)


def test_a_model_that_does_not_fit_the_domain_is_refused_with_both_shapes() -> None:
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(2)])
    with pytest.raises(tfsm.TfsmError, match=r"inputs are \(N, 5\), the domain's are \(N, 4, 1\)"):
        tfsm.evolve("parity", model=model)


@pytest.mark.slow
def test_a_model_without_gradient_is_refused_for_gradient_operators_only() -> None:
    inputs = keras.Input((2, 1))
    hidden = keras.layers.SimpleRNN(3)(inputs)
    model = keras.Model(inputs, keras.ops.round(keras.layers.Dense(2, "softmax")(hidden)))
    with pytest.raises(tfsm.TfsmError, match=r"not differentiable.*use the mutation 'sm-r'"):
        tfsm.evolve("parity", model=model, mutation="sm-g-sum", bits=2, **SMALL)
    result = tfsm.evolve("parity", model=model, mutation="sm-r", bits=2, **SMALL)
    assert result.runs[0].evaluations <= 30


@pytest.mark.slow
def test_observers_receive_what_the_directory_stores(tmp_path: Path) -> None:
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
    saved = keras.models.load_model(tmp_path / "run" / "champions" / "run-001.keras")
    np.testing.assert_array_equal(tfsm.flatten(saved), result.runs[1].champion)


def test_a_directory_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(tfsm.TfsmError, match="never overwrites a run"):
        tfsm.evolve("simple-easy", mutation="control", out=tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]


def test_a_failure_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Engine, *arguments: Any) -> None:
        raise RuntimeError("the machine caught fire")

    monkeypatch.setattr(Engine, "reset", fail)
    with pytest.raises(RuntimeError, match="caught fire"):
        tfsm.evolve("simple-easy", mutation="control", out=tmp_path / "run")
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["status"] == "failed"
    assert "caught fire" in record["error"]


@pytest.mark.slow
def test_files_named_by_options_are_copied_to_the_run_directory(tmp_path: Path) -> None:
    source = tmp_path / "map.txt"
    source.write_text("as it was")

    class WithMap(Target):
        def files(self) -> dict[str, Path]:
            return {"map": source}

    tfsm.evolve(WithMap(), mutation="control", intensity=0.1, out=tmp_path / "run", **SMALL)
    source.write_text("changed since")
    saved = open_run(tmp_path / "run").settings.domain_options["map"]
    assert Path(saved) == tmp_path / "run" / "inputs" / "map.txt"
    assert Path(saved).read_text() == "as it was"


SMALL_FOR_WORKERS: dict[str, Any] = {
    "mutation": "control",
    "population": 6,
    "size": 3,
    "log_every": 20,
    "intensity": 0.1,
    "init": "normal",
    "init_scale": 1.0,
}
SETS = [f"{key}={value}" for key, value in SMALL_FOR_WORKERS.items() if key != "mutation"]
ASYNC_ONLY = ("staleness", "staleness_most", "failed")


def evolve(out: Path, domain: Any = None, **options: Any) -> tfsm.Result:
    return tfsm.evolve(domain or HostTarget(near=0.001), out=out, **SMALL_FOR_WORKERS | options)


def read_lines(directory: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in ASYNC_ONLY} for line in lines]


def assert_same(found: tfsm.Result, expected: tfsm.Result) -> None:
    assert [run.summary() for run in found.runs] == [run.summary() for run in expected.runs]
    for run, other in zip(found.runs, expected.runs, strict=True):
        np.testing.assert_array_equal(run.champion, other.champion)


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> tfsm.Result:
    return evolve(tmp_path_factory.mktemp("here") / "run", runs=3, evaluations=150)


@pytest.mark.slow
def test_groups_of_runs_in_other_processes_give_the_same_results(local: tfsm.Result, tmp_path: Path) -> None:
    remote = evolve(tmp_path / "run", runs=3, evaluations=150, backend="processes", workers=2)
    assert_same(remote, local)
    assert local.directory is not None
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == (local.directory / "metrics.jsonl").read_bytes()
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["plan"]["place"] == {"backend": "processes", "workers": 2, "address": None, "grain": "runs"}
    assert remote.evaluated == sum(line["evaluations"] for line in read_last_lines(tmp_path / "run"))


def read_last_lines(directory: Path) -> list[dict[str, Any]]:
    return list({line["run"]: line for line in read_lines(directory)}.values())


@pytest.mark.slow
def test_a_run_can_be_resumed_on_another_backend(local: tfsm.Result, tmp_path: Path) -> None:
    evolve(tmp_path / "a", runs=3, evaluations=90)
    assert_same(evolve(tmp_path / "a", runs=3, evaluations=150, resume=True, backend="processes", workers=1), local)
    evolve(tmp_path / "b", runs=3, evaluations=70, backend="processes", workers=2)
    assert_same(evolve(tmp_path / "b", runs=3, evaluations=150, resume=True), local)
    assert local.directory is not None
    for name in "ab":
        assert (tmp_path / name / "metrics.jsonl").read_bytes() == (local.directory / "metrics.jsonl").read_bytes()


@pytest.mark.slow
def test_single_children_on_one_worker_give_the_same_run(tmp_path: Path) -> None:
    local = evolve(tmp_path / "here", runs=1, evaluations=100)
    remote = evolve(tmp_path / "there", runs=1, evaluations=100, grain="children", workers=1)
    assert_same(remote, local)
    assert read_lines(tmp_path / "there") == read_lines(tmp_path / "here")


@pytest.mark.slow
def test_a_recorded_order_gives_the_same_run_with_any_number_of_workers(tmp_path: Path) -> None:
    first = evolve(tmp_path / "first", runs=2, evaluations=80, grain="children", workers=2)
    plugins, name = load_plugins().with_part("domain", HostTarget(near=0.001))
    resolved = resolve(plugins, domain=name, mutation="control", overrides={"runs": 2, "evaluations": 80}, sets=SETS)
    replayed_run = run_experiment(
        plugins,
        resolved,
        out=tmp_path / "again",
        backend=Backend("processes", 1, None, "children"),
        order=tmp_path / "first" / "order.log",
    )
    assert_same(replayed_run, first)
    for name in ("order.log", "metrics.jsonl"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "first" / name).read_bytes()


@pytest.mark.slow
def test_evaluations_and_runs_by_single_children_can_be_extended(tmp_path: Path) -> None:
    domain = HostTarget(near=0.0)
    options = {"grain": "children", "workers": 1, "domain": domain}
    local = evolve(tmp_path / "here", runs=2, evaluations=85, domain=domain)
    evolve(tmp_path / "run", runs=1, evaluations=45, **options)
    evolve(tmp_path / "run", runs=1, evaluations=85, resume=True, **options)
    longer = evolve(tmp_path / "run", runs=2, evaluations=85, resume=True, **options)
    assert_same(longer, local)
    assert read_lines(tmp_path / "run") == read_lines(tmp_path / "here")
    saved = sorted(file.name for file in (tmp_path / "run" / "checkpoints").iterdir())
    assert saved == ["run-000-001-at-000000340.checkpoint"], "named by the number of events"
    replayed = [str(event) for event in read_events(tmp_path / "run" / "order.log")]
    assert replayed.count("< 0 84") == replayed.count("< 1 84") == 1


@pytest.mark.slow
def test_results_after_the_last_checkpoint_are_rewound_by_single_children(tmp_path: Path) -> None:
    """Two workers give another order, and so another run, after a resume."""
    out, options = tmp_path / "run", {"runs": 2, "evaluations": 60, "grain": "children", "workers": 2}
    evolve(out, **options)
    # As if it had been killed after the first checkpoint: log, champions and record are ahead of it.
    (last,) = (out / "checkpoints").iterdir()
    last.unlink()
    messages: list[str] = []
    plugins, name = load_plugins().with_part("domain", HostTarget(near=0.001))
    resolved = resolve(plugins, domain=name, mutation="control", overrides={"runs": 2, "evaluations": 60}, sets=SETS)
    backend = Backend("processes", 2, None, "children")
    run_experiment(plugins, resolved, out=out, resume=True, backend=backend, notify=messages.append)
    for file in ("champions/run-000.keras", "champions/run-001.keras", "metrics.jsonl", "order.log"):
        assert (out / f"{file}.before-1").is_file()
    assert sum("the old results are kept" in line for line in messages) == 1
    run_experiment(
        plugins,
        resolved,
        out=tmp_path / "again",
        backend=Backend("processes", 1, None, "children"),
        order=out / "order.log",
    )
    for file in ("order.log", "metrics.jsonl"):
        assert (tmp_path / "again" / file).read_bytes() == (out / file).read_bytes()
    # A damaged order log only prevents replays.
    (out / "order.log").write_text("> 0 0\n")
    resolved = resolve(plugins, domain=name, mutation="control", overrides={"runs": 2, "evaluations": 70}, sets=SETS)
    messages.clear()
    result = run_experiment(plugins, resolved, out=out, resume=True, backend=backend, notify=messages.append)
    assert [run.evaluations for run in result.runs] == [70, 70]
    assert any("no longer be replayed; the file is kept as order.log.damaged-1" in line for line in messages)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backend": "rays"}, "no such backend, did you mean 'ray'"),
        ({"grain": "child"}, "no such grain"),
        ({"workers": 0}, "expected at least 1"),
        ({"backend": "processes", "address": "auto"}, "only --backend ray has an address"),
        ({"backend": "local", "workers": 2}, "has no workers"),
        ({"backend": "local", "grain": "children"}, "has no workers"),
    ],
)
def test_inconsistent_backend_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(tfsm.TfsmError, match=message):
        choose_backend(**options)


def test_missing_backend_options_are_inferred() -> None:
    assert choose_backend() == Backend("local")
    assert choose_backend(workers=3) == Backend("processes", 3)
    assert choose_backend(grain="children").backend == "processes"
    assert choose_backend(address="auto") == Backend("ray", None, "auto")


def test_a_resumed_run_uses_its_former_backend_by_default(tmp_path: Path) -> None:
    before = {"plan": {"place": Backend("processes", 2, None, "children").as_dict()}}
    assert resume_backend(before, tmp_path, Backend(), explicit=False) == Backend("processes", 2, None, "children")
    assert resume_backend({}, tmp_path, Backend(), explicit=False) == Backend()
    with pytest.raises(tfsm.TfsmError, match="was started with --grain children"):
        resume_backend(before, tmp_path, Backend("ray"), explicit=True)


def test_progress_of_several_experiments_is_summed() -> None:
    received: list[Progress] = []

    class Listener(Observer):
        def on_progress(self, progress: Progress) -> None:
            received.append(progress)

    common = {"mutation": "control", "selection": "tournament", "intensity": 0.1, "seed": 0, "population": 5}
    settings = [
        Settings(domain="a", runs=n, evaluations=100, init="normal", init_scale=None, log_every=10, **common)  # type: ignore[arg-type]
        for n in (2, 3)
    ]
    combined = CombinedProgress(Listener(), settings)
    combined.observer(1).on_progress(Progress(3, 1, 1, 120, 250, -0.5, "evolving"))
    assert received == [Progress(5, 1, 1, 120, 450, -0.5, "evolving")]
