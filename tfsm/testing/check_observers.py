"""Checks for observers."""

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
from tfsm.evolution.observers import EVENTS, Experiment, Observer, Progress, RunResult, Snapshot, Status
from tfsm.models.genome import Section
from tfsm.testing.check_common import pickle_round_trip, require_no_global_generators, watch_global_generators
from tfsm.testing.suite import CheckFailure, PartUnderTest, require

STATUSES: Final[tuple[Status, ...]] = ("finished", "interrupted", "failed")


def example_events(directory: Path | None, status: Status = "finished") -> list[tuple[str, tuple[Any, ...]]]:
    """Return the events of an experiment, each with what is told."""
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
    return [
        ("started", (Experiment(settings, directory, (Section("dense", ((0, 3),)),)),)),
        ("progress", (Progress(2, 0, 0, 0, 200, float("-inf"), "compiling"),)),
        ("interval", ([line, {**line, "run": 1}],)),
        ("sensitivity", (0, 20, genome)),
        ("population", (Snapshot(0, 20, np.zeros((5, 2))),)),
        ("best", (0, 20, 0.5, genome)),
        ("solved", (0, 20)),
        ("finished", (RunResult(0, 0, True, 20, 0.5, 0.5, genome),)),
        ("ended", (status,)),
    ]


def notify(observer: Any, event: str, arguments: tuple[Any, ...]) -> None:
    """Tell an observer of an event, if it has a method for that."""
    if hasattr(observer, event):
        getattr(observer, event)(*arguments)


def event_methods_have_the_right_signature(subject: PartUnderTest) -> None:
    """Its methods take what is told."""
    for event in EVENTS:
        method = getattr(subject.part, event, None)
        if method is None:
            continue
        told = list(inspect.signature(getattr(Observer, event)).parameters)[1:]
        try:
            inspect.signature(method).bind(*told)
        except TypeError as error:
            raise CheckFailure(
                f"{subject.title}.{event} cannot be called with {', '.join(told)}: {error}",
                f"write def {event}(self, {', '.join(told)})",
            ) from error


def handles_a_complete_experiment(subject: PartUnderTest) -> None:
    """It hears everything there is, however it ends, with numbers that are not known."""
    for status in STATUSES:
        with _directory() as directory:
            observer = subject.made()
            for event, arguments in example_events(directory, status):
                try:
                    notify(observer, event, arguments)
                # Whatever an observer raises.
                except Exception as error:
                    raise CheckFailure(
                        f"{event} raises {type(error).__name__}: {error}",
                        "expect None where a number is not known, numbers that are not finite, and runs side by side",
                    ) from error


def handles_an_experiment_that_ends_immediately(subject: PartUnderTest) -> None:
    """It may hear of a start and an end with nothing in between."""
    with _directory() as directory:
        observer = subject.made()
        for event, arguments in example_events(directory, "failed"):
            if event in ("started", "ended"):
                notify(observer, event, arguments)


def handles_an_experiment_without_a_directory(subject: PartUnderTest) -> None:
    """Where nothing is kept, it does without a directory or says that it cannot."""
    observer = subject.made()
    try:
        for event, arguments in example_events(None):
            notify(observer, event, arguments)
    except TfsmError:
        return
    # Whatever an observer raises.
    except Exception as error:
        raise CheckFailure(
            f"without a run directory it raises {type(error).__name__}: {error}",
            "experiment.directory is None where nothing is kept: raise a tfsm.TfsmError that says what is needed",
        ) from error


def concurrent_experiments_do_not_interfere(subject: PartUnderTest) -> None:
    """Two of them at once each keep to their own run directory."""
    with _directory() as root:
        folders = [root / name for name in ("one", "two")]
        for folder in folders:
            folder.mkdir()
        observers = [subject.made() for _ in folders]
        for steps in zip(*(example_events(folder) for folder in folders), strict=True):
            for observer, (event, arguments) in zip(observers, steps, strict=True):
                notify(observer, event, arguments)
        used = {path.parent for path in root.glob("*/*")}
        require(
            used in (set(), set(folders)) and {path.name for path in root.iterdir()} == {"one", "two"},
            "two experiments at once write into one place",
            "keep state in the object, never in the class or module, and write below experiment.directory",
        )


def does_not_modify_its_arguments(subject: PartUnderTest) -> None:
    """Others are told the same, so that nobody may change it."""
    with _directory() as directory:
        observer, told = subject.made(), example_events(directory)
        before = copy.deepcopy(told)
        for (event, arguments), (_, kept) in zip(told, before, strict=True):
            notify(observer, event, arguments)
            require(
                _same(arguments, kept),
                f"{event} changes what it is given",
                "copy it first: {**line} for metrics, genome.copy() for arrays",
            )


def uses_no_global_random_state(subject: PartUnderTest) -> None:
    """A run is the same whether it is watched or not."""
    with _directory() as directory, watch_global_generators() as used:
        observer = subject.made()
        for event, arguments in example_events(directory):
            notify(observer, event, arguments)
    require_no_global_generators(used)


def can_be_pickled_before_the_start(subject: PartUnderTest) -> None:
    """It can be sent to where the runs are, and hears them there."""
    with _directory() as directory:
        observer = pickle_round_trip(subject.made())
        for event, arguments in example_events(directory):
            notify(observer, event, arguments)


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
