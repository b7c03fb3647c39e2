"""The result of an experiment, and errors from inside TensorFlow as errors for the user."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import keras
import tensorflow as tf

from tfsm.errors import TfsmError, format_error
from tfsm.evolution.observers import RunResult
from tfsm.models.network import Network
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
    """Time spent compiling."""
    evaluated: int
    """Evaluations made in that time; fewer than those of the runs if these were resumed."""
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
            **({} if settings.divergence is None else {"divergence": settings.divergence}),
            "selection": settings.selection,
            "seed": settings.seed,
            "solved": self.solved,
            "interrupted": self.interrupted,
            "seconds": round(self.seconds, 3),
            "compile_seconds": round(self.compile_seconds, 3),
            "directory": directory,
            "runs": [{**run.summary(), "directory": directory} for run in self.runs],
        }


_USER_ERROR: Final = re.compile(r"^(?:TfsmError|TimedOut): ")


def describe_error(error: BaseException) -> str:
    """Return an error's type and message; for an error that TensorFlow passed on, those of the original."""
    # Of an error in a domain that is plain Python, TensorFlow keeps the text, somewhere below its own.
    original = re.search(r"^(\w+: .*)$(?=(?:\n.*)*?\nTraceback)", str(error), re.MULTILINE)
    return original[1] if original and isinstance(error, tf.errors.OpError) else format_error(error)


def to_user_error(error: BaseException) -> BaseException:
    """Return the error to show to the user: the cause if TensorFlow passed it on, otherwise the error itself."""
    if not isinstance(error, tf.errors.OpError):
        return error
    message = describe_error(error)
    user_message = _USER_ERROR.sub("", message)
    return TfsmError(user_message if user_message != message else f"the run failed inside TensorFlow: {message}")
