"""Files, flags, --set."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import resources
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from tfsm.errors import TfsmError, suggestion
from tfsm.plugins.registry import Entry
from tfsm.settings.schema import ENGINE_KEYS, RUN_KEYS, option_names

FILE_NAME: Final = "tfsm.toml"
_DEEPEST: Final = 20
_MOST_BITS: Final = 1024
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class ConfigFile:
    """One file's tables, and how to call it in a message."""

    path: Path
    tables: Mapping[str, Any]
    built_in: bool = False

    def source(self, *table: str) -> str:
        """Say where a value came from: `/x/tfsm.toml [run]`."""
        return f"{f'built-in {FILE_NAME}' if self.built_in else self.path} {header(*table)}"

    def where(self, *table: str) -> str:
        """Say where a mistake is: `/x/tfsm.toml: [run]`."""
        return f"{self.path}: {header(*table)}"


def header(*table: str) -> str:
    """Write a table's name as TOML does.

    >>> header("domains", "gym.pong")
    '[domains."gym.pong"]'
    """
    return f"[{'.'.join(name if _BARE.fullmatch(name) else json.dumps(name) for name in table)}]"


def built_in_path() -> Path:
    """Return the file that ships with tfsm: package data in a wheel, beside the package in a checkout."""
    package = Path(str(resources.files("tfsm")))
    places = (package / FILE_NAME, package.parent / FILE_NAME)
    for place in places:
        if place.is_file():
            return place
    raise TfsmError(f"tfsm's own {FILE_NAME} is missing: neither {places[0]} nor {places[1]} exists; reinstall tfsm")


def nearest_path(cwd: Path | None = None) -> Path | None:
    """Return the nearest `tfsm.toml` from the working directory upwards, if there is one."""
    start = _absolute(cwd or Path())
    for folder in (start, *start.parents):
        # not Path.is_file, which raises where a folder above may not be read
        if os.path.isfile(folder / FILE_NAME):
            return folder / FILE_NAME
    return None


def config_paths(config: Path | None = None, cwd: Path | None = None) -> tuple[Path, ...]:
    """Return the paths of the files in force, weakest first: the built-in one and, if there is one, the user's."""
    built_in = built_in_path()
    users = nearest_path(cwd) if config is None else _absolute((cwd or Path()) / config)
    # A checkout's own file is the built-in one: taken for the user's, its defaults would pass for his wishes.
    if users is None or _content(users) == _content(built_in):
        return (built_in,)
    return (built_in, users)


def config_files(config: Path | None = None, cwd: Path | None = None) -> tuple[ConfigFile, ...]:
    """Read the files in force, weakest first.

    Args:
        config: the user's file; the nearest `tfsm.toml` upwards from `cwd` if not given
        cwd: where to begin looking; the working directory if not given
    """
    paths = config_paths(config, cwd)
    return tuple(ConfigFile(path, _tables(path), built_in=index == 0) for index, path in enumerate(paths))


def _absolute(path: Path) -> Path:
    try:
        return Path(os.path.abspath(path))
    except OSError as error:
        raise TfsmError(f"the working directory cannot be read: {error.strerror}; change to another one") from error


