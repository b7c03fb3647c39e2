"""A grid maze as its text file tells it: walls, and the hidden path from the start to the end."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from tfsm.errors import TfsmError

DEFAULT: Final = Path(__file__).with_name("maze.txt")
SHIPPED: Final = {"short": Path(__file__).with_name("short.txt")}
"""Mazes that go by a name."""
WALL, FREE, START, END, PATH = "#.SE+"
_MOST: Final = 101
"""Rows and columns."""


class Square(NamedTuple):
    """A place on the grid: rows count downwards, columns to the right."""

    row: int
    column: int


@dataclass(frozen=True)
class Layout:
    """A closed grid maze with a hidden path through it."""

    rows: tuple[str, ...]
    """The drawing, a character a square."""
    start: Square
    end: Square
    path: frozenset[Square]
    """The squares to touch, start and end among them."""
    source: str = ""

    @property
    def height(self) -> int:
        """How many rows."""
        return len(self.rows)

    @property
    def width(self) -> int:
        """How many columns."""
        return len(self.rows[0])

    def free(self, square: Square) -> bool:
        """Whether one can be there."""
        return self.rows[square.row][square.column] != WALL

    def squares(self) -> list[Square]:
        """Return all free squares, row by row."""
        every = (Square(row, column) for row in range(self.height) for column in range(self.width))
        return [square for square in every if self.free(square)]

    def neighbours(self, square: Square) -> list[Square]:
        """Return the free squares beside one: right, down, left, up."""
        row, column = square
        beside = (Square(row, column + 1), Square(row + 1, column), Square(row, column - 1), Square(row - 1, column))
        return [place for place in beside if self.free(place)]

    def route(self) -> tuple[Square, ...]:
        """Return a walk from the start, on the path, that touches all of it: always on to the nearest new square.

        There is no shorter one where the path is a line; where it has branches, there may be.
        """
        return _find_route(self)


def count_distinct_squares(walk: Sequence[Square]) -> list[int]:
    """Return how many different squares there are among the first 0, 1, 2, ... of a walk."""
    return [len(set(walk[:count])) for count in range(len(walk) + 1)]


def read_layout(file: str | None, steps: int | None = None) -> Layout:
    """Read a maze file, or a maze by its name; None: the default maze.

    Args:
        file: where it is.
        steps: moves within which it has to be solvable, if that matters.
    """
    path = DEFAULT if file is None else SHIPPED.get(file) or Path(os.path.expanduser(file))
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else _unreadable(error)
        raise TfsmError(f"cannot read the maze {str(path)!r}: {reason}") from None
    layout = _parse_layout(text, str(path))
    needed = len(layout.route()) - 1
    if steps is not None and needed > steps:
        raise TfsmError(f"{path}: walking the whole path takes {needed} moves, and an episode has {steps}")
    return layout


def _unreadable(error: ValueError) -> str:
    # Python's word for a name with a zero byte in it is ValueError, too.
    return "not a UTF-8 text file" if isinstance(error, UnicodeDecodeError) else str(error)


@cache
def _parse_layout(text: str, source: str) -> Layout:
    lines = text.rstrip().splitlines()
    while lines and not lines[0].strip():
        lines = lines[1:]
    rows = tuple(line.rstrip() for line in lines)
    if len(rows) < 3 or len(rows) > _MOST or any(len(row) > _MOST for row in rows):
        raise TfsmError(f"{source}: a maze has 3 to {_MOST} rows and columns, this one has {len(rows)} rows")
    places: dict[str, list[Square]] = {mark: [] for mark in (WALL, FREE, START, END, PATH)}
    for number, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise TfsmError(
                f"{source}, line {number + 1}: a maze is rectangular: {len(rows[0])} columns in its first line, "
                f"{len(row)} here"
            )
        for column, mark in enumerate(row):
            if mark not in places:
                raise TfsmError(
                    f"{source}, line {number + 1}, column {column + 1}: {mark!r} means nothing in a maze; "
                    "'#' is a wall, '.' free, '+' the hidden path, 'S' its start, 'E' its end"
                )
            places[mark].append(Square(number, column))
    for mark, name in ((START, "start"), (END, "end")):
        if len(places[mark]) != 1:
            raise TfsmError(f"{source}: a maze has one {name}, {mark!r}; this one has {len(places[mark])}")
    (start,), (end,) = places[START], places[END]
    layout = Layout(rows, start, end, frozenset([start, end, *places[PATH]]), source)
    _check_closed(layout)
    _check_connected(layout)
    return layout


def _check_closed(layout: Layout) -> None:
    for square in layout.squares():
        if square.row in (0, layout.height - 1) or square.column in (0, layout.width - 1):
            raise TfsmError(
                f"{layout.source}, line {square.row + 1}, column {square.column + 1}: "
                "a maze is closed: every square of its border is a wall"
            )


def _check_connected(layout: Layout) -> None:
    found, waiting = {layout.start}, deque([layout.start])
    while waiting:
        for beside in layout.neighbours(waiting.popleft()):
            if beside in layout.path and beside not in found:
                found.add(beside)
                waiting.append(beside)
    missing = sorted(layout.path - found)
    if missing:
        row, column = missing[0]
        raise TfsmError(
            f"{layout.source}, line {row + 1}, column {column + 1}: the path is connected: "
            "from its start every square of it is reached along the path, but not this one"
        )


@cache
def _find_route(layout: Layout) -> tuple[Square, ...]:
    walk = [layout.start]
    while set(walk) != layout.path:
        walk += _nearest(layout, walk[-1], set(walk))
    return tuple(walk)


def _nearest(layout: Layout, start: Square, touched: set[Square]) -> list[Square]:
    before: dict[Square, Square | None] = {start: None}
    waiting = deque([start])
    while waiting:
        here = waiting.popleft()
        if here not in touched:
            way = []
            while here != start:
                way.append(here)
                step = before[here]
                assert step is not None
                here = step
            return way[::-1]
        for beside in layout.neighbours(here):
            if beside in layout.path and beside not in before:
                before[beside] = here
                waiting.append(beside)
    raise AssertionError("the path was checked to be connected")
