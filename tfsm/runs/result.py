"""The result of an experiment that has ended, here or in a run directory; and TensorFlow's errors for the user."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

import keras
import numpy as np
import tensorflow as tf

from tfsm.errors import TfsmError, format_error
from tfsm.evolution.observers import RunResult
from tfsm.models.loading import load_model
from tfsm.models.network import Network
from tfsm.plugins.options import validate
from tfsm.runs.behavior_log import read_behavior
from tfsm.runs.directory import champion_file
from tfsm.runs.records import RECORD, behavior_file, read_valid_record
from tfsm.runs.resume import use_saved_inputs
from tfsm.settings import Settings
from tfsm.settings.schema import RUN_KEYS, RunOptions, require_strength


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


@dataclass(frozen=True)
class FinishedRun:
    """The content of a run directory."""

    directory: Path
    settings: Settings
    jit: bool
    """Whether the runs were compiled by XLA."""
    runs: tuple[dict[str, Any], ...]
    """The runs that have ended, as in the JSON summary."""
    trust: bool = False
    """Whether to load champions whatever their files contain."""

    def best(self) -> int:
        """Return the run to look at first: solved before unsolved, then by fitness."""
        return int(max(self.runs, key=lambda run: (run["solved"], _number(run["best_fitness"])))["run"])

    def check(self, run: int) -> int:
        """Return a run's number, or raise a `TfsmError` if there is no such run."""
        known = [entry["run"] for entry in self.runs]
        if run not in known:
            raise TfsmError(f"{self.directory} has no run {run} that has ended; it has {_format_numbers(known)}")
        return run

    def champion(self, run: int) -> keras.Model:
        """Load a run's champion."""
        return load_model(champion_file(self.directory, self.check(run)), trust=self.trust)

    def behavior(self, run: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the behavior of a run's populations: evaluations `[T]` and behavior `[T, N, D]`."""
        file = behavior_file(self.directory, self.check(run))
        if not file.is_file():
            raise TfsmError(f"{file}: no such file; the behavior of this run was not recorded")
        tables = read_behavior(file)
        if not {"evaluations", "behavior"} <= set(tables):
            raise TfsmError(f"{file}: cannot be read: evaluations or behavior is missing")
        evaluations, behavior = tables["evaluations"], tables["behavior"]
        numbers = all(table.dtype.kind in "fiu" for table in (evaluations, behavior))
        if not numbers or evaluations.ndim != 1 or behavior.ndim != 3 or not 0 < len(evaluations) == len(behavior):
            raise TfsmError(f"{file}: not the behavior of a run: its tables do not match")
        return evaluations, behavior


def open_run(directory: Path, *, trust: bool = False) -> FinishedRun:
    """Open a run directory; raise a `TfsmError` if it is none, or damaged.

    Args:
        directory: the directory.
        trust: whether to load its champions whatever their files contain.
    """
    record = read_valid_record(directory)
    try:
        settings = use_saved_inputs(_settings(record["settings"], f"{directory / RECORD}: settings:"), directory)
        run = FinishedRun(directory, settings, bool(record["plan"]["jit"]), tuple(record["runs"]), trust)
    except (KeyError, TypeError) as error:
        raise TfsmError(f"{directory / RECORD}: not the record of a run: {type(error).__name__}: {error}") from None
    if not run.runs:
        raise TfsmError(f"{directory}: none of its runs has ended (status {record.get('status')!r})")
    return run


def _settings(record: dict[str, Any], where: str) -> Settings:
    """Return the settings of a run; raise a `TfsmError` that names an invalid value."""
    values = {field.name: record[field.name] for field in fields(Settings) if field.name in record}
    for key, value in values.items():
        if key.endswith("_options") and not isinstance(value, dict):
            raise TfsmError(f"{where} {key}: expected a table of options")
    options = validate(RunOptions, {key: value for key, value in values.items() if key in RUN_KEYS}, where=where)
    require_strength(options, where)
    return Settings(**(values | options))


def _number(fitness: float | None) -> float:
    return float("-inf") if fitness is None else fitness


def _format_numbers(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers)) if len(numbers) <= 10 else f"{numbers[0]} to {numbers[-1]}"