def _content(path: Path) -> bytes:
    if os.path.isdir(path):
        raise TfsmError(f"{path}: is a directory, expected a TOML file")
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise TfsmError(f"{path}: no such file") from error
    except (OSError, ValueError) as error:
        raise TfsmError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _tables(path: Path) -> dict[str, Any]:
    try:
        # "-sig": editors on Windows begin a file with a byte order mark, which TOML does not know
        text = _content(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TfsmError(f"{path}: not UTF-8 (byte {error.start}), save it as UTF-8") from error
    try:
        tables = tomllib.loads(text)
    # ValueError: syntax errors, and integers of thousands of digits; RecursionError: brackets of brackets
    except (ValueError, RecursionError) as error:
        raise TfsmError(f"{path}: not valid TOML: {error}") from error
    _reject_excess(path, tables)
    return tables


def _reject_excess(path: Path, tables: Mapping[str, Any]) -> None:
    """Turn away what would exhaust the stack of whoever prints or compares it, a.a.a.a.a..., or cannot be printed."""
    level: list[Any] = [tables]
    for _ in range(_DEEPEST):
        # Of hexadecimal digits Python reads any number, and refuses to write it in decimal ones.
        if any(isinstance(value, int) and value.bit_length() > _MOST_BITS for value in level):
            raise TfsmError(f"{path}: a whole number of more than {_MOST_BITS} bits")
        level = [
            item
            for value in level
            if isinstance(value, dict | list)
            for item in (value.values() if isinstance(value, dict) else value)
        ]
    if level:
        raise TfsmError(f"{path}: nested deeper than {_DEEPEST} tables")


_SHARED: Final[Mapping[str, str]] = {
    "domain": "options",
    "mutation": "mutation",
    "selection": "selection_options",
}
"""The key of `[domains.NAME]` that holds options for a part of this kind."""


class SourcedValue(NamedTuple):
    """A value that somebody gave."""

    value: object
    source: str
    """Where it is from, for a listing."""
    where: str
    """Where it is from, as the beginning of an error message."""
    users: bool
    """Whether the user gave it, rather than the built-in file."""


SourcedValues: TypeAlias = dict[str, SourcedValue]


def merge_run_settings(files: Sequence[ConfigFile], domain: str | None, mutation: str | None) -> SourcedValues:
    """Merge the run settings of all files, those of `[run]` alone if there is no domain."""
    layer: SourcedValues = {}
    paths = [("run",)] if domain is None else [("run",), ("domains", domain)]
    for file in files:
        for path, table in _layer_tables(file, *paths):
            layer |= _given(file, path, {key: value for key, value in table.items() if key != "intensity"}, RUN_KEYS)
            intensity = table.get("intensity")
            if isinstance(intensity, dict):
                own = {"intensity": intensity[mutation]} if mutation in intensity else {}
                layer |= _given(file, (*path, "intensity"), own, RUN_KEYS)
            elif intensity is not None:
                layer |= _given(file, path, {"intensity": intensity}, RUN_KEYS)
    return layer


def merge_engine_settings(files: Sequence[ConfigFile]) -> SourcedValues:
    """Merge the engine's settings of all files."""
    layer: SourcedValues = {}
    for file in files:
        for path, table in _layer_tables(file, ("engine",)):
            layer |= _given(file, path, table, ENGINE_KEYS)
    return layer


def merge_part_options(files: Sequence[ConfigFile], entry: Entry, domain: str) -> SourcedValues:
    """Merge what all files say about a part's options; what is meant for other parts is left out."""
    layer: SourcedValues = {}
    paths: list[tuple[str, ...]] = [] if entry.kind == "domain" else [(f"{entry.kind}s", entry.name)]
    if entry.kind in _SHARED:
        paths.append(("domains", domain, _SHARED[entry.kind]))
    for file in files:
        for path, table in _layer_tables(file, *paths):
            layer |= _given(file, path, table, option_names(entry.options))
    return layer


def _layer_tables(file: ConfigFile, *paths: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    for path in paths:
        table: Any = file.tables
        for name in path:
            table = table.get(name, {})
        yield path, table


def _given(file: ConfigFile, path: tuple[str, ...], values: Mapping[str, Any], keys: Collection[str]) -> SourcedValues:
    # A listing names `[domains.parity]` for its inner tables too: that is the header to look for in the file.
    source, where = file.source(*path[:2]), file.where(*path)
    return {key: SourcedValue(value, source, where, not file.built_in) for key, value in values.items() if key in keys}


PARTS: Final = ("domain", "mutation", "selection", "run", "engine")


class Assignment(NamedTuple):
    """One `--set`, taken apart."""

    key: str
    value: str
    text: str


def parse_assignments(sets: Sequence[str]) -> list[Assignment]:
    """Take the arguments of `--set` apart."""
    assignments = []
    for text in sets:
        key, equals, value = (piece.strip() for piece in text.partition("="))
        if not equals or not key:
            raise TfsmError(f"--set {text}: expected key=value, such as --set population=100")
        assignments.append(Assignment(key, value, text))
    return assignments


def find_assignment(key: str, assignments: Sequence[Assignment], others: Sequence[str]) -> Assignment | None:
    """Return the one that names parts, `selection` or `observers`, which must be known before their options are.

    Args:
        key: the run's setting that names them
        assignments: all of them
        others: the domain's and the operator's options: one of them may be called the same
    """
    names = {f"run.{key}"} if key in others else {f"run.{key}", key}
    return next((assignment for assignment in assignments if assignment.key in names), None)


def find_owner(
    assignment: Assignment, known: Mapping[str, Sequence[str]], unused: Sequence[str] = ()
) -> tuple[str, str]:
    """Return the part and the key that are meant.

    Args:
        assignment: with a bare key, or one that begins with its part: `domain.bits`, `tensorboard.histograms`
        known: the keys of each of `PARTS`, and of each observer
        unused: observers that the run does not have
    """
    prefix = _prefix(assignment, known)
    if prefix:
        rest = assignment.key.removeprefix(f"{prefix}.")
        if rest in known[prefix]:
            return prefix, rest
        raise _unknown(assignment, rest, known[prefix], known, prefix)
    for name in unused:
        if assignment.key.startswith(f"{name}."):
            raise TfsmError(
                f"--set {assignment.text}: {name!r} is an observer that is not used, give --observer {name}"
            )
    owners = [part for part in PARTS if assignment.key in known[part]]
    if len(owners) > 1:
        forms = " or ".join(f"--set {part}.{assignment.key}={assignment.value}" for part in owners)
        raise TfsmError(f"--set {assignment.text}: {assignment.key!r} is ambiguous, give {forms}")
    if owners:
        return owners[0], assignment.key
    bare = [key if part in PARTS else f"{part}.{key}" for part, keys in known.items() for key in keys]
    raise _unknown(assignment, assignment.key, bare, known, "")


def _prefix(assignment: Assignment, known: Mapping[str, Sequence[str]]) -> str:
    """Return the part that a key begins with; an observer's name may have dots in it, and be another's beginning."""
    first, _, rest = assignment.key.partition(".")
    if rest and first in PARTS:
        return first
    observers = [name for name in known if name not in PARTS and assignment.key.startswith(f"{name}.")]
    return max(observers, key=len, default="")


def _unknown(
    assignment: Assignment, key: str, candidates: Sequence[str], known: Mapping[str, Sequence[str]], prefix: str
) -> TfsmError:
    near = get_close_matches(key, candidates, n=1, cutoff=0.6)
    hint = f", did you mean {'.'.join(filter(None, (prefix, near[0])))!r}?" if near else ""
    listing = "\n".join(f"  {part}: {', '.join(keys) or 'none'}" for part, keys in known.items())
    return TfsmError(f"--set {assignment.text}: unknown key {assignment.key!r}{hint}\nknown keys:\n{listing}")


_OPTIONS: Final[Mapping[str, str]] = {
    "domain_options": "domain",
    "mutation_options": "mutation",
    "selection_options": "selection",
    "engine": "engine",
}
"""The overrides that are themselves tables, and the part each is about."""

_FLAGS: Final[Mapping[str, str]] = {"observers": "observer", "mutated_layers": "layers"}
"""The flags that are not called like the settings they give."""


def collect_flags(overrides: Mapping[str, object]) -> dict[str, SourcedValues]:
    """Sort flags by the part they are about; None means that a flag was not given."""
    layers: dict[str, SourcedValues] = {part: {} for part in PARTS}
    for name, value in overrides.items():
        if value is None:
            continue
        if name in RUN_KEYS:
            flag = _FLAGS.get(name, name.replace("_", "-"))
            layers["run"][name] = SourcedValue(value, "command line", f"--{flag}:", True)
        elif name in _OPTIONS and isinstance(value, Mapping):
            for key, option in value.items():
                layers[_OPTIONS[name]][str(key)] = SourcedValue(option, "command line", f"{name}:", True)
        elif name in _OPTIONS:
            raise TfsmError(f"{name}: expected a mapping of options, got {value!r}")
        else:
            raise TfsmError(f"{name}: no such setting{suggestion(name, (*RUN_KEYS, *_OPTIONS))}")
    return layers


def add_assignments(
    layers: dict[str, SourcedValues],
    assignments: Sequence[Assignment],
    known: Mapping[str, Sequence[str]],
    unused: Sequence[str] = (),
) -> None:
    """Add what `--set` said to what the flags did; `unused` are observers that the run does not have."""
    for assignment in assignments:
        part, key = find_owner(assignment, known, unused)
        before = layers.setdefault(part, {}).get(key)
        if before is not None:
            first = before.source if before.source.startswith("--set") else before.where.removesuffix(":")
            raise TfsmError(f"--set {assignment.text}: {key} was already given by {first}")
        layers[part][key] = given(assignment)


def given(assignment: Assignment) -> SourcedValue:
    """Return what a `--set` gives."""
    return SourcedValue(assignment.value, f"--set {assignment.text}", "--set", True)
