"""Observers hear everything once, also of a run that goes on from a checkpoint."""

from __future__ import annotations

import numpy as np

from tests.helpers.engines import Recorder
from tfsm.evolution.observers import RunResult
from tfsm.runs.observers import Once

GENOME = np.zeros(2, np.float32)


def tell(once: Once) -> None:
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
    tell(Once(recorder))
    once = Once(again)
    tell(once)
    tell(once)
    assert again.events == recorder.events
    assert again.metrics == recorder.metrics
    assert len(again.sensitivities) == len(recorder.sensitivities) == 4


def test_what_the_log_has_is_not_heard_again() -> None:
    recorder = Recorder()
    tell(Once(recorder, {(0, 20), (1, 20), (0, 40)}))
    assert [(line["run"], line["evaluations"]) for line in recorder.metrics] == [(1, 40)]
    assert [(run, evaluations) for run, evaluations, *_ in recorder.champions] == [(1, 40)]
    # How a run ended was not in the log.
    assert recorder.events[-2:] == ["solved 0 at 40", "finished 0 at 40"]


def test_progress_is_always_heard() -> None:
    recorder = Recorder()
    once = Once(recorder, {(0, 20)})
    once.progress("half")  # type: ignore[arg-type]
    once.progress("half")  # type: ignore[arg-type]
    assert recorder.seen == ["half", "half"]


def test_what_is_taken_back_is_told_anew() -> None:
    recorder = Recorder()
    once = Once(recorder, {(0, 20), (0, 40), (1, 40)})
    once.forget({0: 20})
    once.interval([{"run": run, "evaluations": number} for number in (20, 40) for run in (0, 1)])
    assert [(line["run"], line["evaluations"]) for line in recorder.metrics] == [(1, 20), (0, 40)]
