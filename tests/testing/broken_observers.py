"""Observers that are wrong in one respect each."""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Any, ClassVar

from tests.testing.parts import Ears


class Deaf:
    """Has no observer methods."""


class Misheard(Ears):
    """Has a method with the wrong signature."""

    def on_interval(self, run: int, genome: Any) -> None:  # type: ignore[override]
        self.ends.append(genome)


class Certain(Ears):
    """Assumes that every number is known."""

    def on_interval(self, interval: Any) -> None:
        self.ends.append(interval.metrics["mean_fitness"] + 1)


class Impatient(Ears):
    """Expects a run before the end."""

    def on_experiment_end(self, status: str) -> None:
        self.ends[0] = status


class Homeless(Ears):
    """Writes to a directory that may not exist."""

    def on_experiment_start(self, experiment: Any) -> None:
        (experiment.directory / "x").touch()


class Mixing(Ears):
    """Mixes the metrics of all experiments."""

    place: ClassVar[list[Path]] = []

    def on_experiment_start(self, experiment: Any) -> None:
        self.place[:] = [experiment.directory] if experiment.directory else []

    def on_interval(self, interval: Any) -> None:
        for place in self.place:
            (place / "x").touch()


class Meddling(Ears):
    """Changes its arguments."""

    def on_interval(self, interval: Any) -> None:
        interval.metrics["best_fitness"] = -interval.metrics["best_fitness"]


class Secret(Ears):
    """Draws from Python's global generator."""

    def on_interval(self, interval: Any) -> None:
        self.ends.append(random.random())


class Stuck(Ears):
    """Cannot be pickled."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


class Raising(Ears):
    """Fails in the middle of a real run only."""

    def on_experiment_start(self, experiment: Any) -> None:
        self.real = experiment.settings["domain"] != "parity"

    def on_interval(self, interval: Any) -> None:
        if self.real:
            raise RuntimeError("not like that")
