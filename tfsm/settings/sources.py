"""Where settings come from: the shipped `tfsm.toml`, plugins, a profile, the user's `tfsm.toml`, flags and `--set`."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from importlib import resources
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from tfsm.errors import TfsmError, UnknownNameError, suggestion
from tfsm.plugins.options import option_names
from tfsm.plugins.registry import Entry
from tfsm.settings.schema import ENGINE_KEYS, RUN_KEYS

FILE_NAME: Final = "tfsm.toml"
BUILT_IN_FILE: Final = f"built-in {FILE_NAME}"
"""The label of the shipped file in listings."""
PROFILES: Final = "profiles"
"""The table of a file that contains profiles by name."""
OWNERS: Final = ("domain", "mutation", "selection", "run", "engine")
"""The owners of settings that `--set` can name: `--set domain.bits=5`. Observers are named by themselves."""

_MAX_DEPTH: Final = 20
_MAX_BITS: Final = 1024
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")

_OPTION_TABLES: Final[Mapping[str, str]] = {
    "domain": "options",
    "mutation": "mutation",
    "selection": "selection_options",
}
"""The key of `[domains.NAME]` that holds options for a part of this kind."""

_NESTED_FLAGS: Final[Mapping[str, str]] = {
    "domain_options": "domain",
    "mutation_options": "mutation",
    "selection_options": "selection",
    "engine": "engine",
}
"""The overrides that are tables themselves, and the owner of each."""

STRENGTHS: Final = ("intensity", "divergence")
"""The settings that say how strongly to mutate, of which a run has one; in a file also tables with one per operator."""

_FLAG_NAMES: Final[Mapping[str, str]] = {"observers": "observer", "mutated_layers": "layers"}
"""The flags whose name differs from that of their setting."""


@dataclass(frozen=True)
class ConfigSource:
    """The tables of one source: the shipped file, the defaults of a plugin's part, a profile, or the user's file."""

    name: str
    """As messages call it: the path of a file, or the plugin."""
    tables: Mapping[str, Any]
    kind: Literal["built-in", "plugin", "user"] = "user"
    label: str = ""
    """As listings call it, if not by its name and table."""
    prefix: tuple[str, ...] = ()
    """The path of the table that contains these tables, such as `("profiles", "published")`."""

    def source(self, *table: str) -> str:
        """Return the source of a value, for a listing: `/x/tfsm.toml [run]`."""
        if self.kind == "plugin":
            return self.label
        return f"{self.label or self.name} {header(*self.prefix, *table)}"

    def where(self, *table: str) -> str:
        """Return the start of an error message: `/x/tfsm.toml: [run]`."""
        return f"{self.name}: {header(*self.prefix, *table)}"

    def profiles(self) -> dict[str, ConfigSource]:
        """Return the profiles of a file by name, each with tables like those of a file."""
        profiles = self.tables.get(PROFILES)
        tables = profiles.items() if isinstance(profiles, dict) else ()
        return {
            name: replace(self, tables=table, prefix=(PROFILES, name))
            for name, table in tables
            if isinstance(table, dict)
        }


class SourcedValue(NamedTuple):
    """A value with its source."""

    value: object
    source: str
    """The source, for a listing."""
    where: str
    """The source, as the start of an error message."""
    from_user: bool
    """Whether the user gave it, in a file or on the command line, and not the shipped file or a plugin."""


SourcedValues: TypeAlias = dict[str, SourcedValue]


class Assignment(NamedTuple):
    """One `--set KEY=VALUE`."""

    key: str
    value: str
    text: str

    def as_value(self) -> SourcedValue:
        """Return the value with its source."""
        return SourcedValue(self.value, f"--set {self.text}", "--set", True)


def header(*table: str) -> str:
    """Write the header of a table as in TOML.

    >>> header("domains", "gym.pong")
    '[domains."gym.pong"]'
    """
    return f"[{'.'.join(name if _BARE_KEY.fullmatch(name) else json.dumps(name) for name in table)}]"


# ---- files and plugins ----


def built_in_path() -> Path:
    """Return the path of the file that ships with tfsm: package data in a wheel, next to the package in a checkout."""
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
        # Not Path.is_file, which raises if a parent folder may not be read.
        if os.path.isfile(folder / FILE_NAME):
            return folder / FILE_NAME
    return None


def config_paths(config: Path | None = None, cwd: Path | None = None) -> tuple[Path, ...]:
    """Return the paths of the files to read, lowest precedence first: the built-in one and the user's, if any."""
    built_in = built_in_path()
    users = nearest_path(cwd) if config is None else _absolute((cwd or Path()) / config)
    # In a checkout the nearest file is the built-in one. Its defaults must not count as the user's wishes.
    if users is None or _read_bytes(users) == _read_bytes(built_in):
        return (built_in,)
    return (built_in, users)


