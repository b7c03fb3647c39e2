"""Results of runs, read from their directories: a study has methods, and a method has one outcome per run."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tfsm.errors import TfsmError
from tfsm.runs.inventory import find_status
from tfsm.runs.records import RECORD, STUDY, read_valid_metrics, read_valid_record, read_valid_study
from tfsm.settings.schema import flatten_settings


@dataclass(frozen=True)
class RunOutcome:
    """How one run ended."""

    run: int
    solved: bool
    evaluations: int
    """Evaluations until the solution; of an unsolved run, all that it used."""
    best_fitness: float | None


@dataclass(frozen=True)
class Method:
    """Runs whose settings differ only in the run number."""

    name: str
    """The name in tables and figures; unique within a study."""
    outcomes: tuple[RunOutcome, ...]
    budget: int
    """Maximum evaluations per run."""
    metrics: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    """The logged metrics of each interval: `run`, `evaluations`, `best_fitness` and so on."""
    settings: Mapping[str, Any] = field(default_factory=dict, repr=False)
    record: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The record of the run directory."""
    directory: Path | None = None

    @property
    def solved(self) -> int:
        """Number of solved runs."""
        return sum(outcome.solved for outcome in self.outcomes)


@dataclass(frozen=True)
class Study:
    """Methods to compare on one domain."""

    domain: str
    methods: tuple[Method, ...]

    @property
    def budget(self) -> int:
        """Maximum evaluations per run over all methods."""
        return max(method.budget for method in self.methods)

    def method(self, name: str) -> Method | None:
        """Return the method of this name, or None."""
        return next((method for method in self.methods if method.name == name), None)


def method_names(methods: Sequence[Method]) -> list[str]:
    """Return the names of methods."""
    return [method.name for method in methods]


def load_studies(directories: Sequence[Path], *, strict: bool = True) -> list[Study]:
    """Load run directories, studies, and folders of them; return one study per domain.

    Args:
        directories: The directories to read.
        strict: Raise an error if no run has ended there.
    """
    methods: dict[Path, Method] = {}
    for directory in directories:
        for path, study_record in _find_runs(directory):
            # Not Path.resolve, which raises if links form a circle.
            methods.setdefault(Path(os.path.realpath(path)), _load_method(path, study_record))
    with_outcomes = [method for method in methods.values() if method.outcomes]
    if not with_outcomes and strict:
        which = ", ".join(map(str, directories))
        raise TfsmError(f"{which}: no run has ended yet")
    domains: dict[str, list[Method]] = {}
    for method in with_outcomes:
        domains.setdefault(str(method.settings["domain"]), []).append(method)
    return [Study(domain, make_names_unique(of_domain)) for domain, of_domain in domains.items()]


def _find_runs(directory: Path) -> list[tuple[Path, dict[str, Any]]]:
    """Return run directories, each with the record of the study that it belongs to, if any."""
    if (directory / STUDY).is_file():
        study = read_valid_study(directory)
        members = [(directory / member["directory"], {**study, "name": member["name"]}) for member in study["members"]]
        return [(path, record) for path, record in members if (path / RECORD).is_file()]
    if not (directory / RECORD).is_file() and directory.is_dir():
        below = sorted(path for path in directory.iterdir() if (path / RECORD).is_file() or (path / STUDY).is_file())
        if below:
            return [run for path in below for run in _find_runs(path)]
    return [(directory, {})]  # if it is not a run directory, reading it raises an error


def _load_method(directory: Path, study_record: Mapping[str, Any]) -> Method:
    record = read_valid_record(directory)
    record["status"] = find_status(record, directory)
    settings = record["settings"]
    if study_record.get("scale", 1.0) != 1.0:
        record["scale"] = study_record["scale"]
    outcomes = tuple(
        RunOutcome(run["run"], run["solved"], run["evaluations"], run["best_fitness"]) for run in record["runs"]
    )
    name = str(study_record.get("name", settings["mutation"]))
    return Method(name, outcomes, settings["evaluations"], read_valid_metrics(directory), settings, record, directory)


def make_names_unique(methods: Sequence[Method]) -> tuple[Method, ...]:
    """Extend equal names by the settings in which the methods differ, or by their directories."""
    renamed = list(methods)
    for name, count in Counter(method.name for method in methods).items():
        if count == 1:
            continue
        alike = [i for i, method in enumerate(methods) if method.name == name]
        flat = [flatten_settings(methods[i].settings) for i in alike]
        all_keys = dict.fromkeys(key for settings in flat for key in settings)
        keys = [key for key in all_keys if len({repr(settings.get(key)) for settings in flat}) > 1]
        names = [
            ", ".join([name, *(f"{key.rpartition('.')[-1]} {settings.get(key)}" for key in keys)]) for settings in flat
        ]
        if len(set(names)) < count or len(keys) > 3:
            names = [f"{name} in {methods[i].directory}" for i in alike]
        for i, unique_name in zip(alike, names, strict=True):
            renamed[i] = replace(methods[i], name=unique_name)
    return tuple(renamed)
