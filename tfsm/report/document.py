"""The report as a JSON document, and the files that a report is written to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tfsm.analysis.results import Method
from tfsm.errors import TfsmError
from tfsm.report.findings import Findings
from tfsm.report.tables import collect_warnings, count_requested_runs
from tfsm.utils.files import atomic_write, to_json

PAGE_SUFFIXES: Final = (".html", ".htm")


def build_document(findings: Sequence[Findings]) -> dict[str, Any]:
    """Return everything in a report as JSON data, except what can be computed from it."""
    return {"studies": [_convert_study(study) for study in findings]}


def _convert_study(findings: Findings) -> dict[str, Any]:
    study = findings.study
    return {
        "domain": study.domain,
        "budget": study.budget,
        "at": findings.at,
        "baseline": findings.baseline,
        "band": findings.band,
        "warnings": collect_warnings(study),
        "methods": [_convert_method(method, findings) for method in study.methods],
        "comparisons": to_json(findings.comparisons),
    }


def _convert_method(method: Method, findings: Findings) -> dict[str, Any]:
    name = method.name
    summary = next(summary for summary in findings.summaries if summary.name == name)
    return {
        "name": name,
        "directory": None if method.directory is None else str(method.directory),
        **{key: method.record.get(key) for key in ("status", "seed", "started", "ended", "command", "versions")},
        "scale": method.record.get("scale"),
        "budget": method.budget,
        "runs_asked": count_requested_runs(method),
        "runs": to_json(method.outcomes),
        "summary": to_json(summary),
        "solved_curve": to_json(findings.solved[name]),
        "fitness_curve": to_json(findings.fitness.get(name)),
        "diagnostics": {
            diagnostic.key: to_json(diagnostic.series[name])
            for diagnostic in findings.diagnostics
            if name in diagnostic.series
        },
        "sensitivity": to_json(findings.sensitivity.get(name)),
        "settings": to_json(method.settings),
    }


def check_page_path(file: Path) -> None:
    """Raise an error unless a page can be written to this file."""
    if file.is_dir():
        raise TfsmError(f"{file}: is a directory; --html expects a file such as report.html")
    if file.suffix.lower() not in PAGE_SUFFIXES:
        raise TfsmError(f"{file}: expected a file name ending in {' or '.join(PAGE_SUFFIXES)}")
    if not file.parent.is_dir():
        raise TfsmError(f"{file}: there is no directory {str(file.parent)!r}")


def make_directory(folder: Path) -> None:
    """Create a directory for figures, unless it exists."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise TfsmError(f"{folder}: is a file; --figures expects a directory") from None
    except OSError as error:
        raise TfsmError(f"{folder}: cannot create the directory: {error.strerror}") from None


def write_file(file: Path, content: bytes) -> None:
    """Write a file, replacing an older one of the same name."""
    try:
        with atomic_write(file) as temporary:
            temporary.write_bytes(content)
    except OSError as error:
        raise TfsmError(f"{file}: cannot be written: {error.strerror}") from None
