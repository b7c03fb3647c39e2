"""Observers by name and as objects: the events they receive, and how their failures are handled."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfsm
from tests.helpers.domains import Target
from tests.helpers.engines import Recorder
from tests.settings.settings_case import with_part
from tfsm.evolution.engine import Engine
from tfsm.evolution.observers import OBSERVER_METHODS, Champion, Interval, RunResult
from tfsm.interfaces import Observer
from tfsm.runs.directory import RunDirectory
from tfsm.runs.observers import DeduplicatingObserver, SafeObserver, build_observers
from tfsm.runs.runner import run_experiment
from tfsm.settings import resolve

SMALL: dict[str, Any] = {"mutation": "control", "intensity": 0.1, "population": 6, "evaluations": 30}


class EventRecorder:
    """Records every event."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []

    def __getattr__(self, method: str) -> Any:
        if method not in OBSERVER_METHODS:
            raise AttributeError(method)
        return lambda event: self.events.append((method, event))

    def names(self) -> list[str]:
        return [method for method, _ in self.events if method != "on_progress"]

    def first(self, method: str) -> Any:
        return next(event for name, event in self.events if name == method)


class FailingObserver:
    """Handles one event, and fails at it."""

    def __init__(self, event: str, error: BaseException) -> None:
        self._error, self.calls = error, 0
        setattr(self, event, self._fail)

    def _fail(self, *arguments: Any) -> None:
        self.calls += 1
        raise self._error


@pytest.mark.slow
def test_an_observer_receives_all_events_of_an_experiment(tmp_path: Path) -> None:
    recorder = EventRecorder()
    result = tfsm.evolve(Target(near=0.0), observers=[recorder], out=tmp_path / "run", **SMALL)
    assert recorder.names() == [
        "on_experiment_start",
        "on_run_start",
        "on_checkpoint",
        "on_interval",
        "on_run_end",
        "on_experiment_end",
    ]
    experiment = recorder.first("on_experiment_start")
    assert experiment.directory == tmp_path / "run"
    recorded = json.loads((tmp_path / "run" / "run.json").read_text())["settings"]
    engine = {key: experiment.settings["engine"][key] for key in recorded["engine"]}
    # The record leaves out newer settings at their defaults.
    assert {key: experiment.settings[key] for key in recorded} | {"engine": engine} == recorded
    (layer,) = experiment.layers
    assert (layer.name, layer.ranges) == ("linear", ((0, 3),))
    interval, checkpoint = recorder.first("on_interval"), recorder.first("on_checkpoint")
    assert (interval.run, interval.evaluations) == (0, 30)
    assert interval.champion.fitness == interval.metrics["best_fitness"] == result.runs[0].best_fitness
    np.testing.assert_array_equal(layer.of(interval.champion.genome), result.runs[0].champion)
    assert (checkpoint.runs, checkpoint.evaluations) == (range(1), 30)
    assert [*(tmp_path / "run" / "checkpoints").iterdir()] == [checkpoint.file]
    assert recorder.first("on_run_start") == 0
    assert recorder.first("on_experiment_end") == "finished"


def test_without_a_directory_the_start_event_has_none() -> None:
    recorder = EventRecorder()
    tfsm.evolve(Target(near=0.0), observers=[recorder], **SMALL)
    assert recorder.first("on_experiment_start").directory is None


def test_the_run_directory_is_complete_at_the_end_event(tmp_path: Path) -> None:
    seen = []

    class Reader:
        def on_experiment_end(self, status: str) -> None:
            seen.append((status, json.loads((tmp_path / "run" / "run.json").read_text())["status"]))

    tfsm.evolve(Target(near=0.0), observers=[Reader()], out=tmp_path / "run", **SMALL)
    assert seen == [("finished", "finished")]


def test_an_interruption_is_reported(tmp_path: Path) -> None:
    recorder = EventRecorder()
    plugins, name = with_part("mutation", "unused").with_part("domain", Target(near=0.0))
    overrides = {key: value for key, value in SMALL.items() if key != "mutation"}
    resolved = resolve(plugins, domain=name, mutation="control", overrides=overrides, cwd=tmp_path)
    run_experiment(plugins, resolved, keep=False, observers=[recorder], stop=lambda: True)
    assert recorder.names()[-1] == "on_experiment_end"
    assert recorder.first("on_experiment_end") == "interrupted"


@pytest.mark.parametrize(
    ("error", "status"), [(RuntimeError("fire"), "failed"), (KeyboardInterrupt(), "interrupted")], ids=["error", "key"]
)
def test_a_failure_is_reported(monkeypatch: pytest.MonkeyPatch, error: BaseException, status: str) -> None:
    def fail(self: Engine, *arguments: Any) -> None:
        raise error

    recorder = EventRecorder()
    monkeypatch.setattr(Engine, "reset", fail)
    with pytest.raises(type(error)):
        tfsm.evolve(Target(near=0.0), observers=[recorder], **SMALL)
    assert recorder.names() == ["on_experiment_start", "on_experiment_end"]
    assert recorder.first("on_experiment_end") == status


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    "method",
    [
        # One at the start, one in between and one at the end; the others are handled alike.
        pytest.param(method, marks=() if method.endswith(("experiment_start", "interval", "end")) else pytest.mark.slow)
        for method in OBSERVER_METHODS
    ],
)
def test_a_failing_observer_only_causes_a_warning(method: str, tmp_path: Path) -> None:
    broken, recorder = FailingObserver(method, ValueError("two\nlines")), EventRecorder()
    message = "observer 'FailingObserver' failed and is disabled: ValueError: two"
    with warnings.catch_warnings(record=True) as caught_warnings:
        warnings.filterwarnings("always", message="observer")
        result = tfsm.evolve(
            Target(near=0.0), observers=[broken, recorder], runs=2, out=tmp_path / "run", log_every=10, **SMALL
        )
    assert [str(warning.message) for warning in caught_warnings] == [message]
    assert broken.calls == 1
    assert result.runs[1].evaluations == 30
    assert recorder.names()[-1] == "on_experiment_end", "other observers get everything"
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "finished"


