"""Observers that wrap others: guarded against failures, deduplicated on resume, and combined over experiments."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from tfsm.errors import TfsmError, format_error
from tfsm.evolution.observers import (
    OBSERVER_METHODS,
    CheckpointInfo,
    ExperimentInfo,
    Interval,
    Progress,
    RunResult,
    Status,
)
from tfsm.interfaces import Observer
from tfsm.plugins import Plugins
from tfsm.plugins.registry import build_part
from tfsm.settings import Settings


def build_observers(
    plugins: Plugins, settings: Settings, others: Iterable[Any], warn: Callable[[str], None]
) -> list[SafeObserver]:
    """Build the observers that the settings name, and wrap them and the ready-made ones in `SafeObserver`.

    Args:
        plugins: the registered parts.
        settings: the settings.
        others: ready-made observers; objects with only some of `Observer`'s methods will do.
        warn: receives a message when an observer fails.
    """
    named = [
        (name, build_part(plugins.observers[name], settings.observer_options[name])) for name in settings.observers
    ]
    named += [(type(part).__name__, part) for part in others]
    for name, part in named:
        if not any(callable(getattr(part, method, None)) for method in OBSERVER_METHODS):
            raise TfsmError(
                f"{name!r} is not an observer: subclass tfsm.Observer, or define one of {', '.join(OBSERVER_METHODS)}"
            )
    return [SafeObserver(part, name, warn) for name, part in named]


class ForwardingObserver(Observer):
    """Base class of observers that handle all events alike."""

    def on_experiment_start(self, experiment: ExperimentInfo) -> None:
        """Forward the event."""
        self._forward("on_experiment_start", experiment)

    def on_progress(self, progress: Progress) -> None:
        """Forward the event."""
        self._forward("on_progress", progress)

    def on_run_start(self, run: int) -> None:
        """Forward the event."""
        self._forward("on_run_start", run)

    def on_interval(self, interval: Interval) -> None:
        """Forward the event."""
        self._forward("on_interval", interval)

    def on_checkpoint(self, checkpoint: CheckpointInfo) -> None:
        """Forward the event."""
        self._forward("on_checkpoint", checkpoint)

    def on_run_end(self, result: RunResult) -> None:
        """Forward the event."""
        self._forward("on_run_end", result)

    def on_experiment_end(self, status: Status) -> None:
        """Forward the event."""
        self._forward("on_experiment_end", status)

    def _forward(self, method: str, event: Any) -> None:
        raise NotImplementedError


class SafeObserver(ForwardingObserver):
    """Calls the methods that an observer has; after a failure it warns once and calls no more.

    Args:
        observer: any object with some of `Observer`'s methods.
        name: its name in a warning.
        warn: receives the warning.
    """

    def __init__(self, observer: Any, name: str, warn: Callable[[str], None]) -> None:
        self._observer, self._name, self._warn = observer, name, warn

    def _forward(self, method: str, event: Any) -> None:
        try:
            call = getattr(self._observer, method, None)
            if call is not None:
                call(event)
        # SystemExit too: an observer that calls sys.exit() must not end the run.
        except (Exception, SystemExit) as error:
            self._observer = None
            reason = " ".join(str(error).split()) if isinstance(error, TfsmError) else format_error(error)
            self._warn(f"observer {self._name!r} failed and is disabled: {reason}")


class DeduplicatingObserver(ForwardingObserver):
    """Forwards every event once: a run that resumes from a checkpoint repeats the events that came after it.

    Args:
        observer: the observer.
        known: the run and the number of evaluations of each interval that was reported earlier.
    """

    def __init__(self, observer: Observer, known: Collection[tuple[int, int]] = ()) -> None:
        self._observer = observer
        self._intervals = set(known)
        self._seen: set[tuple[str, int]] = set()

    def rewind(self, evaluations: Mapping[int, int]) -> None:
        """Treat intervals beyond a run's given number of evaluations as new, because they will come out differently."""
        self._intervals = {
            (run, number) for run, number in self._intervals if run not in evaluations or number <= evaluations[run]
        }

    def _forward(self, method: str, event: Any) -> None:
        if isinstance(event, Interval):
            key = event.run, event.evaluations
            if key in self._intervals:
                return
            self._intervals.add(key)
        elif method in ("on_run_start", "on_run_end"):
            first = method, event.run if isinstance(event, RunResult) else event
            if first in self._seen:
                return
            self._seen.add(first)
        getattr(self._observer, method)(event)


class CombinedProgress:
    """Adds up the progress of several experiments.

    Args:
        observer: receives the total; only `on_progress` is called.
        settings: the settings of each experiment.
    """

    def __init__(self, observer: Observer, settings: Sequence[Settings]) -> None:
        self._observer = observer
        self._parts = [
            Progress(each.runs, 0, 0, 0, each.runs * each.evaluations, float("-inf"), "compiling") for each in settings
        ]

    def observer(self, index: int) -> Observer:
        """Return the observer for one of the experiments."""
        return _ProgressPart(self, index)

    def update(self, index: int, progress: Progress) -> None:
        """Record the progress of one experiment and report the total."""
        self._parts[index] = progress
        parts = self._parts
        self._observer.on_progress(
            Progress(
                runs=sum(part.runs for part in parts),
                finished=sum(part.finished for part in parts),
                solved=sum(part.solved for part in parts),
                evaluations=sum(part.evaluations for part in parts),
                budget=sum(part.budget for part in parts),
                best_fitness=max(part.best_fitness for part in parts),
                phase="evolving" if any(part.phase == "evolving" for part in parts) else progress.phase,
            )
        )


class _ProgressPart(Observer):
    def __init__(self, total: CombinedProgress, index: int) -> None:
        self._total, self._index = total, index

    def on_progress(self, progress: Progress) -> None:
        """Pass it to the total."""
        self._total.update(self._index, progress)
