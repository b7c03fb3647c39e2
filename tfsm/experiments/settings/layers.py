"""What each file says about one run; a later layer covers an earlier one, key by key."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from tfsm.experiments.settings.engine_options import ENGINE_KEYS
from tfsm.experiments.settings.files import ConfigFile
from tfsm.experiments.settings.run_options import RUN_KEYS
from tfsm.experiments.settings.strict import option_names
from tfsm.registry import Entry

_SHARED: Final[Mapping[str, str]] = {
    "domain": "options",
    "mutation": "mutation",
    "selection": "selection_options",
}
"""The key of `[domains.NAME]` that holds options for a part of this kind."""


class Given(NamedTuple):
    """A value that somebody gave."""

    value: object
    source: str
    """Where it is from, for a listing."""
    where: str
    """Where it is from, as the beginning of an error message."""
    users: bool
    """Whether the user gave it, rather than the built-in file."""


Layer: TypeAlias = dict[str, Given]


def run_layer(files: Sequence[ConfigFile], domain: str | None, mutation: str | None) -> Layer:
    """Merge the run settings of all files, those of `[run]` alone if there is no domain."""
    layer: Layer = {}
    paths = [("run",)] if domain is None else [("run",), ("domains", domain)]
    for file in files:
        for path, table in _tables(file, *paths):
            layer |= _given(file, path, {key: value for key, value in table.items() if key != "intensity"}, RUN_KEYS)
            intensity = table.get("intensity")
            if isinstance(intensity, dict):
                own = {"intensity": intensity[mutation]} if mutation in intensity else {}
                layer |= _given(file, (*path, "intensity"), own, RUN_KEYS)
            elif intensity is not None:
                layer |= _given(file, path, {"intensity": intensity}, RUN_KEYS)
    return layer


def engine_layer(files: Sequence[ConfigFile]) -> Layer:
    """Merge the engine's settings of all files."""
    layer: Layer = {}
    for file in files:
        for path, table in _tables(file, ("engine",)):
            layer |= _given(file, path, table, ENGINE_KEYS)
    return layer


def options_layer(files: Sequence[ConfigFile], entry: Entry, domain: str) -> Layer:
    """Merge what all files say about a part's options; what is meant for other parts is left out."""
    layer: Layer = {}
    paths: list[tuple[str, ...]] = [] if entry.kind == "domain" else [(f"{entry.kind}s", entry.name)]
    if entry.kind in _SHARED:
        paths.append(("domains", domain, _SHARED[entry.kind]))
    for file in files:
        for path, table in _tables(file, *paths):
            layer |= _given(file, path, table, option_names(entry.options))
    return layer


def _tables(file: ConfigFile, *paths: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    for path in paths:
        table: Any = file.tables
        for name in path:
            table = table.get(name, {})
        yield path, table


def _given(file: ConfigFile, path: tuple[str, ...], values: Mapping[str, Any], keys: Collection[str]) -> Layer:
    # A listing names `[domains.parity]` for its inner tables too: that is the header to look for in the file.
    source, where = file.source(*path[:2]), file.where(*path)
    return {key: Given(value, source, where, not file.built_in) for key, value in values.items() if key in keys}
