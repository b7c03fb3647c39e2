"""Same experiment? fingerprint; reopen (no TF)."""

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
from tfsm.settings.schema import flatten_settings

WITHOUT_EFFECT: Final = (
    "engine.",
    "observers",
    "observer_options",
    "checkpoint_every",
    "evaluation_timeout",
    "failures",
    "trust_model",
)
"""Settings that do not matter for what comes of a run: how the engine works, what is kept, and who is told."""
EXTENDABLE: Final = ("evaluations", "runs")
"""Settings of which there may be more when an experiment goes on: what is there stays as it is."""


def describe_changes(before: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """Return in words what matters and is another than before, of settings as plain JSON values."""
    old, new = flatten_settings(before), flatten_settings(wanted)
    return [
        f"{key} was {old.get(key)} and is now {new[key]}"
        for key in new
        if old.get(key) != new[key] and not key.startswith(WITHOUT_EFFECT)
    ]


def fingerprint(settings: Mapping[str, Any]) -> str:
    """Return a text that is another for another experiment, and the same for more of this one."""
    kept = {
        key: value
        for key, value in flatten_settings(settings).items()
        if not key.startswith(WITHOUT_EFFECT) and key not in EXTENDABLE
    }
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


_FREE: Final = (*EXTENDABLE, "checkpoint_every", "evaluation_timeout", "failures", "trust_model")
"""What may be given anew."""


def resume_settings(plugins: Plugins, directory: Path, overrides: Mapping[str, object]) -> ResolvedSettings:
    """Return the settings of a run directory, with what is given anew.

    Args:
        plugins: where the parts come from.
        directory: the run directory.
        overrides: settings by name, from flags; None where a flag was not given.
    """
    record = read_valid_record(directory)
    ready_made = [kind for kind in record.get("objects", {}) if kind != "model"]
    if ready_made:
        raise TfsmError(
            f"{directory}: its {' and '.join(ready_made)} came from a Python program, which alone can go on with it: "
            "tfsm.evolve(..., resume=True)"
        )
    given = {key: value for key, value in overrides.items() if value is not None}
    fixed = [key for key in given if key not in _FREE]
    if fixed:
        raise TfsmError(
            f"--resume: {', '.join(fixed)} cannot be changed, only more be added to it: "
            f"{', '.join(key for key in _FREE)} may be given"
        )
    settings = _settings(plugins, directory, record)
    if settings.trust_model and not given.get("trust_model"):
        raise TfsmError(f"{directory}: its model was loaded with --trust-model, which must be said again")
    where = "command line"
    anew: dict[str, Any] = validate(RunOptions, given, where=lambda key: f"--{key.replace('_', '-')}:")
    parse_interval(str(anew.get("checkpoint_every", settings.checkpoint_every)))
    for key in EXTENDABLE:
        before = getattr(settings, key)
        if anew.get(key, before) < before:
            raise TfsmError(f"--{key} {anew[key]:,}: {directory} has {before:,} already, and less cannot be")
    sources = {key: str(value) for key, value in record.get("sources", {}).items()}
    return ResolvedSettings(settings=replace(settings, **anew), sources=sources | dict.fromkeys(anew, where))


def check_same_experiment(directory: Path, settings: Settings) -> None:
    """Raise a `TfsmError` if these settings are those of another experiment than the one in a directory."""
    before, now = read_record(directory)["settings"], settings.as_dict()
    larger = {key: now[key] for key in EXTENDABLE if now[key] >= before.get(key, 0)}
    changes = describe_changes({**before, **larger}, now)
    if changes:
        raise TfsmError(f"{directory}: was run with other settings ({', '.join(changes[:3])})")


def use_saved_inputs(settings: Settings, directory: Path | None) -> Settings:
    """Return settings in which the files that were kept with a run take the place of the user's own.

    Those may be elsewhere by now, or say something else.
    """
    if directory is None or not (directory / RECORD).is_file():
        return settings
    kept = {option: str(directory / file) for option, file in read_record(directory).get("inputs", {}).items()}
    return replace(settings, domain_options=settings.domain_options | kept)


def _settings(plugins: Plugins, directory: Path, record: Mapping[str, Any]) -> Settings:
    file, told = directory / RECORD, record["settings"]

    def options(entry: Entry, values: Any) -> dict[str, Any]:
        own = entry.with_options().options
        return dict(values) if own is None else validate(own, values, where=f"{file}: {entry.kind} {entry.name!r}:")

    try:
        parts: dict[str, Any] = {
            "domain_options": options(plugins.domains[told["domain"]], told["domain_options"]),
            "mutation_options": options(plugins.mutations[told["mutation"]], told["mutation_options"]),
            "selection_options": options(plugins.selections[told["selection"]], told["selection_options"]),
            "observer_options": {
                name: options(plugins.observers[name], told["observer_options"][name]) for name in told["observers"]
            },
            "engine": validate(EngineOptions, told["engine"], where=f"{file}: engine:"),
        }
        names = {field.name for field in fields(RunOptions)}
        values = {key: value for key, value in told.items() if key in names}
        run: dict[str, Any] = validate(RunOptions, values, where=f"{file}:")
        return Settings(domain=told["domain"], mutation=told["mutation"], **run, **parts)
    except (KeyError, TypeError, AttributeError) as error:
        if isinstance(error, TfsmError):
            raise
        raise TfsmError(f"{file}: not the record of a run: {type(error).__name__}: {error}") from None
