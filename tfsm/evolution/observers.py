"""What a run tells the world: while it goes on, and when it has ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from tfsm.models.genome import Section


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
    """`[N, D]`; NaN where nobody is."""
    fitness: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """`[N]`; minus infinity where nobody is, or somebody broken."""
    names: tuple[str, ...] = ()
    """What the `D` numbers are, if the domain says so."""
    cells: np.ndarray | None = None
    """`[N, D]`: the middles of the cells that a scheme divides behavior into; infinite where a place has none."""


@dataclass(frozen=True)
class Experiment:
    """What is about to be evolved."""

    settings: dict[str, Any]
    """All of them, as plain JSON values."""
    directory: Path | None
    """The run directory; None where nothing is kept."""
    layers: tuple[Section, ...]
    """The layers that have trainable weights, and where these lie in a genome."""


Status: TypeAlias = Literal["finished", "interrupted", "failed"]


class Observer(Protocol):
    """Whoever wants to know. An observer of yours need only have the methods that it cares for."""

    def started(self, experiment: Experiment) -> None:
        """Hear what is about to be evolved."""
        ...

    def progress(self, progress: Progress) -> None:
        """Hear where all runs stand, a few times a second."""
        ...

    def interval(self, metrics: list[dict[str, Any]]) -> None:
        """Hear each run's metrics at the end of a logging interval, or of the run."""
        ...

    def sensitivity(self, run: int, evaluations: int, values: np.ndarray) -> None:
        """Hear how sensitive a parent's weights `[P]` are, at the end of an interval, if the operator measures that."""
        ...

    def population(self, snapshot: Snapshot) -> None:
        """Hear what a population does, if the domain gives names to that."""
        ...

    def best(self, run: int, evaluations: int, fitness: float, genome: np.ndarray) -> None:
        """Hear that a run has a new champion `[P]`, at the end of an interval."""
        ...

    def solved(self, run: int, evaluations: int) -> None:
        """Hear that a run was solved."""
        ...

    def finished(self, result: RunResult) -> None:
        """Hear how a run ended."""
        ...

    def ended(self, status: Status) -> None:
        """Hear how all of it ended; nothing comes after that."""
        ...


EVENTS: Final = tuple(name for name in vars(Observer) if not name.startswith("_"))
"""What an observer can hear of."""


class Silent:
    """An observer that does nothing; a base for those that care for some events only."""

    def started(self, experiment: Experiment) -> None:
        """Ignore it."""

    def progress(self, progress: Progress) -> None:
        """Ignore it."""

    def interval(self, metrics: list[dict[str, Any]]) -> None:
        """Ignore it."""

    def sensitivity(self, run: int, evaluations: int, values: np.ndarray) -> None:
        """Ignore it."""

    def population(self, snapshot: Snapshot) -> None:
        """Ignore it."""

    def best(self, run: int, evaluations: int, fitness: float, genome: np.ndarray) -> None:
        """Ignore it."""

    def solved(self, run: int, evaluations: int) -> None:
        """Ignore it."""

    def finished(self, result: RunResult) -> None:
        """Ignore it."""

    def ended(self, status: Status) -> None:
        """Ignore it."""
