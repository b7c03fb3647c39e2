"""What a run tells the world: while it goes on, and when it has ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np


@dataclass(frozen=True)
class RunResult:
    """How one run ended."""

    run: int
    seed: int
    solved: bool
    evaluations: int
    """Evaluations to the solution, or spent."""
    best_fitness: float
    """The highest fitness seen."""
    champion_fitness: float
    """The champion's; lower than the best where whoever solved the task was not the fittest."""
    champion: np.ndarray = field(repr=False)
    """The genome that solved the task, or the best one seen."""

    def summary(self) -> dict[str, Any]:
        """Return what the JSON summary says of this run; a fitness that is not finite becomes null."""
        return {
            "run": self.run,
            "seed": self.seed,
            "solved": self.solved,
            "evaluations": self.evaluations,
            "best_fitness": _finite(self.best_fitness),
            "champion_fitness": _finite(self.champion_fitness),
        }


def _finite(number: float) -> float | None:
    return number if np.isfinite(number) else None


@dataclass(frozen=True)
class Progress:
    """Where all runs stand, for somebody who watches."""

    runs: int
    finished: int
    solved: int
    evaluations: int
    """Spent by all runs so far."""
    budget: int
    """What all runs may still spend at the most, together with what they have spent."""
    best_fitness: float
    phase: str
    """`compiling`, `initial population` or `evolving`."""


@dataclass(frozen=True)
class Snapshot:
    """What a run's population does, at the end of a logging interval."""

    run: int
    evaluations: int
    behavior: np.ndarray
    """`[N, D]`"""


class Observer(Protocol):
    """Whoever wants to know; every method may do nothing."""

    def progress(self, progress: Progress) -> None:
        """Hear where all runs stand, a few times a second."""
        ...

    def interval(self, metrics: list[dict[str, Any]]) -> None:
        """Hear each run's metrics at the end of a logging interval, or of the run."""
        ...

    def population(self, snapshot: Snapshot) -> None:
        """Hear what a population does, if the domain gives names to that."""
        ...

    def finished(self, result: RunResult) -> None:
        """Hear how a run ended."""
        ...


class Silent:
    """An observer that does nothing; a base for those that care for some events only."""

    def progress(self, progress: Progress) -> None:
        """Ignore it."""

    def interval(self, metrics: list[dict[str, Any]]) -> None:
        """Ignore it."""

    def population(self, snapshot: Snapshot) -> None:
        """Ignore it."""

    def finished(self, result: RunResult) -> None:
        """Ignore it."""
