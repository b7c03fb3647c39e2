"""Checks of observers, with a made-up experiment."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

from tfsm.errors import TfsmError
from tfsm.evolution.observers import (
    OBSERVER_METHODS,
    Champion,
    CheckpointInfo,
    ExperimentInfo,
    Interval,
    PopulationSnapshot,
    Progress,
    RunResult,
    Status,
)
from tfsm.interfaces import Observer
from tfsm.models.genome import Section
from tfsm.testing.check_common import pickle_round_trip, require_no_global_generators, watch_global_generators
from tfsm.testing.suite import CheckFailure, PartUnderTest, require

STATUSES: Final[tuple[Status, ...]] = ("finished", "interrupted", "failed")


def example_events(directory: Path | None, status: Status = "finished") -> list[tuple[str, Any]]:
    """Return the events of a made-up experiment: methods of `Observer`, and their arguments."""
    genome = np.array([0.5, -1.0, 2.0], np.float32)
    line = {
        "run": 0,
        "evaluations": 20,
        "best_fitness": 0.5,
        "mean_fitness": None,
        "divergence": None,
        "divergence_quantiles": [0.0, 0.5, 1.0, 2.0, None],
        "better": 0.25,
        "neutral": 0.5,
        "broken": 0.0,
        "sensitivity": {"dense": [0.0, 1.0, None]},
        "search_steps": 3.0,
    }
    settings = {"domain": "parity", "mutation": "control", "runs": 2}
    population = PopulationSnapshot(0, 20, np.zeros((5, 2)))
    file = (directory or Path()) / "checkpoints" / "run-000-001-at-000000020.checkpoint"
    return [
        ("on_experiment_start", ExperimentInfo(settings, directory, (Section("dense", ((0, 3),)),))),
        ("on_progress", Progress(2, 0, 0, 0, 200, float("-inf"), "compiling")),
        ("on_run_start", 0),
        ("on_run_start", 1),
        ("on_interval", Interval(0, 20, line, genome, population, Champion(0.5, genome))),
        ("on_interval", Interval(1, 20, {**line, "run": 1})),
        ("on_checkpoint", CheckpointInfo(range(2), 20, file)),
        ("on_run_end", RunResult(0, 0, True, 20, 0.5, 0.5, genome)),
        ("on_experiment_end", status),
    ]


def notify(observer: Any, method: str, event: Any) -> None:
    """Call a method of an observer, if it has it."""
    if hasattr(observer, method):
        getattr(observer, method)(event)


def event_methods_have_the_right_signature(subject: PartUnderTest) -> None:
    """Its methods have the signatures of `Observer`."""
    for name in OBSERVER_METHODS:
        method = getattr(subject.part, name, None)
        if method is None:
            continue
        (argument,) = list(inspect.signature(getattr(Observer, name)).parameters)[1:]
        try:
            inspect.signature(method).bind(argument)
        except TypeError as error:
            raise CheckFailure(
                f"{subject.title}.{name} cannot be called with {argument}: {error}",
                f"write def {name}(self, {argument})",
            ) from error


def handles_a_complete_experiment(subject: PartUnderTest) -> None:
    """It accepts every event, however the experiment ends, with numbers that are unknown."""
    for status in STATUSES:
        with _directory() as directory:
            observer = subject.build()
            for method, event in example_events(directory, status):
                try:
                    notify(observer, method, event)
                # Any exception: this is third-party code.
                except Exception as error:
                    raise CheckFailure(
                        f"{method} raises {type(error).__name__}: {error}",
                        "expect None for an unknown number, numbers that are not finite, and interleaved runs",
                    ) from error


def handles_an_experiment_that_ends_immediately(subject: PartUnderTest) -> None:
    """An experiment may end right after its start."""
    with _directory() as directory:
        observer = subject.build()
        for method, event in example_events(directory, "failed"):
            if method in ("on_experiment_start", "on_experiment_end"):
                notify(observer, method, event)


def handles_an_experiment_without_a_directory(subject: PartUnderTest) -> None:
    """Without a run directory it works, or raises a `TfsmError`."""
    observer = subject.build()
    try:
        for method, event in example_events(None):
            notify(observer, method, event)
    except TfsmError:
        return
    # Any exception: this is third-party code.
    except Exception as error:
        raise CheckFailure(
            f"without a run directory it raises {type(error).__name__}: {error}",
            "experiment.directory is None where nothing is written: raise a tfsm.TfsmError that says what is needed",
        ) from error


def concurrent_experiments_do_not_interfere(subject: PartUnderTest) -> None:
    """Two observers at once each write to their own run directory."""
    with _directory() as root:
        folders = [root / name for name in ("one", "two")]
        for folder in folders:
            folder.mkdir()
        observers = [subject.build() for _ in folders]
        for steps in zip(*(example_events(folder) for folder in folders), strict=True):
            for observer, (method, event) in zip(observers, steps, strict=True):
                notify(observer, method, event)
        used = {path.parent for path in root.glob("*/*")}
        require(
            used in (set(), set(folders)) and {path.name for path in root.iterdir()} == {"one", "two"},
            "two experiments at once write to the same place",
            "keep state in the object, never in the class or module, and write below experiment.directory",
        )


def does_not_modify_its_arguments(subject: PartUnderTest) -> None:
    """All observers receive the same objects, so none may modify them."""
    with _directory() as directory:
        observer, events = subject.build(), example_events(directory)
        for (method, event), (_, before) in zip(events, copy.deepcopy(events), strict=True):
            notify(observer, method, event)
            require(
                _same(event, before),
                f"{method} modifies what it receives",
                "copy it first: {**interval.metrics} for metrics, genome.copy() for arrays",
            )


def uses_no_global_random_state(subject: PartUnderTest) -> None:
    """Observing a run does not change it."""
    with _directory() as directory, watch_global_generators() as used:
        observer = subject.build()
        for method, event in example_events(directory):
            notify(observer, method, event)
    require_no_global_generators(used)


def can_be_pickled_before_the_start(subject: PartUnderTest) -> None:
    """It can be sent to another process and works there."""
    with _directory() as directory:
        observer = pickle_round_trip(subject.build())
        for method, event in example_events(directory):
            notify(observer, method, event)


@contextmanager
def _directory() -> Iterator[Path]:
    with TemporaryDirectory(prefix="tfsm-check-") as name:
        yield Path(name)


def _same(mine: object, theirs: object) -> bool:
    if isinstance(mine, np.ndarray):
        return np.array_equal(mine, np.asarray(theirs))
    if isinstance(mine, tuple | list) and isinstance(theirs, tuple | list):
        return len(mine) == len(theirs) and all(_same(*pair) for pair in zip(mine, theirs, strict=True))
    if hasattr(mine, "__dict__"):
        return _same(list(vars(mine).values()), list(vars(theirs).values()))
    return mine == theirs
