"""A run directory, opened again."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tfsm.errors import TfsmError
from tfsm.experiments.behavior import read_behavior
from tfsm.experiments.directory import champion_file
from tfsm.experiments.record import RECORD, behavior_file, read_record
from tfsm.experiments.resume import as_kept
from tfsm.experiments.settings import Settings
from tfsm.models.loading import load_model


@dataclass(frozen=True)
class Past:
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
        return kept["evaluations"], kept["behavior"]


def open_run(directory: Path, *, trust: bool = False) -> Past:
    """Open a run directory; something else, or one that is damaged, is an error that says so.

    Args:
        directory: the directory.
        trust: whether to load its champions whatever is in their files.
    """
    record = read_record(directory)
    try:
        known = {field.name for field in fields(Settings)}
        settings = Settings(**{key: value for key, value in record["settings"].items() if key in known})
        settings = as_kept(settings, directory)
        past = Past(directory, settings, bool(record["plan"]["jit"]), tuple(record["runs"]), trust)
        ended = [(run["run"], run["solved"], run["best_fitness"]) for run in past.runs]
    except (KeyError, TypeError) as error:
        raise TfsmError(f"{directory / RECORD}: not the record of a run: {type(error).__name__}: {error}") from None
    if not ended:
        raise TfsmError(f"{directory}: none of its runs has ended (it says {record.get('status')!r})")
    return past


def _number(fitness: float | None) -> float:
    return float("-inf") if fitness is None else fitness


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers)) if len(numbers) <= 10 else f"{numbers[0]} to {numbers[-1]}"