def config_sources(*entries: Entry, config: Path | None = None, cwd: Path | None = None) -> tuple[ConfigSource, ...]:
    """Read the files and the defaults of parts, lowest precedence first: built-in file, parts, user's file.

    Args:
        *entries: the parts whose defaults apply.
        config: the user's file; by default the nearest `tfsm.toml` upwards from `cwd`.
        cwd: where to start looking; by default the working directory.
    """
    built_in, *users = config_paths(config, cwd)
    return (
        ConfigSource(str(built_in), _read_tables(built_in), "built-in", BUILT_IN_FILE),
        *(source for entry in entries if (source := plugin_source(entry)) is not None),
        *(ConfigSource(str(path), _read_tables(path)) for path in users),
    )


def profile_sources(files: Sequence[ConfigSource], profile: str, domain: str) -> list[ConfigSource]:
    """Return the tables of a profile, from every file that has any.

    Args:
        files: all sources.
        profile: its name.
        domain: the domain of the run; a profile without any settings for it is refused.
    """
    defined = [profiles for file in files if (profiles := file.profiles())]
    sources = [profiles[profile] for profiles in defined if profile in profiles]
    if not sources:
        raise UnknownNameError("profile", profile, sorted({name for profiles in defined for name in profiles}))
    domains = {name for source in sources for name in source.tables.get("domains", {})}
    if domain not in domains and all(set(source.tables) <= {"domains"} for source in sources):
        raise TfsmError(
            f"profile {profile!r} has no settings for domain {domain!r}, only for {', '.join(sorted(domains))}"
        )
    return sources


def plugin_source(entry: Entry) -> ConfigSource | None:
    """Return the defaults that a plugin registered with a part, as the tables of a file; None if there are none."""
    tables: dict[str, Any] = {}
    if entry.intensity is not None:
        tables["run"] = {"intensity": {entry.name: entry.intensity}}
    if entry.defaults:
        tables["domains"] = {entry.name: entry.defaults}
    return ConfigSource(entry.origin, tables, "plugin", f"plugin {entry.plugin}") if tables else None


def _absolute(path: Path) -> Path:
    try:
        return Path(os.path.abspath(path))
    except OSError as error:
        raise TfsmError(f"cannot read the working directory: {error.strerror}; change to another one") from error


def _read_bytes(path: Path) -> bytes:
    if os.path.isdir(path):
        raise TfsmError(f"{path}: is a directory, expected a TOML file")
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise TfsmError(f"{path}: no such file") from error
    except (OSError, ValueError) as error:
        raise TfsmError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _read_tables(path: Path) -> dict[str, Any]:
    try:
        # "-sig": editors on Windows start a file with a byte order mark, which TOML does not allow.
        text = _read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TfsmError(f"{path}: not UTF-8 (byte {error.start}), save it as UTF-8") from error
    try:
        tables = tomllib.loads(text)
    # ValueError: syntax errors, and integers of thousands of digits. RecursionError: deeply nested brackets.
    except (ValueError, RecursionError) as error:
        raise TfsmError(f"{path}: not valid TOML: {error}") from error
    _check_limits(path, tables)
    return tables


def _check_limits(path: Path, tables: Mapping[str, Any]) -> None:
    """Reject nesting that would exhaust the stack when printed or compared, and integers that cannot be printed."""
    level: list[Any] = [tables]
    for _ in range(_MAX_DEPTH):
        # Python reads any number of hexadecimal digits, but refuses to print such an integer in decimal.
        if any(isinstance(value, int) and value.bit_length() > _MAX_BITS for value in level):
            raise TfsmError(f"{path}: an integer of more than {_MAX_BITS} bits")
        level = [
            item
            for value in level
            if isinstance(value, dict | list)
            for item in (value.values() if isinstance(value, dict) else value)
        ]
    if level:
        raise TfsmError(f"{path}: nested deeper than {_MAX_DEPTH} tables")


