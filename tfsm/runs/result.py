"""Result; TF errors -> user errors."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import keras
import tensorflow as tf

from tfsm.errors import TfsmError
from tfsm.evolution.observers import RunResult
from tfsm.models.network import Network
from tfsm.runs.observers import summarize_error
from tfsm.settings import Settings


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


_OWN: Final = re.compile(r"^(?:TfsmError|TimedOut): ")


def describe_error(error: BaseException) -> str:
    """Return an error's type and what it says; where TensorFlow passed it on, what it said at first."""
    # Of an error in a domain that is plain Python, TensorFlow leaves the text, somewhere below its own.
    found = re.search(r"^(\w+: .*)$(?=(?:\n.*)*?\nTraceback)", str(error), re.MULTILINE)
    return found[1] if found and isinstance(error, tf.errors.OpError) else summarize_error(error)


def to_user_error(error: BaseException) -> BaseException:
    """Return the error that a user can do something with: of what TensorFlow passed on, the cause."""
    if not isinstance(error, tf.errors.OpError):
        return error
    message = describe_error(error)
    own = _OWN.sub("", message)
    return TfsmError(own if own != message else f"the run failed inside TensorFlow: {message}")
