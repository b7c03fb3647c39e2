"""Is a configuration file right, also in the parts that this run does not use?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final, TypeAlias

from tfsm.errors import TfsmError, UnknownNameError, suggestion
from tfsm.experiments.settings.engine_options import ENGINE_KEYS, EngineOptions
from tfsm.experiments.settings.files import ConfigFile, header
from tfsm.experiments.settings.run_options import RUN_KEYS, RunOptions
from tfsm.experiments.settings.strict import option_names, problems_in
from tfsm.plugins import Plugins
from tfsm.registry import Parts

Path: TypeAlias = tuple[str, ...]
"""Of a table: `("domains", "parity")`."""

TABLES: Final = ("run", "domains", "mutations", "selections", "observers", "engine")
DOMAIN_KEYS: Final = (*RUN_KEYS, "options", "mutation", "selection_options")


def check(file: ConfigFile, plugins: Plugins) -> None:
    """Raise a `TfsmError` that lists every mistake in a file."""
    problems = list(_problems(file, plugins))
    if problems:
        raise TfsmError("\n".join(problems))


def _problems(file: ConfigFile, plugins: Plugins) -> Iterator[str]:
    for name, table in file.tables.items():
        if name not in TABLES:
            yield f"{file.where(name)}: unknown table{suggestion(name, TABLES)}"
        elif not isinstance(table, dict):
            yield f"{file.path}: {name}: expected a table, {header(name)}"
    run, engine = _table(file.tables, "run"), _table(file.tables, "engine")
    yield from _unknown_keys(file.where("run"), run, RUN_KEYS)
    yield from _run_settings(file, ("run",), run, plugins)
    yield from _unknown_keys(file.where("engine"), engine, ENGINE_KEYS)
    yield from problems_in(EngineOptions, _only(engine, ENGINE_KEYS), file.where("engine"))
    for parts in (plugins.domains, plugins.mutations, plugins.selections, plugins.observers):
        for name, table in _table(file.tables, f"{parts.kind}s").items():
            path = (f"{parts.kind}s", name)
            misspelt = _near_miss(file, path, name, parts)
            if misspelt:
                yield misspelt
            elif not isinstance(table, dict):
                yield f"{file.where(path[0])} {name}: expected a table, {header(*path)}"
            elif parts.kind == "domain":
                yield from _domain(file, path, table, plugins)
            else:
                yield from _options(file, path, name, table, parts)


def _domain(file: ConfigFile, path: Path, table: Mapping[str, Any], plugins: Plugins) -> Iterator[str]:
    yield from _unknown_keys(file.where(*path), table, DOMAIN_KEYS)
    yield from _run_settings(file, path, table, plugins)
    for key in ("options", "mutation", "selection_options"):
        if key in table and not isinstance(table[key], dict):
            yield f"{file.where(*path)} {key}: expected a table of options, such as {key} = {{ name = 1 }}"
    yield from _options(file, (*path, "options"), path[-1], _table(table, "options"), plugins.domains)
    for key, parts in (("mutation", plugins.mutations), ("selection_options", plugins.selections)):
        yield from _shared_options(file, (*path, key), _table(table, key), parts)


def _run_settings(file: ConfigFile, path: Path, values: Mapping[str, Any], plugins: Plugins) -> Iterator[str]:
    yield from problems_in(RunOptions, _only(values, set(RUN_KEYS) - {"intensity"}), file.where(*path))
    observers = values.get("observers")
    named = [("selection", values.get("selection"), plugins.selections)]
    named += [("observers", name, plugins.observers) for name in (observers if isinstance(observers, list) else ())]
    for key, name, parts in named:
        # The built-in file names parts whose plugin a user may have disabled; that is no mistake until they are used.
        if isinstance(name, str) and name not in parts and not file.built_in:
            yield f"{file.where(*path)} {key}: {UnknownNameError(parts.kind, name, parts)}"
    intensity = values.get("intensity")
    if not isinstance(intensity, dict):
        yield from problems_in(RunOptions, _only(values, ("intensity",)), file.where(*path))
        return
    path = (*path, "intensity")
    for operator, value in intensity.items():
        misspelt = _near_miss(file, path, operator, plugins.mutations)
        if misspelt:
            yield misspelt
        yield from problems_in(RunOptions, {"intensity": value}, f"{file.where(*path)} {operator}:")


def _options(file: ConfigFile, path: Path, name: str, values: Mapping[str, Any], parts: Parts) -> Iterator[str]:
    # A part that declares no options is asked for them only when a run uses it: that means importing it.
    if name in parts and (options := parts[name].options) is not None:
        yield from problems_in(options, values, file.where(*path))


def _shared_options(file: ConfigFile, path: Path, values: Mapping[str, Any], parts: Parts) -> Iterator[str]:
    """Check options that are meant for whichever part is chosen: each must be right for one part at least."""
    takers = {entry.options: option_names(entry.options) for entry in parts.values() if entry.options is not None}
    for name, value in values.items():
        verdicts = [
            list(problems_in(options, {name: value}, file.where(*path)))
            for options, names in takers.items()
            if name in names
        ]
        if not verdicts and not file.built_in:
            known = sorted({option for names in takers.values() for option in names})
            yield f"{file.where(*path)} {name}: no {parts.kind} has this option{suggestion(name, known)}"
        elif verdicts and all(verdicts):
            yield from verdicts[0]


def _near_miss(file: ConfigFile, path: Path, name: str, parts: Parts) -> str | None:
    """Tell a misspelt name from that of a part whose plugin is disabled, or not installed here."""
    near = [] if name in parts or file.built_in else get_close_matches(name, parts, n=1, cutoff=0.8)
    return f"{file.where(*path)}: no {parts.kind} named {name!r}, did you mean {near[0]!r}?" if near else None


def _unknown_keys(where: str, table: Mapping[str, Any], known: Iterable[str]) -> Iterator[str]:
    names = tuple(known)
    return (f"{where} {key}: unknown key{suggestion(key, names)}" for key in table if key not in names)


def _table(tables: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    table = tables.get(name, {})
    return table if isinstance(table, dict) else {}


def _only(values: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    wanted = set(keys)
    return {key: value for key, value in values.items() if key in wanted}