# ---- merging ----


def merge_run_settings(sources: Sequence[ConfigSource], domain: str | None, mutation: str | None) -> SourcedValues:
    """Merge the run settings of all sources; without a domain, those of `[run]` only."""
    merged: SourcedValues = {}
    paths = [("run",)] if domain is None else [("run",), ("domains", domain)]
    for source in sources:
        for path, table in _tables_at(source, *paths):
            plain = {key: value for key, value in table.items() if key not in STRENGTHS}
            given = _sourced(source, path, plain, RUN_KEYS)
            for key in STRENGTHS:
                value = table.get(key)
                if isinstance(value, dict):
                    chosen = {key: value[mutation]} if mutation in value else {}
                    given |= _sourced(source, (*path, key), chosen, RUN_KEYS)
                elif value is not None:
                    given |= _sourced(source, path, {key: value}, RUN_KEYS)
            merged = override_run_settings(merged, given)
    return merged


def override_run_settings(values: SourcedValues, given: SourcedValues) -> SourcedValues:
    """Return run settings with those of a source of higher precedence.

    An intensity replaces a divergence, and the other way round: they are two ways to say how strongly to mutate.
    """
    chosen = {key: given[key] for key in STRENGTHS if key in given and str(given[key].value).lower() != "none"}
    if len(chosen) == len(STRENGTHS):
        places = " and ".join(dict.fromkeys(item.where.removesuffix(":") for item in chosen.values()))
        numbers = " and ".join(f"{key}={item.value}" for key, item in chosen.items())
        raise TfsmError(f"{places}: {numbers} exclude each other, give one of them")
    dropped = STRENGTHS if chosen else ()
    return {key: item for key, item in values.items() if key not in dropped} | given


def merge_engine_settings(sources: Sequence[ConfigSource]) -> SourcedValues:
    """Merge the engine settings of all sources."""
    merged: SourcedValues = {}
    for source in sources:
        for path, table in _tables_at(source, ("engine",)):
            merged |= _sourced(source, path, table, ENGINE_KEYS)
    return merged


def merge_part_options(sources: Sequence[ConfigSource], entry: Entry, domain: str) -> SourcedValues:
    """Merge the options of a part from all sources, without options that are meant for other parts."""
    merged: SourcedValues = {}
    paths: list[tuple[str, ...]] = [] if entry.kind == "domain" else [(f"{entry.kind}s", entry.name)]
    if entry.kind in _OPTION_TABLES:
        paths.append(("domains", domain, _OPTION_TABLES[entry.kind]))
    for source in sources:
        for path, table in _tables_at(source, *paths):
            merged |= _sourced(source, path, table, option_names(entry.options))
    return merged


