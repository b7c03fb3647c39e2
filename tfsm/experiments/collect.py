"""From directories to studies: what was computed, put together for statistics and reports."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tfsm.errors import TfsmError
from tfsm.experiments.checked import checked_metrics, checked_record, checked_study
from tfsm.experiments.outcomes import Method, Outcome, Study
from tfsm.experiments.record import RECORD, STUDY


def collect(directories: Sequence[Path], *, strict: bool = True) -> list[Study]:
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
        study = checked_study(directory)
        there = [(directory / member["directory"], {**study, "name": member["name"]}) for member in study["members"]]
        return [(path, told) for path, told in there if (path / RECORD).is_file()]
    if not (directory / RECORD).is_file() and directory.is_dir():
        below = sorted(path for path in directory.iterdir() if (path / RECORD).is_file() or (path / STUDY).is_file())
        if below:
            return [found for path in below for found in _run_directories(path)]
    return [(directory, {})]  # an error if it is none, when it is read


def _method(directory: Path, told: Mapping[str, Any]) -> Method:
    record = checked_record(directory)
    settings = record["settings"]
    if told.get("scale", 1.0) != 1.0:
        record["scale"] = told["scale"]
    outcomes = tuple(
        Outcome(run["run"], run["solved"], run["evaluations"], run["best_fitness"]) for run in record["runs"]
    )
    name = str(told.get("name", settings["mutation"]))
    return Method(name, outcomes, settings["evaluations"], checked_metrics(directory), settings, record, directory)


def _told_apart(methods: Sequence[Method]) -> tuple[Method, ...]:
    """Give methods of the same name what they differ in, or where they are, as a part of it."""
    renamed = list(methods)
    for name, count in Counter(method.name for method in methods).items():
        if count == 1:
            continue
        alike = [i for i, method in enumerate(methods) if method.name == name]
        flat = [flattened(methods[i].settings) for i in alike]
        known = dict.fromkeys(key for settings in flat for key in settings)
        keys = [key for key in known if len({repr(settings.get(key)) for settings in flat}) > 1]
        names = [", ".join([name, *(f"{_short(key)} {settings.get(key)}" for key in keys)]) for settings in flat]
        if len(set(names)) < count or len(keys) > 3:
            names = [f"{name} in {methods[i].directory}" for i in alike]
        for i, own in zip(alike, names, strict=True):
            renamed[i] = replace(methods[i], name=own)
    return tuple(renamed)


def flattened(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return settings by dotted path."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            flat |= flattened(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _short(path: str) -> str:
    return path.rpartition(".")[-1]
