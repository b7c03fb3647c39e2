"""What an experiment gives back."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import keras

from tfsm.evolution.records import RunResult
from tfsm.experiments.settings import Settings
from tfsm.models.network import Network


@dataclass(frozen=True)
class Result:
    """How all runs of an experiment ended."""

    settings: Settings
    runs: tuple[RunResult, ...]
    """In the order of their numbers."""
    directory: Path | None
    seconds: float
    """From the start of the runs to their end."""
    compile_seconds: float
    """How much of it was spent compiling."""
    evaluated: int
    """Evaluations that were made in that time; less than those of the runs, where these were begun before."""
    interrupted: bool
    network: Network = field(repr=False)

    @property
    def solved(self) -> int:
        """How many runs were solved."""
        return sum(run.solved for run in self.runs)

    @property
    def best(self) -> RunResult:
        """The run to look at first: solved before unsolved, then by fitness."""
        return max(self.runs, key=lambda run: (run.solved, run.best_fitness))

    def champion(self, run: int | None = None) -> keras.Model:
        """Return a run's champion, or that of the best run, as a new Keras model."""
        chosen = self.best if run is None else next(result for result in self.runs if result.run == run)
        return self.network.child(chosen.champion)

    def summary(self) -> dict[str, Any]:
        """Return the JSON summary."""
        settings = self.settings
        directory = str(self.directory) if self.directory is not None else None
        return {
            "domain": settings.domain,
            "mutation": settings.mutation,
            "intensity": settings.intensity,
            "selection": settings.selection,
            "seed": settings.seed,
            "solved": self.solved,
            "interrupted": self.interrupted,
            "seconds": round(self.seconds, 3),
            "compile_seconds": round(self.compile_seconds, 3),
            "directory": directory,
            "runs": [{**run.summary(), "directory": directory} for run in self.runs],
        }
