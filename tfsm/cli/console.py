"""Where commands print: tables and text to stdout, what went wrong to stderr, JSON plainly."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import IO, TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rich.console import Console

_UNLIMITED: Final = 10_000


def out() -> Console:
    """Return a console on stdout."""
    return _console(sys.stdout)


def err() -> Console:
    """Return a console on stderr."""
    return _console(sys.stderr)


def say(message: str) -> None:
    """Print a message to stderr as it is, neither wrapped nor styled."""
    print(message, file=sys.stderr)


def print_json(value: object) -> None:
    """Print a value as JSON; dataclasses become objects, and numbers that JSON does not have become null."""
    print(json.dumps(_plain(value), indent=2))


def _console(file: IO[str]) -> Console:
    from rich.console import Console

    # A pipe has no width: whoever reads it wants one line a row.
    width = None if file.isatty() else _UNLIMITED
    return Console(file=file, width=width, highlight=False, markup=False, emoji=False)


def _plain(value: object) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)
