"""Observers by name and as objects: what they hear, and what becomes of those that fail."""

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
from tfsm.evolution.observers import EVENTS, Observer, RunResult, Silent
from tfsm.runs.directory import RunDirectory
from tfsm.runs.observers import DeduplicatingObserver, SafeObserver, guarded
from tfsm.runs.runner import run_experiment
from tfsm.settings import resolve

SMALL: dict[str, Any] = {"mutation": "control", "intensity": 0.1, "population": 6, "evaluations": 30}


class Everything:
    """Writes down every event."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, Any]] = []

    def __getattr__(self, event: str) -> Any:
        if event not in EVENTS:
            raise AttributeError(event)
        return lambda *arguments: self.heard.append((event, arguments))

    def names(self) -> list[str]:
        return [event for event, _ in self.heard if event != "progress"]

    def first(self, event: str) -> Any:
        return next(arguments for name, arguments in self.heard if name == event)


class Only:
    """Cares for one event, and fails at it."""

    def __init__(self, event: str, error: BaseException) -> None:
        self._error, self.calls = error, 0
        setattr(self, event, self._fail)

    def _fail(self, *arguments: Any) -> None:
        self.calls += 1
        raise self._error


def test_an_experiment_is_told_from_beginning_to_end(tmp_path: Path) -> None:
    heard = Everything()
    result = tfsm.evolve(Target(near=0.0), observers=[heard], out=tmp_path / "run", **SMALL)
    assert heard.names() == ["started", "interval", "best", "finished", "ended"]
    (experiment,) = heard.first("started")
    assert experiment.directory == tmp_path / "run"
    assert experiment.settings == json.loads((tmp_path / "run" / "run.json").read_text())["settings"]
    (layer,) = experiment.layers
    assert (layer.name, layer.places) == ("linear", ((0, 3),))
    run, evaluations, fitness, genome = heard.first("best")
    assert (run, evaluations, fitness) == (0, 30, result.runs[0].best_fitness)
    np.testing.assert_array_equal(layer.of(genome), result.runs[0].champion)
    assert heard.first("ended") == ("finished",)


def test_without_a_directory_there_is_none_to_tell_of() -> None:
    heard = Everything()
    tfsm.evolve(Target(near=0.0), observers=[heard], **SMALL)
    assert heard.first("started")[0].directory is None


def test_the_run_directory_is_complete_when_the_end_is_told(tmp_path: Path) -> None:
    seen = []

    class Reader:
        def ended(self, status: str) -> None:
            seen.append((status, json.loads((tmp_path / "run" / "run.json").read_text())["status"]))

    tfsm.evolve(Target(near=0.0), observers=[Reader()], out=tmp_path / "run", **SMALL)
    assert seen == [("finished", "finished")]


def test_an_interruption_is_told_of(tmp_path: Path) -> None:
    heard = Everything()
    plugins, name = with_part("mutation", "unused").with_part("domain", Target(near=0.0))
    overrides = {key: value for key, value in SMALL.items() if key != "mutation"}
    resolved = resolve(plugins, domain=name, mutation="control", overrides=overrides, cwd=tmp_path)
    run_experiment(plugins, resolved, keep=False, observers=[heard], stop=lambda: True)
    assert heard.names()[-1] == "ended"
    assert heard.first("ended") == ("interrupted",)


@pytest.mark.parametrize(
    ("error", "status"), [(RuntimeError("fire"), "failed"), (KeyboardInterrupt(), "interrupted")], ids=["error", "key"]
)
def test_a_failure_is_told_of(monkeypatch: pytest.MonkeyPatch, error: BaseException, status: str) -> None:
    def fail(self: Engine, *arguments: Any) -> None:
        raise error

    heard = Everything()
    monkeypatch.setattr(Engine, "reset", fail)
    with pytest.raises(type(error)):
        tfsm.evolve(Target(near=0.0), observers=[heard], **SMALL)
    assert heard.names() == ["started", "ended"]
    assert heard.first("ended") == (status,)


@pytest.mark.parametrize(
    "event",
    [
        # One at the start, one on the way and one at the end; the others go the same way.
        pytest.param(event, marks=() if event in ("started", "interval", "ended") else pytest.mark.slow)
        for event in sorted(set(EVENTS) - {"sensitivity", "population", "solved"})
    ],
)
def test_an_observer_that_fails_costs_a_warning_and_no_more(event: str, tmp_path: Path) -> None:
    broken, heard = Only(event, ValueError("two\nlines")), Everything()
    message = "the observer 'Only' failed and is told nothing more: ValueError: two"
    with warnings.catch_warnings(record=True) as warned:
        warnings.filterwarnings("always", message="the observer")
        result = tfsm.evolve(
            Target(near=0.0), observers=[broken, heard], runs=2, out=tmp_path / "run", log_every=10, **SMALL
        )
    assert [str(warning.message) for warning in warned] == [message]
    assert broken.calls == 1
    assert result.runs[1].evaluations == 30
    assert heard.names()[-1] == "ended", "whoever else observes hears everything"
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "finished"


@pytest.mark.parametrize(
    ("error", "reason"),
    [(SystemExit(3), "SystemExit: 3"), (tfsm.TfsmError("no room"), "no room"), (ValueError(), "ValueError:")],
    ids=["exit", "ours", "empty"],
)
def test_a_warning_says_why(error: BaseException, reason: str) -> None:
    said: list[str] = []
    guard = SafeObserver(Only("solved", error), "fragile", said.append)
    guard.solved(0, 1)
    guard.solved(1, 1)
    assert [line.strip() for line in said] == [f"the observer 'fragile' failed and is told nothing more: {reason}"]


def test_the_second_interrupt_is_not_an_observers_failure() -> None:
    with pytest.raises(KeyboardInterrupt):
        SafeObserver(Only("solved", KeyboardInterrupt()), "slow", print).solved(0, 1)


def test_the_run_directory_is_no_mere_observer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: RunDirectory, metrics: Any) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(RunDirectory, "interval", full)
    with pytest.raises(OSError, match="no space left"):
        tfsm.evolve(Target(near=0.0), out=tmp_path / "run", **SMALL)
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "failed"


def test_an_object_that_hears_nothing_is_refused() -> None:
    with pytest.raises(tfsm.TfsmError, match="the observer 'object' hears nothing: it has none of the methods started"):
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
    with pytest.raises(tfsm.TfsmError, match="the observer 'third' hears nothing"):
        guarded(plugins, resolved.settings, [], print)


def test_an_unknown_name_is_an_error_with_a_suggestion() -> None:
    with pytest.raises(tfsm.TfsmError, match=r"no observer named 'tensorbord', did you mean 'tensorboard'\?"):
        tfsm.evolve("simple-easy", observers=["tensorbord"])


def test_silent_can_be_told_everything() -> None:
    @dataclass
    class Mine(Silent):
        pass

    observer: Observer = Mine()
    assert all(callable(getattr(observer, event)) for event in EVENTS)
    assert observer.solved(0, 1) is None  # type: ignore[func-returns-value]


GENOME = np.zeros(2, np.float32)


def tell(once: DeduplicatingObserver) -> None:
    """Tell of two runs, of which the first is solved."""
    for evaluations in (20, 40):
        once.interval([{"run": run, "evaluations": evaluations} for run in (0, 1)])
        for run in (0, 1):
            once.sensitivity(run, evaluations, GENOME)
            once.best(run, evaluations, 1.0, GENOME)
    once.solved(0, 40)
    once.finished(RunResult(0, 0, True, 40, 1.0, 1.0, GENOME))


def test_what_is_told_twice_is_heard_once() -> None:
    recorder, again = Recorder(), Recorder()
    tell(DeduplicatingObserver(recorder))
    once = DeduplicatingObserver(again)
    tell(once)
    tell(once)
    assert again.events == recorder.events
    assert again.metrics == recorder.metrics
    assert len(again.sensitivities) == len(recorder.sensitivities) == 4


def test_what_the_log_has_is_not_heard_again() -> None:
    recorder = Recorder()
    tell(DeduplicatingObserver(recorder, {(0, 20), (1, 20), (0, 40)}))
    assert [(line["run"], line["evaluations"]) for line in recorder.metrics] == [(1, 40)]
    assert [(run, evaluations) for run, evaluations, *_ in recorder.champions] == [(1, 40)]
    # How a run ended was not in the log.
    assert recorder.events[-2:] == ["solved 0 at 40", "finished 0 at 40"]


def test_progress_is_always_heard() -> None:
    recorder = Recorder()
    once = DeduplicatingObserver(recorder, {(0, 20)})
    once.progress("half")  # type: ignore[arg-type]
    once.progress("half")  # type: ignore[arg-type]
    assert recorder.seen == ["half", "half"]


def test_what_is_taken_back_is_told_anew() -> None:
    recorder = Recorder()
    once = DeduplicatingObserver(recorder, {(0, 20), (0, 40), (1, 40)})
    once.forget({0: 20})
    once.interval([{"run": run, "evaluations": number} for number in (20, 40) for run in (0, 1)])
    assert [(line["run"], line["evaluations"]) for line in recorder.metrics] == [(1, 20), (0, 40)]
