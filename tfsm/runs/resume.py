"""Resume an experiment: its settings, and whether new settings are those of the same experiment. No TensorFlow."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final

from tfsm.errors import TfsmError
from tfsm.evolution.checkpoint_schedule import parse_interval
from tfsm.plugins import Plugins
from tfsm.plugins.options import validate
from tfsm.plugins.registry import Entry
from tfsm.runs.records import RECORD, read_record, read_valid_record
from tfsm.settings import EngineOptions, ResolvedSettings, RunOptions, Settings
from tfsm.settings.schema import added_later, flatten_settings, require_strength

WITHOUT_EFFECT: Final = (
    "engine.",
    "observers",
    "observer_options",
    "checkpoint_every",
    "evaluation_timeout",
    "failures",
    "trust_model",
)
"""Settings that do not affect results: how the engine works, what is written, and the observers."""
EXTENDABLE: Final = ("evaluations", "runs")
"""Settings that may grow when an experiment is resumed: existing results stay as they are."""


def describe_changes(before: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """Describe the changes that affect results, of recorded settings."""
    old, new = flatten_settings(before), flatten_settings(wanted)
    # A setting that is not recorded has its old default; see `schema.ADDED_LATER`.
    for key, default in (added_later(before) | added_later(wanted)).items():
        if key in old or key in new:
            old.setdefault(key, default)
            new.setdefault(key, default)
    return [
        f"{key} was {old.get(key)} and is now {new[key]}"
        for key in new
        if old.get(key) != new[key] and not key.startswith(WITHOUT_EFFECT)
    ]


def fingerprint(settings: Mapping[str, Any]) -> str:
    """Return a digest that identifies an experiment, whatever its number of runs and evaluations."""
    relevant = {
        key: value
        for key, value in flatten_settings(settings).items()
        if not key.startswith(WITHOUT_EFFECT) and key not in EXTENDABLE
    }
    return hashlib.sha256(json.dumps(relevant, sort_keys=True).encode()).hexdigest()


_FREE: Final = (*EXTENDABLE, "checkpoint_every", "evaluation_timeout", "failures", "trust_model")
"""Settings that may be given on resume."""


def resume_settings(plugins: Plugins, directory: Path, overrides: Mapping[str, object]) -> ResolvedSettings:
    """Return the settings of a run directory, with the user's changes.

    Args:
        plugins: the registered parts.
        directory: the run directory.
        overrides: settings by name; None where the user gave none.
    """
    record = read_valid_record(directory)
    ready_made = [kind for kind in record.get("objects", {}) if kind != "model"]
    if ready_made:
        raise TfsmError(
            f"{directory}: its {' and '.join(ready_made)} came from a Python program, and only that can resume it: "
            "tfsm.evolve(..., resume=True)"
        )
    given = {key: value for key, value in overrides.items() if value is not None}
    fixed = [key for key in given if key not in _FREE]
    if fixed:
        raise TfsmError(f"--resume: {', '.join(fixed)} cannot be changed; only {', '.join(_FREE)} may be given")
    settings = _settings(plugins, directory, record)
    if settings.trust_model and not given.get("trust_model"):
        raise TfsmError(f"{directory}: its model was loaded with --trust-model, which must be given again")
    changes: dict[str, Any] = validate(RunOptions, given, where=lambda key: f"--{key.replace('_', '-')}:")
    parse_interval(str(changes.get("checkpoint_every", settings.checkpoint_every)))
    for key in EXTENDABLE:
        previous = getattr(settings, key)
        if changes.get(key, previous) < previous:
            raise TfsmError(f"--{key} {changes[key]:,}: {directory} already has {previous:,}; it cannot be reduced")
    sources = {key: str(value) for key, value in record.get("sources", {}).items()}
    return ResolvedSettings(
        settings=replace(settings, **changes), sources=sources | dict.fromkeys(changes, "command line")
    )


def check_same_experiment(directory: Path, settings: Settings) -> None:
    """Raise a `TfsmError` unless these settings continue the experiment in a directory."""
    before, now = read_record(directory)["settings"], settings.as_record()
    larger = {key: now[key] for key in EXTENDABLE if now[key] >= before.get(key, 0)}
    changes = describe_changes({**before, **larger}, now)
    if changes:
        raise TfsmError(f"{directory}: was run with other settings ({', '.join(changes[:3])})")


def use_saved_inputs(settings: Settings, directory: Path | None) -> Settings:
    """Return settings that name the copies of input files in a run directory instead of the user's own files.

    Those may have been moved or changed.
    """
    if directory is None or not (directory / RECORD).is_file():
        return settings
    inputs = {option: str(directory / file) for option, file in read_record(directory).get("inputs", {}).items()}
    return replace(settings, domain_options=settings.domain_options | inputs)


def _settings(plugins: Plugins, directory: Path, record: Mapping[str, Any]) -> Settings:
    file, recorded = directory / RECORD, record["settings"]

    def options(entry: Entry, values: Any) -> dict[str, Any]:
        kind = entry.with_options().options
        return dict(values) if kind is None else validate(kind, values, where=f"{file}: {entry.kind} {entry.name!r}:")

    try:
        parts: dict[str, Any] = {
            "domain_options": options(plugins.domains[recorded["domain"]], recorded["domain_options"]),
            "mutation_options": options(plugins.mutations[recorded["mutation"]], recorded["mutation_options"]),
            "selection_options": options(plugins.selections[recorded["selection"]], recorded["selection_options"]),
            "observer_options": {
                name: options(plugins.observers[name], recorded["observer_options"][name])
                for name in recorded["observers"]
            },
            "engine": validate(EngineOptions, recorded["engine"], where=f"{file}: engine:"),
        }
        names = {field.name for field in fields(RunOptions)}
        values = {key: value for key, value in recorded.items() if key in names}
        run: dict[str, Any] = validate(RunOptions, values, where=f"{file}:")
        require_strength(run, f"{file}:")
        return Settings(domain=recorded["domain"], mutation=recorded["mutation"], **run, **parts)
    except (KeyError, TypeError, AttributeError) as error:
        if isinstance(error, TfsmError):
            raise
        raise TfsmError(f"{file}: not the record of a run: {type(error).__name__}: {error}") from None
