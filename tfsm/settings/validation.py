"""Whole-file checks, cross-field rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from difflib import get_close_matches
from typing import Any, Final, TypeAlias

from tfsm.errors import TfsmError, UnknownNameError, suggestion
from tfsm.evolution.checkpoint_schedule import parse_interval
from tfsm.models.names import check_model_name, is_builder, parse_patterns
from tfsm.plugins import Plugins
from tfsm.plugins.registry import Entry, Parts
from tfsm.settings.schema import ENGINE_KEYS, RUN_KEYS, EngineOptions, RunOptions, find_problems, option_names
from tfsm.settings.sources import ConfigFile, SourcedValues, header

Path: TypeAlias = tuple[str, ...]
"""Of a table: `("domains", "parity")`."""

TABLES: Final = ("run", "domains", "mutations", "selections", "observers", "engine")
DOMAIN_KEYS: Final = (*RUN_KEYS, "options", "mutation", "selection_options")


def check_file(file: ConfigFile, plugins: Plugins) -> None:
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
    yield from find_problems(EngineOptions, _only(engine, ENGINE_KEYS), file.where("engine"))
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
    yield from find_problems(RunOptions, _only(values, set(RUN_KEYS) - {"intensity"}), file.where(*path))
    observers = values.get("observers")
    named = [("selection", values.get("selection"), plugins.selections)]
    named += [("observers", name, plugins.observers) for name in (observers if isinstance(observers, list) else ())]
    for key, name, parts in named:
        # The built-in file names parts whose plugin a user may have disabled; that is no mistake until they are used.
        if isinstance(name, str) and name not in parts and not file.built_in:
            yield f"{file.where(*path)} {key}: {UnknownNameError(parts.kind, name, parts)}"
    intensity = values.get("intensity")
    if not isinstance(intensity, dict):
        yield from find_problems(RunOptions, _only(values, ("intensity",)), file.where(*path))
        return
    path = (*path, "intensity")
    for operator, value in intensity.items():
        misspelt = _near_miss(file, path, operator, plugins.mutations)
        if misspelt:
            yield misspelt
        yield from find_problems(RunOptions, {"intensity": value}, f"{file.where(*path)} {operator}:")


def _options(file: ConfigFile, path: Path, name: str, values: Mapping[str, Any], parts: Parts) -> Iterator[str]:
    # A part that declares no options is asked for them only when a run uses it: that means importing it.
    if name in parts and (options := parts[name].options) is not None:
        yield from find_problems(options, values, file.where(*path))


def _shared_options(file: ConfigFile, path: Path, values: Mapping[str, Any], parts: Parts) -> Iterator[str]:
    """Check options that are meant for whichever part is chosen: each must be right for one part at least."""
    takers = {entry.options: option_names(entry.options) for entry in parts.values() if entry.options is not None}
    for name, value in values.items():
        verdicts = [
            list(find_problems(options, {name: value}, file.where(*path)))
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


def fixed_population(entry: Entry) -> int | None:
    """Return the only population that a selection scheme works with, which its options may declare.

    They do with `population: ClassVar[int]`, because to read it from the scheme would import TensorFlow.
    """
    if entry.options is None or any(field.name == "population" for field in fields(entry.options)):
        return None
    size = getattr(entry.options, "population", None)
    return size if isinstance(size, int) else None


def apply_fixed_population(
    run: dict[str, object], sources: dict[str, str], layer: SourcedValues, selection: Entry
) -> None:
    """Give a scheme the population that it needs, unless the user asked for another."""
    size = fixed_population(selection)
    if size is None or run["population"] == size:
        return
    if "population" in layer and layer["population"].users:
        raise TfsmError(
            f"population={run['population']} ({sources['population']}): selection {selection.name!r} "
            f"({sources['selection']}) needs a population of {size}; leave population out or choose another selection"
        )
    run["population"] = size
    sources["population"] = f"{selection.name} keeps {'one champion' if size == 1 else f'a population of {size}'}"


def apply_model_weights(run: dict[str, object], sources: dict[str, str], layer: SourcedValues) -> None:
    """Let everybody start from a model file's weights, unless the user asked for something else."""
    name = run["model"]
    if isinstance(name, str) and not is_builder(name) and not ("init" in layer and layer["init"].users):
        run["init"], sources["init"] = "model", "the model comes with weights"


def check_model_settings(run: Mapping[str, Any], sources: Mapping[str, str]) -> None:
    """Raise a `TfsmError` for a model file that cannot be, or layers that are not told in a way to be understood."""
    parse_patterns(run["mutated_layers"])
    if run["model"] is not None:
        check_model_name(run["model"], trust=run["trust_model"])
    elif run["trust_model"]:
        raise TfsmError(f"trust_model ({sources['trust_model']}): there is no model file to trust; name one by --model")


def check_adaptation(run: Mapping[str, Any], sources: Mapping[str, str]) -> None:
    """Raise a `TfsmError` where a wanted divergence is missing, or of no use."""
    wanted = run["target_divergence"]
    if run["adapt"] == "divergence" and wanted is None:
        raise TfsmError(
            f"adapt=divergence ({sources['adapt']}): to which divergence? Give target_divergence, such as 0.01"
        )
    if run["adapt"] != "divergence" and wanted is not None:
        raise TfsmError(
            f"target_divergence={wanted:g} ({sources['target_divergence']}) is for adapt = divergence, and adapt is "
            f"{run['adapt']}"
        )


def check_consistency(
    run: Mapping[str, Any], sources: Mapping[str, str], selection: Entry, options: Mapping[str, object]
) -> None:
    """Raise a `TfsmError` where settings that are right by themselves contradict each other."""
    parse_interval(str(run["checkpoint_every"]))
    population, evaluations, size = run["population"], run["evaluations"], options.get("size")
    origin = f"population: {sources['population']}"
    if isinstance(size, int) and size > population:
        where = sources["selection_options.size"]
        message = f"{selection.name} size {size} is larger than the population of {population}"
        raise TfsmError(f"{message} (size: {where}; {origin})")
    if evaluations < population:
        where = sources["evaluations"]
        message = f"evaluations ({evaluations}) is smaller than the population ({population})"
        raise TfsmError(f"{message}: the initial population itself is counted (evaluations: {where}; {origin})")