def _tables_at(source: ConfigSource, *paths: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    for path in paths:
        table: Any = source.tables
        for name in path:
            table = table.get(name, {})
        yield path, table


def _sourced(
    source: ConfigSource, path: tuple[str, ...], values: Mapping[str, Any], keys: Collection[str]
) -> SourcedValues:
    # A listing names `[domains.parity]` for its inner tables too: that is the header to look for in the file.
    label, where, from_user = source.source(*path[:2]), source.where(*path), source.kind == "user"
    return {key: SourcedValue(value, label, where, from_user) for key, value in values.items() if key in keys}


# ---- flags and --set ----


def collect_flags(overrides: Mapping[str, object]) -> dict[str, SourcedValues]:
    """Group the flags that were given (not None) by their owner."""
    flags: dict[str, SourcedValues] = {owner: {} for owner in OWNERS}
    for name, value in overrides.items():
        if value is None:
            continue
        if name in RUN_KEYS:
            flag = _FLAG_NAMES.get(name, name.replace("_", "-"))
            flags["run"][name] = SourcedValue(value, "command line", f"--{flag}:", True)
        elif name in _NESTED_FLAGS and isinstance(value, Mapping):
            for key, option in value.items():
                flags[_NESTED_FLAGS[name]][str(key)] = SourcedValue(option, "command line", f"{name}:", True)
        elif name in _NESTED_FLAGS:
            raise TfsmError(f"{name}: expected a mapping of options, got {value!r}")
        else:
            raise TfsmError(f"{name}: no such setting{suggestion(name, (*RUN_KEYS, *_NESTED_FLAGS))}")
    return flags


def parse_assignments(sets: Sequence[str]) -> list[Assignment]:
    """Parse the arguments of `--set`."""
    assignments = []
    for text in sets:
        key, equals, value = (piece.strip() for piece in text.partition("="))
        if not equals or not key:
            raise TfsmError(f"--set {text}: expected key=value, such as --set population=100")
        assignments.append(Assignment(key, value, text))
    return assignments


def find_assignment(key: str, assignments: Sequence[Assignment], others: Sequence[str]) -> Assignment | None:
    """Return the assignment of `selection` or `observers`, which must be known before the options of these parts.

    Args:
        key: the run setting that names parts.
        assignments: all assignments.
        others: the options of domain and operator, one of which may have the same name.
    """
    names = {f"run.{key}"} if key in others else {f"run.{key}", key}
    return next((assignment for assignment in assignments if assignment.key in names), None)


def add_assignments(
    flags: dict[str, SourcedValues],
    assignments: Sequence[Assignment],
    known: Mapping[str, Sequence[str]],
    unused: Sequence[str] = (),
) -> None:
    """Add assignments to the flags, by owner.

    Args:
        flags: what `collect_flags` returned.
        assignments: the assignments.
        known: the keys of each of `OWNERS` and of each observer in use.
        unused: the names of observers that are not in use.
    """
    for assignment in assignments:
        owner, key = _find_owner(assignment, known, unused)
        before = flags.setdefault(owner, {}).get(key)
        if before is not None:
            first = before.source if before.source.startswith("--set") else before.where.removesuffix(":")
            raise TfsmError(f"--set {assignment.text}: {key} was already given by {first}")
        flags[owner][key] = assignment.as_value()


def _find_owner(assignment: Assignment, known: Mapping[str, Sequence[str]], unused: Sequence[str]) -> tuple[str, str]:
    """Return the owner and the key of an assignment: `bits`, `domain.bits` or `tensorboard.histograms`."""
    prefix = _owner_prefix(assignment, known)
    if prefix:
        rest = assignment.key.removeprefix(f"{prefix}.")
        if rest in known[prefix]:
            return prefix, rest
        raise _unknown_key(assignment, rest, known[prefix], known, prefix)
    for name in unused:
        if assignment.key.startswith(f"{name}."):
            raise TfsmError(f"--set {assignment.text}: observer {name!r} is not used, add --observer {name}")
    owners = [owner for owner in OWNERS if assignment.key in known[owner]]
    if len(owners) > 1:
        forms = " or ".join(f"--set {owner}.{assignment.key}={assignment.value}" for owner in owners)
        raise TfsmError(f"--set {assignment.text}: {assignment.key!r} is ambiguous, use {forms}")
    if owners:
        return owners[0], assignment.key
    candidates = [key if owner in OWNERS else f"{owner}.{key}" for owner, keys in known.items() for key in keys]
    raise _unknown_key(assignment, assignment.key, candidates, known, "")


def _owner_prefix(assignment: Assignment, known: Mapping[str, Sequence[str]]) -> str:
    """Return the owner that a key starts with. The name of an observer may contain dots and start with another's."""
    first, _, rest = assignment.key.partition(".")
    if rest and first in OWNERS:
        return first
    observers = [name for name in known if name not in OWNERS and assignment.key.startswith(f"{name}.")]
    return max(observers, key=len, default="")


def _unknown_key(
    assignment: Assignment, key: str, candidates: Sequence[str], known: Mapping[str, Sequence[str]], prefix: str
) -> TfsmError:
    close = get_close_matches(key, candidates, n=1, cutoff=0.6)
    hint = f", did you mean {'.'.join(filter(None, (prefix, close[0])))!r}?" if close else ""
    listing = "\n".join(f"  {owner}: {', '.join(keys) or 'none'}" for owner, keys in known.items())
    return TfsmError(f"--set {assignment.text}: unknown key {assignment.key!r}{hint}\nknown keys:\n{listing}")
