"""Experiments from Python: parts of one's own, models of one's own, and what is kept."""

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
from tfsm.runs.finished_run import open_run
from tfsm.runs.observers import CombinedProgress
from tfsm.runs.runner import run_experiment
from tfsm.settings import Settings, resolve

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
    with pytest.raises(tfsm.TfsmError, match="mutation 'OneGenomeNoise' has no default intensity"):
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
    with pytest.raises(tfsm.TfsmError, match="never overwrites a run"):
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


SMALL_ELSEWHERE: dict[str, Any] = {
    "mutation": "control",
    "population": 6,
    "size": 3,
    "log_every": 20,
    "intensity": 0.1,
    "init": "normal",
    "init_scale": 1.0,
}
SETS = [f"{key}={value}" for key, value in SMALL_ELSEWHERE.items() if key != "mutation"]
OUT_OF_STEP = ("staleness", "staleness_most", "failed")


def evolved(out: Path, domain: Any = None, **given: Any) -> tfsm.Result:
    return tfsm.evolve(domain or HostTarget(near=0.001), out=out, **SMALL_ELSEWHERE | given)


def lines(directory: Path) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in OUT_OF_STEP} for line in found]


def assert_same(found: tfsm.Result, wanted: tfsm.Result) -> None:
    assert [run.summary() for run in found.runs] == [run.summary() for run in wanted.runs]
    for own, other in zip(found.runs, wanted.runs, strict=True):
        np.testing.assert_array_equal(own.champion, other.champion)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> tfsm.Result:
    return evolved(tmp_path_factory.mktemp("here") / "run", runs=3, evaluations=150)


def test_groups_of_runs_in_other_processes_come_out_the_same(here: tfsm.Result, tmp_path: Path) -> None:
    there = evolved(tmp_path / "run", runs=3, evaluations=150, backend="processes", workers=2)
    assert_same(there, here)
    assert here.directory is not None
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == (here.directory / "metrics.jsonl").read_bytes()
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["plan"]["place"] == {"backend": "processes", "workers": 2, "address": None, "grain": "runs"}
    assert there.evaluated == sum(line["evaluations"] for line in last_lines(tmp_path / "run"))


def last_lines(directory: Path) -> list[dict[str, Any]]:
    return list({line["run"]: line for line in lines(directory)}.values())


@pytest.mark.slow
def test_what_was_begun_here_goes_on_there_and_the_other_way_round(here: tfsm.Result, tmp_path: Path) -> None:
    evolved(tmp_path / "a", runs=3, evaluations=90)
    assert_same(evolved(tmp_path / "a", runs=3, evaluations=150, resume=True, backend="processes", workers=1), here)
    evolved(tmp_path / "b", runs=3, evaluations=70, backend="processes", workers=2)
    assert_same(evolved(tmp_path / "b", runs=3, evaluations=150, resume=True), here)
    assert here.directory is not None
    for name in "ab":
        assert (tmp_path / name / "metrics.jsonl").read_bytes() == (here.directory / "metrics.jsonl").read_bytes()


@pytest.mark.slow
def test_child_by_child_with_one_worker_is_the_run_that_it_is_here(tmp_path: Path) -> None:
    here = evolved(tmp_path / "here", runs=1, evaluations=100)
    there = evolved(tmp_path / "there", runs=1, evaluations=100, grain="children", workers=1)
    assert_same(there, here)
    assert lines(tmp_path / "there") == lines(tmp_path / "here")


@pytest.mark.slow
def test_a_recorded_order_gives_the_same_run_whatever_the_number_of_workers(tmp_path: Path) -> None:
    first = evolved(tmp_path / "first", runs=2, evaluations=80, grain="children", workers=2)
    plugins, name = load_plugins().with_part("domain", HostTarget(near=0.001))
    resolved = resolve(plugins, domain=name, mutation="control", overrides={"runs": 2, "evaluations": 80}, sets=SETS)
    again = run_experiment(
        plugins,
        resolved,
        out=tmp_path / "again",
        backend=Backend("processes", 1, None, "children"),
        order=tmp_path / "first" / "order.log",
    )
    assert_same(again, first)
    for name in ("order.log", "metrics.jsonl"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "first" / name).read_bytes()


