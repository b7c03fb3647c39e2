"""Directories -> Study/Method/Outcome."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tfsm.errors import TfsmError
from tfsm.runs.records import RECORD, STUDY, read_valid_metrics, read_valid_record, read_valid_study
from tfsm.settings.schema import flatten_settings


@dataclass(frozen=True)
class RunOutcome:
    """How one run ended."""

    run: int
    solved: bool
    evaluations: int
    """To the solution, or spent without one: then the solution would have come later, if ever."""
    best_fitness: float | None


@dataclass(frozen=True)
class Method:
    """Some runs with the same settings but for their number."""

    name: str
    """What the method is called in tables and figures; different for each method of a study."""
    outcomes: tuple[RunOutcome, ...]
    budget: int
    """The most evaluations of a run."""
    metrics: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    """What was logged, interval by interval: `run`, `evaluations`, `best_fitness` and so on."""
    settings: Mapping[str, Any] = field(default_factory=dict, repr=False)
    record: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """All that the run directory tells of itself."""
    directory: Path | None = None

    @property
    def solved(self) -> int:
        """How many runs were solved."""
        return sum(outcome.solved for outcome in self.outcomes)


@dataclass(frozen=True)
class Study:
    """Methods to be compared, on one domain."""

    domain: str
    methods: tuple[Method, ...]

    @property
    def budget(self) -> int:
        """The most evaluations of a run of any method."""
        return max(method.budget for method in self.methods)

    def method(self, name: str) -> Method | None:
        """Return the method of this name, if there is one."""
        return next((method for method in self.methods if method.name == name), None)


def method_names(methods: Sequence[Method]) -> list[str]:
    """Return what the methods are called."""
    return [method.name for method in methods]


def load_studies(directories: Sequence[Path], *, strict: bool = True) -> list[Study]:
    """Return a study for each domain found in run directories, studies, and folders of them.

    Args:
        directories: where to look.
        strict: whether it is an error if no run has ended there.
    """
    methods: dict[Path, Method] = {}
    for directory in directories:
        for found, told in _run_directories(directory):
            # Not Path.resolve, which raises where links lead in a circle.
            methods.setdefault(Path(os.path.realpath(found)), _method(found, told))
    kept = [method for method in methods.values() if method.outcomes]
    if not kept and strict:
        which = ", ".join(map(str, directories))
        raise TfsmError(f"{which}: no run has ended there yet")
    domains: dict[str, list[Method]] = {}
    for method in kept:
        domains.setdefault(str(method.settings["domain"]), []).append(method)
    return [Study(domain, _told_apart(own)) for domain, own in domains.items()]


def _run_directories(directory: Path) -> list[tuple[Path, dict[str, Any]]]:
    """Return run directories, and what the study that each belongs to tells of it."""
    if (directory / STUDY).is_file():
        study = read_valid_study(directory)
        there = [(directory / member["directory"], {**study, "name": member["name"]}) for member in study["members"]]
        return [(path, told) for path, told in there if (path / RECORD).is_file()]
    if not (directory / RECORD).is_file() and directory.is_dir():
        below = sorted(path for path in directory.iterdir() if (path / RECORD).is_file() or (path / STUDY).is_file())
        if below:
            return [found for path in below for found in _run_directories(path)]
    return [(directory, {})]  # an error if it is none, when it is read


def _method(directory: Path, told: Mapping[str, Any]) -> Method:
    record = read_valid_record(directory)
    settings = record["settings"]
    if told.get("scale", 1.0) != 1.0:
        record["scale"] = told["scale"]
    outcomes = tuple(
        RunOutcome(run["run"], run["solved"], run["evaluations"], run["best_fitness"]) for run in record["runs"]
    )
    name = str(told.get("name", settings["mutation"]))
    return Method(name, outcomes, settings["evaluations"], read_valid_metrics(directory), settings, record, directory)


def _told_apart(methods: Sequence[Method]) -> tuple[Method, ...]:
    """Give methods of the same name what they differ in, or where they are, as a part of it."""
    renamed = list(methods)
    for name, count in Counter(method.name for method in methods).items():
        if count == 1:
            continue
        alike = [i for i, method in enumerate(methods) if method.name == name]
        flat = [flatten_settings(methods[i].settings) for i in alike]
        known = dict.fromkeys(key for settings in flat for key in settings)
        keys = [key for key in known if len({repr(settings.get(key)) for settings in flat}) > 1]
        names = [", ".join([name, *(f"{_short(key)} {settings.get(key)}" for key in keys)]) for settings in flat]
        if len(set(names)) < count or len(keys) > 3:
            names = [f"{name} in {methods[i].directory}" for i in alike]
        for i, own in zip(alike, names, strict=True):
            renamed[i] = replace(methods[i], name=own)
    return tuple(renamed)


def _short(path: str) -> str:
    return path.rpartition(".")[-1]
