"""A run directory, opened again."""

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
from tfsm.settings.schema import RUN_KEYS, RunOptions


@dataclass(frozen=True)
class FinishedRun:
    """What a run directory tells."""

    directory: Path
    settings: Settings
    jit: bool
    """Whether the runs were compiled by XLA."""
    runs: tuple[dict[str, Any], ...]
    """The runs that have ended, as the JSON summary tells of them."""
    trust: bool = False
    """Whether champions are loaded whatever is in their files."""

    def best(self) -> int:
        """Return the run to look at first: solved before unsolved, then by fitness."""
        return int(max(self.runs, key=lambda run: (run["solved"], _number(run["best_fitness"])))["run"])

    def check(self, run: int) -> int:
        """Return a run's number if there is such a run."""
        known = [entry["run"] for entry in self.runs]
        if run not in known:
            raise TfsmError(f"{self.directory} has no run {run} that has ended; it has {_listed(known)}")
        return run

    def champion(self, run: int) -> keras.Model:
        """Load a run's champion."""
        return load_model(champion_file(self.directory, self.check(run)), trust=self.trust)

    def behavior(self, run: int) -> tuple[np.ndarray, np.ndarray]:
        """Return what a run's populations did: evaluations `[T]` and behavior `[T, N, D]`."""
        file = behavior_file(self.directory, self.check(run))
        if not file.is_file():
            raise TfsmError(f"{file}: no such file; the run kept no record of what its populations did")
        kept = read_behavior(file)
        if not {"evaluations", "behavior"} <= set(kept):
            raise TfsmError(f"{file}: cannot be read: it has no evaluations, or no behavior")
        evaluations, behavior = kept["evaluations"], kept["behavior"]
        numbers = all(table.dtype.kind in "fiu" for table in (evaluations, behavior))
        if not numbers or evaluations.ndim != 1 or behavior.ndim != 3 or not 0 < len(evaluations) == len(behavior):
            raise TfsmError(f"{file}: not what a run keeps of its populations: its tables do not go together")
        return evaluations, behavior


def open_run(directory: Path, *, trust: bool = False) -> FinishedRun:
    """Open a run directory; something else, or one that is damaged, is an error that says so.

    Args:
        directory: the directory.
        trust: whether to load its champions whatever is in their files.
    """
    record = read_valid_record(directory)
    try:
        settings = use_saved_inputs(_settings(record["settings"], f"{directory / RECORD}: settings:"), directory)
        past = FinishedRun(directory, settings, bool(record["plan"]["jit"]), tuple(record["runs"]), trust)
    except (KeyError, TypeError) as error:
        raise TfsmError(f"{directory / RECORD}: not the record of a run: {type(error).__name__}: {error}") from None
    if not past.runs:
        raise TfsmError(f"{directory}: none of its runs has ended (it says {record.get('status')!r})")
    return past


def _settings(told: dict[str, Any], where: str) -> Settings:
    """Return settings as a run had them; a value that no run could have is an error that names it."""
    given = {field.name: told[field.name] for field in fields(Settings) if field.name in told}
    for key, value in given.items():
        if key.endswith("_options") and not isinstance(value, dict):
            raise TfsmError(f"{where} {key}: expected a table of options")
    own = validate(RunOptions, {key: value for key, value in given.items() if key in RUN_KEYS}, where=where)
    return Settings(**(given | own))


def _number(fitness: float | None) -> float:
    return float("-inf") if fitness is None else fitness


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers)) if len(numbers) <= 10 else f"{numbers[0]} to {numbers[-1]}"
