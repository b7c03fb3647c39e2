"""Open a run directory: its settings, results, champions and behavior."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tfsm.errors import TfsmError
from tfsm.models.loading import load_model
from tfsm.plugins.options import validate
from tfsm.runs.behavior_log import read_behavior
from tfsm.runs.directory import champion_file
from tfsm.runs.records import RECORD, behavior_file, read_valid_record
from tfsm.runs.resume import use_saved_inputs
from tfsm.settings import Settings
from tfsm.settings.schema import RUN_KEYS, RunOptions, require_strength


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