@pytest.mark.slow
def test_child_by_child_there_may_be_more_evaluations_and_runs_than_before(tmp_path: Path) -> None:
    domain = HostTarget(near=0.0)
    there = {"grain": "children", "workers": 1, "domain": domain}
    here = evolved(tmp_path / "here", runs=2, evaluations=85, domain=domain)
    evolved(tmp_path / "run", runs=1, evaluations=45, **there)
    evolved(tmp_path / "run", runs=1, evaluations=85, resume=True, **there)
    longer = evolved(tmp_path / "run", runs=2, evaluations=85, resume=True, **there)
    assert_same(longer, here)
    assert lines(tmp_path / "run") == lines(tmp_path / "here")
    kept = sorted(file.name for file in (tmp_path / "run" / "checkpoints").iterdir())
    assert kept == ["run-000-001-at-000000340.checkpoint"], "by the number of events"
    replayed = [str(event) for event in read_events(tmp_path / "run" / "order.log")]
    assert replayed.count("< 0 84") == replayed.count("< 1 84") == 1


@pytest.mark.slow
def test_child_by_child_what_came_after_the_last_checkpoint_is_taken_back(tmp_path: Path) -> None:
    """Two workers make another order, and so another run, when they go on."""
    out, there = tmp_path / "run", {"runs": 2, "evaluations": 60, "grain": "children", "workers": 2}
    evolved(out, **there)
    # As if it had been killed after the first checkpoint: of the log, the champions and the record there is more.
    (last,) = (out / "checkpoints").iterdir()
    last.unlink()
    heard: list[str] = []
    plugins, name = load_plugins().with_part("domain", HostTarget(near=0.001))
    resolved = resolve(plugins, domain=name, mutation="control", overrides={"runs": 2, "evaluations": 60}, sets=SETS)
    backend = Backend("processes", 2, None, "children")
    run_experiment(plugins, resolved, out=out, resume=True, backend=backend, notify=heard.append)
    for file in ("champions/run-000.keras", "champions/run-001.keras", "metrics.jsonl", "order.log"):
        assert (out / f"{file}.before-1").is_file()
    assert sum("the old results are kept" in line for line in heard) == 1
    run_experiment(
        plugins,
        resolved,
        out=tmp_path / "again",
        backend=Backend("processes", 1, None, "children"),
        order=out / "order.log",
    )
    for file in ("order.log", "metrics.jsonl"):
        assert (tmp_path / "again" / file).read_bytes() == (out / file).read_bytes()
    # A damaged order costs only itself.
    (out / "order.log").write_text("> 0 0\n")
    resolved = resolve(plugins, domain=name, mutation="control", overrides={"runs": 2, "evaluations": 70}, sets=SETS)
    heard.clear()
    result = run_experiment(plugins, resolved, out=out, resume=True, backend=backend, notify=heard.append)
    assert [run.evaluations for run in result.runs] == [70, 70]
    assert any("cannot be replayed from it any more, and is kept as order.log.damaged-1" in line for line in heard)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"backend": "rays"}, "no such backend, did you mean 'ray'"),
        ({"grain": "child"}, "no such grain"),
        ({"workers": 0}, "expected at least 1"),
        ({"backend": "processes", "address": "auto"}, "only --backend ray has an address"),
        ({"backend": "local", "workers": 2}, "has no workers"),
        ({"backend": "local", "grain": "children"}, "has no workers"),
    ],
)
def test_what_does_not_fit_together_is_refused(said: dict[str, Any], message: str) -> None:
    with pytest.raises(tfsm.TfsmError, match=message):
        choose_backend(**said)


def test_what_is_left_out_is_guessed() -> None:
    assert choose_backend() == Backend("local")
    assert choose_backend(workers=3) == Backend("processes", 3)
    assert choose_backend(grain="children").backend == "processes"
    assert choose_backend(address="auto") == Backend("ray", None, "auto")


def test_going_on_is_where_it_was_unless_told(tmp_path: Path) -> None:
    before = {"plan": {"place": Backend("processes", 2, None, "children").as_dict()}}
    assert resume_backend(before, tmp_path, Backend(), explicit=False) == Backend("processes", 2, None, "children")
    assert resume_backend({}, tmp_path, Backend(), explicit=False) == Backend()
    with pytest.raises(tfsm.TfsmError, match="was started with --grain children"):
        resume_backend(before, tmp_path, Backend("ray"), explicit=True)


def test_progress_of_several_is_added_up() -> None:
    told: list[Progress] = []

    class Listener(Observer):
        def on_progress(self, progress: Progress) -> None:
            told.append(progress)

    common = {"mutation": "control", "selection": "tournament", "intensity": 0.1, "seed": 0, "population": 5}
    settings = [
        Settings(domain="a", runs=n, evaluations=100, init="normal", init_scale=None, log_every=10, **common)  # type: ignore[arg-type]
        for n in (2, 3)
    ]
    combined = CombinedProgress(Listener(), settings)
    combined.observer(1).on_progress(Progress(3, 1, 1, 120, 250, -0.5, "evolving"))
    assert told == [Progress(5, 1, 1, 120, 450, -0.5, "evolving")]
