"""A report as one JSON document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from tfsm.experiments.outcomes import Method
from tfsm.experiments.report.findings import Findings
from tfsm.experiments.report.provenance import asked, warnings_of


def document(findings: Sequence[Findings]) -> dict[str, Any]:
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
        "warnings": warnings_of(study),
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
        "runs_asked": asked(method),
        "runs": _plain(method.outcomes),
        "summary": _plain(summary),
        "solved_curve": _plain(findings.solved[name]),
        "fitness_curve": _plain(findings.fitness.get(name)),
        "diagnostics": {panel.key: _plain(panel.series[name]) for panel in findings.panels if name in panel.series},
        "sensitivity": _plain(findings.spreads.get(name)),
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