@pytest.mark.parametrize(
    ("error", "reason"),
    [(SystemExit(3), "SystemExit: 3"), (tfsm.TfsmError("no room"), "no room"), (ValueError(), "ValueError:")],
    ids=["exit", "ours", "empty"],
)
def test_the_warning_states_the_reason(error: BaseException, reason: str) -> None:
    messages: list[str] = []
    guard = SafeObserver(FailingObserver("on_run_start", error), "fragile", messages.append)
    guard.on_run_start(0)
    guard.on_run_start(1)
    assert [line.strip() for line in messages] == [f"observer 'fragile' failed and is disabled: {reason}"]


def test_an_interrupt_is_not_an_observer_failure() -> None:
    with pytest.raises(KeyboardInterrupt):
        SafeObserver(FailingObserver("on_run_start", KeyboardInterrupt()), "slow", print).on_run_start(0)


def test_a_failing_run_directory_fails_the_experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: RunDirectory, metrics: Any) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(RunDirectory, "on_interval", full)
    with pytest.raises(OSError, match="no space left"):
        tfsm.evolve(Target(near=0.0), out=tmp_path / "run", **SMALL)
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "failed"


def test_an_object_without_the_methods_of_an_observer_is_refused() -> None:
    with pytest.raises(tfsm.TfsmError, match=r"^'object' is not an observer: subclass tfsm.Observer, or define"):
        tfsm.evolve("simple-easy", observers=[object()])


def test_names_and_objects_can_be_mixed_and_names_are_built_with_their_options(tmp_path: Path) -> None:
    plugins = with_part("observer", "third")
    resolved = resolve(
        plugins,
        domain="parity",
        mutation="control",
        overrides={"observers": ["third"]},
        sets=["third.reach=7"],
        cwd=tmp_path,
    )
    assert resolved.settings.observer_options == {"third": {"reach": 7}}
    with pytest.raises(tfsm.TfsmError, match="'third' is not an observer"):
        build_observers(plugins, resolved.settings, [], print)


def test_an_unknown_name_is_an_error_with_a_suggestion() -> None:
    with pytest.raises(tfsm.TfsmError, match=r"no observer named 'tensorbord', did you mean 'tensorboard'\?"):
        tfsm.evolve("simple-easy", observers=["tensorbord"])


def test_an_observer_does_nothing_by_default() -> None:
    @dataclass
    class Mine(tfsm.Observer):
        pass

    observer: Observer = Mine()
    assert [getattr(observer, method)(None) for method in OBSERVER_METHODS] == [None] * 7


GENOME = np.zeros(2, np.float32)


def interval(run: int, evaluations: int) -> Interval:
    line = {"run": run, "evaluations": evaluations}
    return Interval(run, evaluations, line, GENOME, champion=Champion(1.0, GENOME))


def report(observer: DeduplicatingObserver) -> None:
    """Report two runs, of which the first is solved."""
    for run in (0, 1):
        observer.on_run_start(run)
    for evaluations in (20, 40):
        for run in (0, 1):
            observer.on_interval(interval(run, evaluations))
    observer.on_run_end(RunResult(0, 0, True, 40, 1.0, 1.0, GENOME))


def test_duplicate_events_are_received_once() -> None:
    recorder, again = Recorder(), Recorder()
    report(DeduplicatingObserver(recorder))
    observer = DeduplicatingObserver(again)
    report(observer)
    report(observer)
    assert again.started == recorder.started == [0, 1]
    assert again.events == recorder.events
    assert again.metrics == recorder.metrics
    assert len(again.sensitivities) == len(recorder.sensitivities) == 4


def test_logged_intervals_are_not_received_again() -> None:
    recorder = Recorder()
    report(DeduplicatingObserver(recorder, {(0, 20), (1, 20), (0, 40)}))
    assert [(line["run"], line["evaluations"]) for line in recorder.metrics] == [(1, 40)]
    assert [(run, evaluations) for run, evaluations, *_ in recorder.champions] == [(1, 40)]
    # How a run ended is not in the log.
    assert recorder.events[-1] == "end of 0 at 40"


def test_progress_is_always_received() -> None:
    recorder = Recorder()
    observer = DeduplicatingObserver(recorder, {(0, 20)})
    observer.on_progress("half")  # type: ignore[arg-type]
    observer.on_progress("half")  # type: ignore[arg-type]
    assert recorder.seen == ["half", "half"]


def test_intervals_after_a_rewind_are_new() -> None:
    recorder = Recorder()
    observer = DeduplicatingObserver(recorder, {(0, 20), (0, 40), (1, 40)})
    observer.rewind({0: 20})
    for number in (20, 40):
        for run in (0, 1):
            observer.on_interval(interval(run, number))
    assert [(line["run"], line["evaluations"]) for line in recorder.metrics] == [(1, 20), (0, 40)]
