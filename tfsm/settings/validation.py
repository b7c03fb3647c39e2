"""Check settings: the tables of every source, and rules between settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from difflib import get_close_matches
from typing import Any, Final, TypeAlias

from tfsm.errors import TfsmError, UnknownNameError, suggestion
from tfsm.evolution.checkpoint_schedule import parse_interval
from tfsm.models.names import check_model_name, is_builder, parse_patterns
from tfsm.plugins import Plugins
from tfsm.plugins.options import find_problems, option_names, parse_divergence
from tfsm.plugins.registry import Entry, Parts
from tfsm.settings.schema import ENGINE_KEYS, RUN_KEYS, EngineOptions, RunOptions
from tfsm.settings.sources import BUILT_IN_FILE, PROFILES, STRENGTHS, ConfigSource, SourcedValues, header

TablePath: TypeAlias = tuple[str, ...]
"""The path of a table: `("domains", "parity")`."""

TABLES: Final = ("run", "domains", "mutations", "selections", "observers", "engine")
"""The tables of a file, and of a profile."""
TRAINED_DIVERGENCE: Final = "1%"
"""The default divergence of runs that start from a model's own weights."""
DOMAIN_KEYS: Final = (*RUN_KEYS, "options", "mutation", "selection_options")


def check_source(source: ConfigSource, plugins: Plugins) -> None:
    """Raise a `TfsmError` that lists every mistake in a file, or in the defaults of a plugin."""
    problems = list(_find_problems(source, plugins))
    if problems:
        raise TfsmError("\n".join(problems))


def _find_problems(source: ConfigSource, plugins: Plugins) -> Iterator[str]:
    known = TABLES if source.prefix else (*TABLES, PROFILES)
    for name, table in source.tables.items():
        if name not in known:
            yield f"{source.where(name)}: unknown table{suggestion(name, known)}"
        elif not isinstance(table, dict):
            yield f"{source.name}: {name}: expected a table, {header(name)}"
    run, engine = _table(source.tables, "run"), _table(source.tables, "engine")
    yield from _unknown_keys(source.where("run"), run, RUN_KEYS)
    yield from _check_run_settings(source, ("run",), run, plugins)
    yield from _unknown_keys(source.where("engine"), engine, ENGINE_KEYS)
    yield from find_problems(EngineOptions, _only(engine, ENGINE_KEYS), source.where("engine"))
    for parts in (plugins.domains, plugins.mutations, plugins.selections, plugins.observers):
        for name, table in _table(source.tables, f"{parts.kind}s").items():
            path = (f"{parts.kind}s", name)
            misspelt = _misspelt(source, path, name, parts)
            if misspelt:
                yield misspelt
            elif not isinstance(table, dict):
                yield f"{source.where(path[0])} {name}: expected a table, {header(*path)}"
            elif parts.kind == "domain":
                yield from _check_domain(source, path, table, plugins)
            else:
                yield from _check_options(source, path, name, table, parts)
    if not source.prefix:
        yield from _find_profile_problems(source, plugins)


def _find_profile_problems(source: ConfigSource, plugins: Plugins) -> Iterator[str]:
    for name, table in _table(source.tables, PROFILES).items():
        if not isinstance(table, dict):
            yield f"{source.where(PROFILES)} {name}: expected a table, {header(PROFILES, name)}"
    for profile in source.profiles().values():
        yield from _find_problems(profile, plugins)


def _check_domain(source: ConfigSource, path: TablePath, table: Mapping[str, Any], plugins: Plugins) -> Iterator[str]:
    yield from _unknown_keys(source.where(*path), table, DOMAIN_KEYS)
    yield from _check_run_settings(source, path, table, plugins)
    for key in ("options", "mutation", "selection_options"):
        if key in table and not isinstance(table[key], dict):
            yield f"{source.where(*path)} {key}: expected a table of options, such as {key} = {{ name = 1 }}"
    yield from _check_options(source, (*path, "options"), path[-1], _table(table, "options"), plugins.domains)
    for key, parts in (("mutation", plugins.mutations), ("selection_options", plugins.selections)):
        yield from _check_shared_options(source, (*path, key), _table(table, key), parts)


