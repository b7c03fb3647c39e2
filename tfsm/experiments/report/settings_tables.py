"""The settings of methods side by side."""

from __future__ import annotations

import json

from tfsm.experiments.collect import flattened
from tfsm.experiments.outcomes import Study, names
from tfsm.experiments.report.tables import Table
from tfsm.experiments.report.words import NOTHING


def differences(study: Study) -> Table:
    """Return the settings in which the methods differ."""
    rows = tuple(row for row in _rows(study) if len(set(row[1:])) > 1)
    return Table("Settings in which the methods differ", ("setting", *names(study.methods)), rows)


def everything(study: Study) -> Table:
    """Return all settings."""
    return Table("All settings", ("setting", *names(study.methods)), _rows(study))


def _rows(study: Study) -> tuple[tuple[str, ...], ...]:
    flat = [flattened(method.settings) for method in study.methods]
    keys = dict.fromkeys(key for settings in flat for key in settings)
    return tuple((key, *(_shown(settings[key]) if key in settings else NOTHING for settings in flat)) for key in keys)


def _shown(value: object) -> str:
    if value is None:
        return "none"
    return value if isinstance(value, str) else json.dumps(value, default=str)
