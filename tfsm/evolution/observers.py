"""The records that observers receive: what is about to run, how it progresses and how each run ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from tfsm.interfaces import Observer
from tfsm.utils.files import to_json

if TYPE_CHECKING:
    from tfsm.models.genome import Section

OBSERVER_METHODS: Final = tuple(name for name in vars(Observer) if name.startswith("on_"))
"""The names of the events, in the order in which an experiment first reports them."""

Status: TypeAlias = Literal["finished", "interrupted", "failed"]


@dataclass(frozen=True)
class ExperimentInfo:
    """The experiment that is about to run."""

    settings: dict[str, Any]
    """All settings as plain JSON values."""
    directory: Path | None
    """The run directory; None where nothing is written."""
    layers: tuple[Section, ...]
    """The layers with trainable weights and their places in a genome."""


@dataclass(frozen=True)
class Progress:
    """The state of all runs together."""

    runs: int
    finished: int
    solved: int
    evaluations: int
    """Used by all runs so far."""
    budget: int
    """The evaluations used so far plus those that the unfinished runs may still use."""
    best_fitness: float
    phase: str
    """`compiling`, `initial population` or `evolving`."""


@dataclass(frozen=True)
class PopulationSnapshot:
    """The behavior of a population at the end of a logging interval."""

    run: int
    evaluations: int
    behavior: np.ndarray
    """`[N, D]`; NaN in an empty place."""
    fitness: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """`[N]`; minus infinity in an empty place or for a broken individual."""
    names: tuple[str, ...] = ()
    """The names of the `D` numbers, if the domain has any."""
    cells: np.ndarray | None = None
    """`[N, D]`: the centres of the cells into which a scheme divides behavior; infinite where a place has none."""


@dataclass(frozen=True)
class Champion:
    """The best individual of a run so far."""

    fitness: float
    genome: np.ndarray = field(repr=False)
    """`[P]`"""


@dataclass(frozen=True)
class Interval:
    """One run at the end of a logging interval, or of the run."""

    run: int
    evaluations: int
    metrics: dict[str, Any]
    """The line of `metrics.jsonl`."""
    sensitivity: np.ndarray | None = None
    """`[P]`: how sensitive a parent's weights are, if the operator measures that."""
    population: PopulationSnapshot | None = None
    """If the domain names its behavior or the selection scheme needs it."""
    champion: Champion | None = None
    """If it changed since the last interval."""


@dataclass(frozen=True)
class CheckpointInfo:
    """A checkpoint that is on disk."""

    runs: range
    evaluations: int
    """Of each unfinished run; of the furthest one where they are not in step."""
    file: Path


@dataclass(frozen=True)
class RunResult:
    """How one run ended."""

    run: int
    seed: int
    solved: bool
    evaluations: int
    """Evaluations to the solution, or all that were used."""
    best_fitness: float
    """The highest fitness seen."""
    champion_fitness: float
    """Lower than the best fitness if the individual that solved the task was not the fittest."""
    champion: np.ndarray = field(repr=False)
    """The genome that solved the task, or the best one seen."""

    def summary(self) -> dict[str, Any]:
        """Return this run's entry of the JSON summary; a fitness that is not finite becomes null."""
        return {
            "run": self.run,
            "seed": self.seed,
            "solved": self.solved,
            "evaluations": self.evaluations,
            "best_fitness": to_json(self.best_fitness),
            "champion_fitness": to_json(self.champion_fitness),
        }