def _check_run_settings(
    source: ConfigSource, path: TablePath, values: Mapping[str, Any], plugins: Plugins
) -> Iterator[str]:
    yield from find_problems(RunOptions, _only(values, set(RUN_KEYS) - set(STRENGTHS)), source.where(*path))
    observers = values.get("observers")
    names = [("selection", values.get("selection"), plugins.selections)]
    names += [("observers", name, plugins.observers) for name in (observers if isinstance(observers, list) else ())]
    for key, name, parts in names:
        # The built-in file names parts whose plugin may be disabled. That is a mistake only if they are used.
        if isinstance(name, str) and name not in parts and source.kind != "built-in":
            yield f"{source.where(*path)} {key}: {UnknownNameError(parts.kind, name, parts)}"
    for key in STRENGTHS:
        yield from _check_strength(source, path, key, values, plugins)


def _check_strength(
    source: ConfigSource, path: TablePath, key: str, values: Mapping[str, Any], plugins: Plugins
) -> Iterator[str]:
    """Check an intensity or a divergence: one for all operators, or a table with one per operator."""
    table = values.get(key)
    if not isinstance(table, dict):
        yield from find_problems(RunOptions, _only(values, (key,)), source.where(*path))
        return
    path = (*path, key)
    where = source.where(*path)
    for operator, value in table.items():
        misspelt = _misspelt(source, path, operator, plugins.mutations)
        if misspelt:
            yield misspelt
        for problem in find_problems(RunOptions, {key: value}, where):
            yield problem.replace(f"{where} {key}=", f"{where} {operator}=", 1)


def _check_options(
    source: ConfigSource, path: TablePath, name: str, values: Mapping[str, Any], parts: Parts
) -> Iterator[str]:
    # The options of a part that was registered without any are checked when a run uses it: that imports the part.
    if name in parts and (options := parts[name].options) is not None:
        yield from find_problems(options, values, source.where(*path))


def _check_shared_options(
    source: ConfigSource, path: TablePath, values: Mapping[str, Any], parts: Parts
) -> Iterator[str]:
    """Check options for whichever part is chosen: each must be valid for at least one part."""
    known = {entry.options: option_names(entry.options) for entry in parts.values() if entry.options is not None}
    for name, value in values.items():
        problems = [
            list(find_problems(options, {name: value}, source.where(*path)))
            for options, names in known.items()
            if name in names
        ]
        if not problems and source.kind != "built-in":
            every = sorted({option for names in known.values() for option in names})
            yield f"{source.where(*path)} {name}: no {parts.kind} has this option{suggestion(name, every)}"
        elif problems and all(problems):
            yield from problems[0]


def _misspelt(source: ConfigSource, path: TablePath, name: str, parts: Parts) -> str | None:
    """Return a message for a misspelt name. Other unknown names may belong to a plugin that is not installed here."""
    known = name in parts or source.kind == "built-in"
    close = [] if known else get_close_matches(name, parts, n=1, cutoff=0.8)
    return f"{source.where(*path)}: no {parts.kind} named {name!r}, did you mean {close[0]!r}?" if close else None


def _unknown_keys(where: str, table: Mapping[str, Any], known: Iterable[str]) -> Iterator[str]:
    names = tuple(known)
    return (f"{where} {key}: unknown key{suggestion(key, names)}" for key in table if key not in names)


