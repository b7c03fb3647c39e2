"""JSON and files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from tfsm.analysis.results import Method
from tfsm.errors import TfsmError
from tfsm.report.findings import Findings
from tfsm.report.tables import collect_warnings, count_requested_runs
from tfsm.utils.atomic import atomic_write


def build_document(findings: Sequence[Findings]) -> dict[str, Any]:
    """Return everything that a report tells, without what can be computed from it."""
    return {"studies": [_study(of_study) for of_study in findings]}


def _study(findings: Findings) -> dict[str, Any]:
    study = findings.study
    return {
        "domain": study.domain,
        "budget": study.budget,
        "at": findings.at,
        "baseline": findings.baseline,
        "band": findings.band,
        "warnings": collect_warnings(study),
        "methods": [_method(method, findings) for method in study.methods],
        "comparisons": _plain(findings.comparisons),
    }


def _method(method: Method, findings: Findings) -> dict[str, Any]:
    name = method.name
    told = {key: method.record.get(key) for key in ("status", "seed", "started", "ended", "command", "versions")}
    summary = next(summary for summary in findings.summaries if summary.name == name)
    return {
        "name": name,
        "directory": None if method.directory is None else str(method.directory),
        **told,
        "scale": method.record.get("scale"),
        "budget": method.budget,
        "runs_asked": count_requested_runs(method),
        "runs": _plain(method.outcomes),
        "summary": _plain(summary),
        "solved_curve": _plain(findings.solved[name]),
        "fitness_curve": _plain(findings.fitness.get(name)),
        "diagnostics": {
            panel.key: _plain(panel.series[name]) for panel in findings.diagnostics if name in panel.series
        },
        "sensitivity": _plain(findings.sensitivity.get(name)),
        "settings": _plain(method.settings),
    }


def _plain(value: object) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


PAGE_SUFFIXES: Final = (".html", ".htm")


def check_page_path(file: Path) -> None:
    """Refuse a place where no page can be, or where something else is."""
    if file.is_dir():
        raise TfsmError(f"{file}: a directory; --html takes the file to write, such as report.html")
    if file.suffix.lower() not in PAGE_SUFFIXES:
        raise TfsmError(f"{file}: a page is saved as {' or '.join(PAGE_SUFFIXES)}")
    if not file.parent.is_dir():
        raise TfsmError(f"{file}: there is no directory {str(file.parent)!r}")


def make_directory(folder: Path) -> None:
    """Make a directory for figures, unless it is there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise TfsmError(f"{folder}: a file; --figures takes a directory") from None
    except OSError as error:
        raise TfsmError(f"{folder}: cannot make the directory: {error.strerror}") from None


def write_file(file: Path, content: bytes) -> None:
    """Write a file, in the place of an older one of the same name."""
    try:
        with atomic_write(file) as draft:
            draft.write_bytes(content)
    except OSError as error:
        raise TfsmError(f"{file}: cannot be written: {error.strerror}") from None
