"""Guarded, deduplicated, forwarded, aggregated observers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tfsm.errors import TfsmError
from tfsm.evolution.observers import EVENTS, Experiment, Observer, Progress, RunResult, Snapshot, Status
from tfsm.plugins import Plugins
from tfsm.plugins.registry import build_part
from tfsm.settings import Settings


class Passing:
    """An observer that passes everything on in one way."""

    def started(self, experiment: Experiment) -> None:
        """Pass it on."""
        self._tell("started", experiment)

    def progress(self, progress: Progress) -> None:
        """Pass it on."""
        self._tell("progress", progress)

    def interval(self, metrics: list[dict[str, Any]]) -> None:
        """Pass it on."""
        self._tell("interval", metrics)

    def sensitivity(self, run: int, evaluations: int, values: np.ndarray) -> None:
        """Pass it on."""
        self._tell("sensitivity", run, evaluations, values)

    def population(self, snapshot: Snapshot) -> None:
        """Pass it on."""
        self._tell("population", snapshot)

    def best(self, run: int, evaluations: int, fitness: float, genome: np.ndarray) -> None:
        """Pass it on."""
        self._tell("best", run, evaluations, fitness, genome)

    def solved(self, run: int, evaluations: int) -> None:
        """Pass it on."""
        self._tell("solved", run, evaluations)

    def finished(self, result: RunResult) -> None:
        """Pass it on."""
        self._tell("finished", result)

    def ended(self, status: Status) -> None:
        """Pass it on."""
        self._tell("ended", status)

    def _tell(self, event: str, *arguments: Any) -> None:
        raise NotImplementedError


class SafeObserver(Passing):
    """Passes on to an observer what it has methods for; one that fails is warned of, and told nothing more.

    Args:
        observer: any object.
        name: what to call it in a warning.
        warn: told if it fails, once.
    """

    def __init__(self, observer: Any, name: str, warn: Callable[[str], None]) -> None:
        self._observer, self._name, self._warn = observer, name, warn

    def _tell(self, event: str, *arguments: Any) -> None:
        try:
            method = getattr(self._observer, event, None)
            if method is not None:
                method(*arguments)
        # SystemExit too: an observer that calls sys.exit() must not end the run.
        except (Exception, SystemExit) as error:
            self._observer = None
            reason = " ".join(str(error).split()) if isinstance(error, TfsmError) else one_line(error)
            self._warn(f"the observer {self._name!r} failed and is told nothing more: {reason}")


class DeduplicatingObserver:
    """Passes everything on but what was told before.

    Whoever goes on from a checkpoint tells again what came after it.

    Args:
        observer: whom to tell.
        known: the run and the number of evaluations of what was told before.
    """

    def __init__(self, observer: Observer, known: Collection[tuple[int, int]] = ()) -> None:
        self._observer = observer
        self._told: dict[str, set[tuple[int, int]]] = {
            event: set(known) for event in ("interval", "sensitivity", "population", "best")
        }
        self._ended: set[tuple[str, int]] = set()
        self.started, self.progress, self.ended = observer.started, observer.progress, observer.ended

    def forget(self, after: Mapping[int, int]) -> None:
        """Let what is told of runs after so many evaluations each be new, whatever was told before."""
        for told in self._told.values():
            told -= {(run, number) for run, number in told if run in after and number > after[run]}

    def interval(self, metrics: list[dict[str, Any]]) -> None:
        """Pass on the lines that are new."""
        new = [line for line in metrics if self._is_new("interval", line["run"], line["evaluations"])]
        if new:
            self._observer.interval(new)

    def sensitivity(self, run: int, evaluations: int, values: np.ndarray) -> None:
        """Pass it on if it is new."""
        if self._is_new("sensitivity", run, evaluations):
            self._observer.sensitivity(run, evaluations, values)

    def population(self, snapshot: Snapshot) -> None:
        """Pass it on if it is new."""
        if self._is_new("population", snapshot.run, snapshot.evaluations):
            self._observer.population(snapshot)

    def best(self, run: int, evaluations: int, fitness: float, genome: np.ndarray) -> None:
        """Pass it on if it is new."""
        if self._is_new("best", run, evaluations):
            self._observer.best(run, evaluations, fitness, genome)

    def solved(self, run: int, evaluations: int) -> None:
        """Pass it on if it is new."""
        if self._is_first("solved", run):
            self._observer.solved(run, evaluations)

    def finished(self, result: RunResult) -> None:
        """Pass it on if it is new."""
        if self._is_first("finished", result.run):
            self._observer.finished(result)

    def _is_new(self, event: str, run: int, evaluations: int) -> bool:
        told, key = self._told[event], (run, evaluations)
        new = key not in told
        told.add(key)
        return new

    def _is_first(self, event: str, run: int) -> bool:
        new = (event, run) not in self._ended
        self._ended.add((event, run))
        return new


def guarded(
    plugins: Plugins, settings: Settings, others: Iterable[Any], warn: Callable[[str], None]
) -> list[SafeObserver]:
    """Build the observers that the settings name, and guard them together with others that came ready made."""
    named = [
        (name, build_part(plugins.observers[name], settings.observer_options[name])) for name in settings.observers
    ]
    named += [(type(part).__name__, part) for part in others]
    for name, part in named:
        if not any(callable(getattr(part, event, None)) for event in EVENTS):
            raise TfsmError(f"the observer {name!r} hears nothing: it has none of the methods {', '.join(EVENTS)}")
    return [SafeObserver(part, name, warn) for name, part in named]


def one_line(error: BaseException) -> str:
    """Return an error's type and the first line of what it says."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0].strip() if lines else ''}"


class Together:
    """Adds up where experiments stand.

    Args:
        observer: whom to tell; only of progress.
        settings: of the experiments.
    """

    def __init__(self, observer: Any, settings: Sequence[Settings]) -> None:
        self._observer = observer
        self._known = [
            Progress(own.runs, 0, 0, 0, own.runs * own.evaluations, float("-inf"), "compiling") for own in settings
        ]

    def part(self, place: int) -> Part:
        """Return an observer for one of the experiments."""
        return Part(self, place)

    def tell(self, place: int, progress: Progress) -> None:
        """Hear where one stands, and tell where all do."""
        self._known[place] = progress
        known = self._known
        phases = {own.phase for own in known}
        self._observer.progress(
            Progress(
                runs=sum(own.runs for own in known),
                finished=sum(own.finished for own in known),
                solved=sum(own.solved for own in known),
                evaluations=sum(own.evaluations for own in known),
                budget=sum(own.budget for own in known),
                best_fitness=max(own.best_fitness for own in known),
                phase="evolving" if "evolving" in phases else progress.phase,
            )
        )


class Part:
    """An observer of one of several experiments.

    Args:
        together: who adds up.
        place: which one it is.
    """

    def __init__(self, together: Together, place: int) -> None:
        self._together, self._place = together, place

    def progress(self, progress: Progress) -> None:
        """Pass it on."""
        self._together.tell(self._place, progress)