def _table(tables: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    table = tables.get(name, {})
    return table if isinstance(table, dict) else {}


def _only(values: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    included = set(keys)
    return {key: value for key, value in values.items() if key in included}


def fixed_population(entry: Entry) -> int | None:
    """Return the only population size that a selection scheme supports, if its options declare one.

    They declare it as `population: ClassVar[int]`: reading it from the scheme itself would import TensorFlow.
    """
    if entry.options is None or any(field.name == "population" for field in fields(entry.options)):
        return None
    size = getattr(entry.options, "population", None)
    return size if isinstance(size, int) else None


def apply_fixed_population(
    run: dict[str, object], sources: dict[str, str], given: SourcedValues, selection: Entry
) -> None:
    """Use the population size that a scheme requires; an error if the user asked for another one."""
    size = fixed_population(selection)
    if size is None or run["population"] == size:
        return
    if "population" in given and given["population"].from_user:
        raise TfsmError(
            f"population={run['population']} ({sources['population']}): selection {selection.name!r} "
            f"({sources['selection']}) needs a population of {size}; leave population out or choose another selection"
        )
    run["population"] = size
    sources["population"] = f"{selection.name} keeps {'one champion' if size == 1 else f'a population of {size}'}"


def apply_model_weights(run: dict[str, object], sources: dict[str, str], given: SourcedValues) -> None:
    """Start from the weights in a model file, unless the user chose another initialization."""
    name = run["model"]
    if isinstance(name, str) and not is_builder(name) and not ("init" in given and given["init"].from_user):
        run["init"], sources["init"] = "model", "the model comes with weights"


def apply_trained_divergence(run: dict[str, object], sources: dict[str, str], given: SourcedValues) -> None:
    """Use a smaller divergence than the built-in one of a domain where runs start from a model's own weights.

    From random weights small steps are slow, while a trained network is worth keeping.
    """
    chosen = given.get("divergence")
    if run["init"] == "model" and run["divergence"] is not None and chosen and chosen.source.startswith(BUILT_IN_FILE):
        run["divergence"], sources["divergence"] = TRAINED_DIVERGENCE, "runs start from the model's weights"


def check_model_settings(run: Mapping[str, Any], sources: Mapping[str, str]) -> None:
    """Raise a `TfsmError` for invalid layer patterns, an invalid model name, or trust without a model."""
    parse_patterns(run["mutated_layers"])
    if run["model"] is not None:
        check_model_name(run["model"], trust=run["trust_model"])
    elif run["trust_model"]:
        raise TfsmError(f"trust_model ({sources['trust_model']}): there is no model file to trust; give --model")


def check_adaptation(run: Mapping[str, Any], sources: Mapping[str, str]) -> None:
    """Raise a `TfsmError` if `target_divergence` is missing, or has no effect."""
    target = run["target_divergence"]
    if run["adapt"] == "divergence" and target is None:
        raise TfsmError(f"adapt=divergence ({sources['adapt']}) needs target_divergence, such as 0.01")
    if run["adapt"] != "divergence" and target is not None:
        raise TfsmError(
            f"target_divergence={target:g} ({sources['target_divergence']}) needs adapt = divergence, but adapt is "
            f"{run['adapt']}"
        )


def check_divergence(run: dict[str, Any], given: SourcedValues) -> None:
    """Bring a divergence into its usual form; raise a `TfsmError` if it is none, or if the intensity adapts."""
    if run["divergence"] is None:
        return
    try:
        divergence = parse_divergence(run["divergence"])
    except TfsmError as error:
        raise TfsmError(f"{given['divergence'].where} {error}") from None
    run["divergence"] = str(divergence) if divergence.relative else divergence.value
    if run["adapt"] == "divergence":
        raise TfsmError(
            f"adapt=divergence changes an intensity, but divergence={divergence} is given: drop one of them"
        )


def check_consistency(
    run: Mapping[str, Any], sources: Mapping[str, str], selection: Entry, options: Mapping[str, object]
) -> None:
    """Raise a `TfsmError` for valid settings that contradict each other."""
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
        raise TfsmError(f"{message}: the initial population counts as evaluations (evaluations: {where}; {origin})")
