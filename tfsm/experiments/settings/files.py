"""Which configuration files there are, and what is written in them."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Final

from tfsm.errors import TfsmError

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
