"""Read maze files. Error messages name the file and the line."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from tfsm.errors import TfsmError, suggestion

_TOKEN = re.compile(
    r"""(?P<string>\"{3}.*?\"{3}|'{3}.*?'{3}|"(?:\\.|[^"\\\n])*"|'[^'\n]*')|(?P<comment>\#[^\n]*)"""
    r"""|(?P<key>^[ \t]*[\w.-]+(?=[ \t]*=))|(?P<bracket>[\[\]])|(?P<newline>\n)""",
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)


def locate_lines(text: str) -> dict[tuple[str | int, ...], int]:
    """Return the line of each top-level key, `(key,)`, and of each array nested in its value, `(key, i)`."""
    return dict(_iter_lines(text))


def _iter_lines(text: str) -> Iterator[tuple[tuple[str | int, ...], int]]:
    line, depth, key, count = 1, 0, "", 0
    for token in _TOKEN.finditer(text):
        if token.lastgroup == "key" and depth == 0:
            key, count = token.group().strip(), 0
            yield (key,), line
        elif token.lastgroup == "bracket" and token.group() == "[":
            depth += 1
            if depth == 2 and key:
                yield (key, count), line
                count += 1
        elif token.lastgroup == "bracket":
            depth -= 1
        line += token.group().count("\n")


PAPER: Final = Path(__file__).with_name("hard-maze.toml")

Point = tuple[float, float]
Wall = tuple[float, float, float, float]
"""x1, y1, x2, y2"""

_REQUIRED: Final = ("walls", "start", "goal")
_OPTIONAL: Final = ("name", "steps", "radius", "heading", "reach")
_MOST: Final = {"walls": 1_000, "steps": 100_000}


@dataclass(frozen=True, kw_only=True)
class Maze:
    """A maze: its walls, the robot's radius and start, and the goal."""

    walls: tuple[Wall, ...]
    start: Point
    goal: Point
    name: str = "maze"
    heading: float = 0.0
    """Degrees, from the x axis towards the y axis."""
    steps: int = 400
    radius: float = 8.0
    reach: float = 10.0
    """Distance from the goal that counts as reached."""
    source: str = field(default="", compare=False)
    lines: Mapping[tuple[str | int, ...], int] = field(default_factory=dict, compare=False, repr=False)
    """The line of each value in the source file."""

    def error(self, where: tuple[str | int, ...], message: str) -> TfsmError:
        """Return an error that names the file and the line."""
        return _error(self.source, self.lines, where, message)


def read_maze(path: str | None = None) -> Maze:
    """Read a maze file; None: the paper's maze. Only the file format is checked here, geometry in `breadcrumb`."""
    file = PAPER if path is None else Path(os.path.expanduser(path))
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else _unreadable(error)
        raise TfsmError(f"cannot read the maze {str(file)!r}: {reason}") from None
    return _parse_maze(text, str(file))


def _unreadable(error: ValueError) -> str:
    # A path with a zero byte raises ValueError, too.
    return "not a UTF-8 text file" if isinstance(error, UnicodeDecodeError) else str(error)


@cache
def _parse_maze(text: str, source: str) -> Maze:
    try:
        table = tomllib.loads(text)
    # ValueError: syntax errors, and integers with thousands of digits; RecursionError: deeply nested brackets
    except (ValueError, RecursionError) as error:
        raise TfsmError(f"{source}: {error}") from None
    lines = locate_lines(text)
    known = (*_REQUIRED, *_OPTIONAL)
    for key in table:
        if key not in known:
            raise _error(source, lines, (key,), f"unknown key {key!r}{suggestion(key, known)}")
    for key in _REQUIRED:
        if key not in table:
            raise TfsmError(f"{source}: {key!r} is missing; a maze needs {', '.join(_REQUIRED)}")
    values = {key: _check_value(table[key], key, source, lines) for key in table}
    return Maze(**values, source=source, lines=lines)


def _check_value(value: Any, key: str, source: str, lines: Mapping[tuple[str | int, ...], int]) -> Any:
    def value_error(expected: str, *index: int) -> TfsmError:
        shown = value[index[0]] if index else value
        return _error(source, lines, (key, *index), f"{_noun(key, *index)} must be {expected}, got {_short(shown)}")

    if key == "name":
        if not isinstance(value, str) or not value.strip():
            raise value_error("a string that is not empty")
        return value
    if key == "steps":
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _MOST["steps"]:
            raise value_error(f"an integer from 1 to {_MOST['steps']:,}")
        return value
    if key in ("radius", "reach", "heading"):
        if not _numbers([value], 1) or (key != "heading" and not value > 0):
            raise value_error("a number" if key == "heading" else "a number above 0")
        return float(value)
    if key in ("start", "goal"):
        if not _numbers(value, 2):
            raise value_error("two numbers, [x, y]")
        return tuple(map(float, value))
    if not isinstance(value, list) or not 1 <= len(value) <= _MOST["walls"]:
        raise value_error(f"a list of 1 to {_MOST['walls']:,} walls, [[x1, y1, x2, y2], ...]")
    for i, wall in enumerate(value):
        if not _numbers(wall, 4):
            raise value_error("four numbers, [x1, y1, x2, y2]", i)
        if wall[:2] == wall[2:]:
            raise value_error("longer than zero", i)
    return tuple(tuple(map(float, wall)) for wall in value)


def _numbers(value: Any, count: int) -> bool:
    return (
        isinstance(value, list)
        and len(value) == count
        # Beyond a million, 32-bit sensor arithmetic would be too coarse.
        and all(type(x) in (int, float) and abs(x) <= 1e6 for x in value)
    )


def _noun(key: str, *index: int) -> str:
    return f"wall {index[0] + 1}" if index else key


def _short(value: Any) -> str:
    try:
        shown = repr(value)
    except ValueError:  # Python reads hexadecimal integers of any length, but limits the conversion to decimal
        return "a number with thousands of digits"
    return shown if len(shown) <= 60 else shown[:57] + "..."


def _error(
    source: str, lines: Mapping[tuple[str | int, ...], int], where: tuple[str | int, ...], message: str
) -> TfsmError:
    line = lines.get(where) or lines.get(where[:1])
    return TfsmError(f"{source}, line {line}: {message}" if line else f"{source}: {message}")
