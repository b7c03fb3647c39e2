"""Merge with provenance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from tfsm.errors import TfsmError, UnknownNameError
from tfsm.plugins import Plugins
from tfsm.plugins.options import describe, validate
from tfsm.plugins.registry import Entry
from tfsm.settings import sources as assignments
from tfsm.settings import sources as command_line
from tfsm.settings.schema import (
    ENGINE_KEYS,
    RUN_KEYS,
    EngineOptions,
    NoOptions,
    ResolvedSettings,
    RunOptions,
    Settings,
    option_names,
)
from tfsm.settings.sources import (
    SourcedValue,
    SourcedValues,
    config_files,
    merge_engine_settings,
    merge_part_options,
    merge_run_settings,
)
from tfsm.settings.validation import (
    apply_fixed_population,
    apply_model_weights,
    check_adaptation,
    check_consistency,
    check_file,
    check_model_settings,
)

BUILT_IN: Final = "built-in default"
_NAMING: Final = ("selection", "observers")
"""The settings of a run that name parts."""
_NOTHING: Final[Mapping[str, object]] = MappingProxyType({})
_OWNER: Final[Mapping[str, str]] = MappingProxyType(
    {
        "domain": "domain's default",
        "mutation": "operator's default",
        "selection": "selection's default",
        "observer": "observer's default",
    }
)


def resolve(
    plugins: Plugins,
    *,
    domain: str,
    mutation: str,
    overrides: Mapping[str, object] = _NOTHING,
    sets: Sequence[str] = (),
    config: Path | None = None,
    cwd: Path | None = None,
) -> ResolvedSettings:
    """Resolve the settings of a run: defaults, then the built-in file, then the user's, then the command line.

    Args:
        plugins: the registered parts
        domain: name of the domain
        mutation: name of the operator
        overrides: settings by name, from flags; None where a flag was not given
        sets: the arguments of `--set`
        config: the user's file, instead of the nearest `tfsm.toml` upwards from `cwd`
        cwd: the working directory if not given
    """
    chosen = {"domain": plugins.domains[domain].with_options(), "mutation": plugins.mutations[mutation].with_options()}
    files = config_files(config, cwd)
    for file in files:
        check_file(file, plugins)

    run = merge_run_settings(files, domain, mutation)
    flags = command_line.collect_flags(overrides)
    parsed = assignments.parse_assignments(sets)
    known = {part: option_names(entry.options) for part, entry in chosen.items()}
    named = {key: assignments.find_assignment(key, parsed, [*known["domain"], *known["mutation"]]) for key in _NAMING}
    naming = run | flags["run"] | {key: command_line.given(item) for key, item in named.items() if item is not None}
    chosen["selection"] = _selection(plugins, naming)
    observers = _observers(plugins, naming)
    known |= {"selection": option_names(chosen["selection"].options), "run": RUN_KEYS, "engine": ENGINE_KEYS}
    known |= {name: option_names(entry.options) for name, entry in observers.items() if name not in known}
    command_line.add_assignments(flags, parsed, known, [name for name in plugins.observers if name not in observers])

    sources = {"domain": "command line", "mutation": "command line"}
    run |= flags["run"]
    if "intensity" not in run:
        raise TfsmError(
            f"no intensity is known for mutation {mutation!r} in domain {domain!r}: give --intensity, "
            f"or {mutation} = NUMBER in [run.intensity] of a tfsm.toml"
        )
    values = apply_defaults(RunOptions, run, BUILT_IN, sources)
    apply_fixed_population(values, sources, run, chosen["selection"])
    apply_model_weights(values, sources, run)
    check_model_settings(values, sources)
    check_adaptation(values, sources)
    options = {
        f"{part}_options": _options(entry, merge_part_options(files, entry, domain) | flags[part], sources)
        for part, entry in chosen.items()
    }
    own = {name: layer for name, layer in flags.items() if name not in assignments.PARTS}
    told = {
        name: _options(entry, merge_part_options(files, entry, domain) | own.get(name, {}), sources)
        for name, entry in observers.items()
    }
    check_consistency(values, sources, chosen["selection"], options["selection_options"])
    engine = apply_defaults(EngineOptions, merge_engine_settings(files) | flags["engine"], BUILT_IN, sources, "engine.")
    everything: dict[str, Any] = {
        "domain": domain,
        "mutation": mutation,
        **values,
        **options,
        "observer_options": told,
        "engine": engine,
    }
    return ResolvedSettings(settings=Settings(**everything), sources=sources)


def apply_defaults(
    options: type, layer: SourcedValues, default: str, sources: dict[str, str], prefix: str = ""
) -> dict[str, object]:
    """Check what was given, add defaults for what was not, and note the source of each."""
    given = validate(options, {key: item.value for key, item in layer.items()}, where=lambda key: layer[key].where)
    sources |= {f"{prefix}{option.name}": _source(layer.get(option.name), default) for option in describe(options)}
    return {option.name: given.get(option.name, option.default) for option in describe(options)}


def _source(item: SourcedValue | None, default: str) -> str:
    return item.source if item is not None else default


def _options(entry: Entry, layer: SourcedValues, sources: dict[str, str]) -> dict[str, object]:
    options = entry.options or NoOptions
    missing = [option.name for option in describe(options) if option.required and option.name not in layer]
    if missing:
        owner = entry.name if entry.kind == "observer" else entry.kind
        ways = " ".join(f"--set {owner}.{name}=VALUE" for name in missing)
        raise TfsmError(f"{entry.kind} {entry.name!r} has options without a default: give {ways}")
    prefix = f"observer_options.{entry.name}." if entry.kind == "observer" else f"{entry.kind}_options."
    return apply_defaults(options, layer, _OWNER[entry.kind], sources, prefix)


def _selection(plugins: Plugins, run: SourcedValues) -> Entry:
    """Look the selection scheme up, before the rest: which options there are depends on it."""
    layer = {"selection": run["selection"]} if "selection" in run else {}
    name = str(apply_defaults(RunOptions, layer, BUILT_IN, {})["selection"])
    try:
        return plugins.selections[name].with_options()
    except UnknownNameError as error:
        where = layer["selection"].where if layer else BUILT_IN
        raise TfsmError(f"{where} selection={name}: {error}") from error


def _observers(plugins: Plugins, run: SourcedValues) -> dict[str, Entry]:
    """Look the observers up, likewise."""
    layer = {"observers": run["observers"]} if "observers" in run else {}
    where = layer["observers"].where if layer else BUILT_IN
    found: dict[str, Entry] = {}
    names: Any = apply_defaults(RunOptions, layer, BUILT_IN, {})["observers"]
    for name in names:
        if name in found:
            raise TfsmError(f"{where} observers={name}: given twice")
        try:
            found[name] = plugins.observers[name].with_options()
        except UnknownNameError as error:
            raise TfsmError(f"{where} observers={name}: {error}") from error
    return found


@dataclass(frozen=True, kw_only=True)
class GeneralSettings:
    """Settings before a domain is chosen, and where each came from."""

    run: dict[str, Any]
    """With `intensity` by operator; an operator that no `[run]` names is not in it."""
    engine: dict[str, Any]
    sources: dict[str, str]
    """By dotted path, such as `population`, `intensity.control` or `engine.memory`."""


def resolve_general(plugins: Plugins, *, config: Path | None = None, cwd: Path | None = None) -> GeneralSettings:
    """Resolve what holds where no domain and no command line says otherwise."""
    files = config_files(config, cwd)
    for file in files:
        check_file(file, plugins)
    sources: dict[str, str] = {}
    run = apply_defaults(RunOptions, merge_run_settings(files, None, None), BUILT_IN, sources)
    del run["intensity"], sources["intensity"]
    intensities: dict[str, object] = {}
    for name in plugins.mutations:
        layer = {key: item for key, item in merge_run_settings(files, None, name).items() if key == "intensity"}
        if layer:
            intensities[name] = apply_defaults(RunOptions, layer, BUILT_IN, {})["intensity"]
            sources[f"intensity.{name}"] = layer["intensity"].source
    engine = apply_defaults(EngineOptions, merge_engine_settings(files), BUILT_IN, sources, "engine.")
    return GeneralSettings(run={**run, "intensity": intensities}, engine=engine, sources=sources)
