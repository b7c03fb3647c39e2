"""What must be true of every observer: it hears all there is, keeps to its place, and changes no run."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfsm
from tests.contracts.parts import NEEDS, entries, no_global_randomness
from tests.helpers.engines import Recorder
from tfsm.evolution.records import EVENTS, Experiment, Observer, Progress, RunResult, Snapshot, Status
from tfsm.experiments.parts import build_part
from tfsm.models.sections import Section
from tfsm.registry import Entry

EVERY = [pytest.param(entry, id=entry.name) for entry in entries("observer")]
STATUSES: tuple[Status, ...] = ("finished", "interrupted", "failed")
LINE = {"run": 0, "evaluations": 20, "best_fitness": 0.5, "mean_fitness": None, "divergence": None, "better": 0.25}


def build(entry: Entry) -> Any:
    if entry.name in NEEDS:
        pytest.importorskip(NEEDS[entry.name])
    return build_part(entry, {})


def history(directory: Path, status: Status) -> list[tuple[str, tuple[Any, ...]]]:
    """Return all that an observer may hear, in order, with numbers known and unknown."""
    genome = np.array([0.5, -1.0, 2.0], np.float32)
    quantiles = [0.0, 0.5, 1.0, 2.0, None]
    line = {**LINE, "divergence_quantiles": quantiles, "sensitivity": {"dense": [0.0, 1.0, None]}, "search_steps": 3.0}
    return [
        ("started", (Experiment({"domain": "parity", "mutation": "control"}, directory, (Section("a", ((0, 3),)),)),)),
        ("progress", (Progress(2, 0, 0, 0, 200, float("-inf"), "compiling"),)),
        ("interval", ([line, {**line, "run": 1}],)),
        ("sensitivity", (0, 20, genome)),
        ("population", (Snapshot(0, 20, np.zeros((5, 2))),)),
        ("best", (0, 20, 0.5, genome)),
        ("solved", (0, 20)),
        ("finished", (RunResult(0, 0, True, 20, 0.5, 0.5, genome),)),
        ("ended", (status,)),
    ]


def tell(observer: Any, event: str, arguments: tuple[Any, ...]) -> None:
    if hasattr(observer, event):
        getattr(observer, event)(*arguments)


@pytest.mark.parametrize("entry", EVERY)
def test_it_hears_something_and_under_the_names_that_are_told(entry: Entry) -> None:
    found = entry.load()
    heard = [event for event in EVENTS if hasattr(found, event)]
    assert heard
    for event in heard:
        expected = list(inspect.signature(getattr(Observer, event)).parameters)
        assert list(inspect.signature(getattr(found, event)).parameters) == expected


def test_the_history_has_every_event(tmp_path: Path) -> None:
    assert {event for event, _ in history(tmp_path, "finished")} == set(EVENTS)


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("entry", EVERY)
def test_it_hears_a_whole_experiment(entry: Entry, status: Status, tmp_path: Path) -> None:
    observer = build(entry)
    for event, arguments in history(tmp_path, status):
        tell(observer, event, arguments)


@pytest.mark.parametrize("entry", EVERY)
def test_it_stands_an_experiment_that_ends_at_once(entry: Entry, tmp_path: Path) -> None:
    observer = build(entry)
    for event, arguments in history(tmp_path, "failed"):
        if event in ("started", "ended"):
            tell(observer, event, arguments)


@pytest.mark.parametrize("entry", EVERY)
def test_two_experiments_at_once_do_not_mix(entry: Entry, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "two")]
    observers = [build(entry) for _ in folders]
    for folder in folders:
        folder.mkdir()
    histories = [history(folder, "finished") for folder in folders]
    for steps in zip(*histories, strict=True):
        for observer, (event, arguments) in zip(observers, steps, strict=True):
            tell(observer, event, arguments)
    assert {path.parent for path in tmp_path.glob("*/*")} in ({*folders}, set())
    assert {path.name for path in tmp_path.iterdir()} == {"one", "two"}, "nothing beside the run directories"


@pytest.mark.parametrize("entry", EVERY)
def test_it_changes_no_run_and_uses_no_global_generator(entry: Entry, tmp_path: Path) -> None:
    if entry.name in NEEDS:
        pytest.importorskip(NEEDS[entry.name])
    found = []
    for number, names in enumerate(((), (entry.name,))):
        recorder = Recorder()
        tfsm.evolve(
            "simple-medium",
            mutation="sm-g-abs",
            runs=2,
            evaluations=60,
            out=tmp_path / str(number),
            observers=[*names, recorder],
        )
        found.append(recorder.metrics)
    assert found[0] == found[1]
    with no_global_randomness():
        observer = build(entry)
        for event, arguments in history(tmp_path, "finished"):
            tell(observer, event, arguments)
