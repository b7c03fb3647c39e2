"""Resolve the settings of a run: merge all sources in order of precedence, and record the source of each value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from tfsm.errors import TfsmError, UnknownNameError
from tfsm.plugins import Plugins
from tfsm.plugins.options import NoOptions, describe, option_names, validate
from tfsm.plugins.registry import Entry
from tfsm.settings.schema import ENGINE_KEYS, RUN_KEYS, EngineOptions, ResolvedSettings, RunOptions, Settings
from tfsm.settings.sources import (
    OWNERS,
    STRENGTHS,
    SourcedValue,
    SourcedValues,
    add_assignments,
    collect_flags,
    config_sources,
    find_assignment,
    merge_engine_settings,
    merge_part_options,
    merge_run_settings,
    override_run_settings,
    parse_assignments,
    profile_sources,
)
from tfsm.settings.validation import (
    apply_fixed_population,
    apply_model_weights,
    apply_trained_divergence,
    check_adaptation,
    check_consistency,
    check_divergence,
    check_model_settings,
    check_source,
)

BUILT_IN: Final = "built-in default"
_NO_OVERRIDES: Final[Mapping[str, object]] = MappingProxyType({})
_DEFAULT_SOURCES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "domain": "domain's default",
        "mutation": "operator's default",
        "selection": "selection's default",
        "observer": "observer's default",
    }
)


@dataclass(frozen=True, kw_only=True)
class GeneralSettings:
    """Settings without a domain, and the source of each."""

    run: dict[str, Any]
    """With a table of `intensity` by operator, without operators that have no general intensity."""
    engine: dict[str, Any]
    sources: dict[str, str]
    """By dotted path, such as `population`, `intensity.control` or `engine.memory`."""


def resolve(
    plugins: Plugins,
    *,
    domain: str,
    mutation: str,
    overrides: Mapping[str, object] = _NO_OVERRIDES,
    sets: Sequence[str] = (),
    config: Path | None = None,
    cwd: Path | None = None,
    profile: str | None = None,
) -> ResolvedSettings:
    """Resolve the settings of a run.

    Precedence, lowest first: defaults in code, the built-in `tfsm.toml`, the defaults that plugins register with the
    operator and with the domain, the profile, the user's `tfsm.toml`, the command line.

    Args:
        plugins: the registered parts.
        domain: the name of the domain.
        mutation: the name of the operator.
        overrides: settings by name, from flags; None for a flag that was not given.
        sets: the arguments of `--set`.
        config: the user's file, instead of the nearest `tfsm.toml` upwards from `cwd`.
        cwd: where to start looking; by default the working directory.
        profile: the name of a profile, a named set of settings in a `tfsm.toml`; None: no profile.
    """
    parts = {"domain": plugins.domains[domain].with_options(), "mutation": plugins.mutations[mutation].with_options()}
    files = config_sources(parts["mutation"], parts["domain"], config=config, cwd=cwd)
    for file in files:
        check_source(file, plugins)
    if profile is not None:
        defaults, users = (
            [file for file in files if file.kind != "user"],
            [file for file in files if file.kind == "user"],
        )
        files = (*defaults, *profile_sources(files, profile, domain), *users)

    run = merge_run_settings(files, domain, mutation)
    flags = collect_flags(overrides)
    assignments = parse_assignments(sets)
    known = {kind: option_names(entry.options) for kind, entry in parts.items()}
    # Selection and observers come first: which options exist depends on them.
    named = run | flags["run"]
    for key in ("selection", "observers"):
        if assignment := find_assignment(key, assignments, [*known["domain"], *known["mutation"]]):
            named[key] = assignment.as_value()
    parts["selection"] = _find_selection(plugins, named)
    observers = _find_observers(plugins, named)
    known |= {"selection": option_names(parts["selection"].options), "run": RUN_KEYS, "engine": ENGINE_KEYS}
    known |= {name: option_names(entry.options) for name, entry in observers.items() if name not in known}
    add_assignments(flags, assignments, known, [name for name in plugins.observers if name not in observers])

    sources = {"domain": "command line", "mutation": "command line"}
    run = override_run_settings(run, flags["run"])
    values = apply_defaults(RunOptions, run, BUILT_IN, sources)
    if values["intensity"] is None and values["divergence"] is None:
        raise TfsmError(
            f"mutation {mutation!r} has no default intensity for domain {domain!r}: give --intensity or --divergence, "
            f"or {mutation} = NUMBER in [run.intensity] of a tfsm.toml"
        )
    apply_fixed_population(values, sources, run, parts["selection"])
    apply_model_weights(values, sources, run)
    apply_trained_divergence(values, sources, run)
    check_model_settings(values, sources)
    check_adaptation(values, sources)
    check_divergence(values, run)
    given_options = {kind: merge_part_options(files, entry, domain) | flags[kind] for kind, entry in parts.items()}
    chosen = {"guard", "zero", "floor"} & given_options["mutation"].keys()
    if values["divergence"] is not None and "guard" in known["mutation"] and not chosen:
        # The paper's guards belong to its intensities; they are not meant for networks of any size.
        given_options["mutation"]["guard"] = SourcedValue("relative", "divergence", "divergence:", False)
    options = {
        f"{kind}_options": _resolve_options(entry, given_options[kind], sources) for kind, entry in parts.items()
    }
    # An observer may have the name of an owner, such as "run". --set cannot address its options then.
    observer_flags = {name: values for name, values in flags.items() if name not in OWNERS}
    observer_options = {
        name: _resolve_options(entry, merge_part_options(files, entry, domain) | observer_flags.get(name, {}), sources)
        for name, entry in observers.items()
    }
    check_consistency(values, sources, parts["selection"], options["selection_options"])
    engine = apply_defaults(EngineOptions, merge_engine_settings(files) | flags["engine"], BUILT_IN, sources, "engine.")
    settings: dict[str, Any] = {
        "domain": domain,
        "mutation": mutation,
        **values,
        **options,
        "observer_options": observer_options,
        "engine": engine,
    }
    return ResolvedSettings(settings=Settings(**settings), sources=sources)


def resolve_general(plugins: Plugins, *, config: Path | None = None, cwd: Path | None = None) -> GeneralSettings:
    """Resolve the settings that apply unless a domain or the command line overrides them."""
    files = config_sources(*plugins.mutations.values(), config=config, cwd=cwd)
    for file in files:
        check_source(file, plugins)
    sources: dict[str, str] = {}
    run = apply_defaults(RunOptions, merge_run_settings(files, None, None), BUILT_IN, sources)
    for key in STRENGTHS:
        del run[key], sources[key]
    intensities: dict[str, object] = {}
    for name in plugins.mutations:
        merged = merge_run_settings(files, None, name)
        if "intensity" in merged:
            given = {"intensity": merged["intensity"]}
            intensities[name] = apply_defaults(RunOptions, given, BUILT_IN, {})["intensity"]
            sources[f"intensity.{name}"] = merged["intensity"].source
    engine = apply_defaults(EngineOptions, merge_engine_settings(files), BUILT_IN, sources, "engine.")
    return GeneralSettings(run={**run, "intensity": intensities}, engine=engine, sources=sources)


def apply_defaults(
    options: type, given: SourcedValues, default_source: str, sources: dict[str, str], prefix: str = ""
) -> dict[str, object]:
    """Validate the given values, add defaults for the others, and record the source of each in `sources`."""
    values = validate(options, {key: item.value for key, item in given.items()}, where=lambda key: given[key].where)
    for option in describe(options):
        sources[f"{prefix}{option.name}"] = given[option.name].source if option.name in given else default_source
    return {option.name: values.get(option.name, option.default) for option in describe(options)}


def _resolve_options(entry: Entry, given: SourcedValues, sources: dict[str, str]) -> dict[str, object]:
    options = entry.options or NoOptions
    missing = [option.name for option in describe(options) if option.required and option.name not in given]
    if missing:
        owner = entry.name if entry.kind == "observer" else entry.kind
        ways = " ".join(f"--set {owner}.{name}=VALUE" for name in missing)
        raise TfsmError(f"{entry.kind} {entry.name!r} has options without a default: give {ways}")
    prefix = f"observer_options.{entry.name}." if entry.kind == "observer" else f"{entry.kind}_options."
    return apply_defaults(options, given, _DEFAULT_SOURCES[entry.kind], sources, prefix)


def _find_selection(plugins: Plugins, run: SourcedValues) -> Entry:
    given = {"selection": run["selection"]} if "selection" in run else {}
    name = str(apply_defaults(RunOptions, given, BUILT_IN, {})["selection"])
    try:
        return plugins.selections[name].with_options()
    except UnknownNameError as error:
        where = given["selection"].where if given else BUILT_IN
        raise TfsmError(f"{where} selection={name}: {error}") from error


def _find_observers(plugins: Plugins, run: SourcedValues) -> dict[str, Entry]:
    given = {"observers": run["observers"]} if "observers" in run else {}
    where = given["observers"].where if given else BUILT_IN
    entries: dict[str, Entry] = {}
    names: Any = apply_defaults(RunOptions, given, BUILT_IN, {})["observers"]
    for name in names:
        if name in entries:
            raise TfsmError(f"{where} observers={name}: given twice")
        try:
            entries[name] = plugins.observers[name].with_options()
        except UnknownNameError as error:
            raise TfsmError(f"{where} observers={name}: {error}") from error
    return entries
