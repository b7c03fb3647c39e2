"""A made-up experiment for observers: everything that one may hear, in order, with numbers known and unknown."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np

from tfsm.evolution.records import Experiment, Progress, RunResult, Snapshot, Status
from tfsm.models.sections import Section

STATUSES: Final[tuple[Status, ...]] = ("finished", "interrupted", "failed")


def history(directory: Path | None, status: Status = "finished") -> list[tuple[str, tuple[Any, ...]]]:
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


def tell(observer: Any, event: str, arguments: tuple[Any, ...]) -> None:
    """Tell an observer of an event, if it has a method for that."""
    if hasattr(observer, event):
        getattr(observer, event)(*arguments)
