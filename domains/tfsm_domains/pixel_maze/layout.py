"""Read grid mazes from text files: the walls, and the hidden path from the start to the end."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from tfsm.errors import TfsmError

SHIPPED: Final = {name: Path(__file__).with_name(f"{name}.txt") for name in ("stairs", "short", "long")}
"""Built-in mazes by name."""
WALL, FREE, START, END, PATH = "#.SE+"
_MOST: Final = 101
"""Rows and columns."""


class Square(NamedTuple):
    """A position on the grid; rows count downwards, columns to the right."""

    row: int
    column: int


@dataclass(frozen=True)
class MazeLayout:
    """A closed grid maze with a hidden path through it."""

    rows: tuple[str, ...]
    """The drawing, one character per square."""
    start: Square
    end: Square
    path: frozenset[Square]
    """The squares to touch, including start and end."""
    source: str = ""

    @property
    def height(self) -> int:
        """The number of rows."""
        return len(self.rows)

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.rows[0])

    def free(self, square: Square) -> bool:
        """Return whether a square is free."""
        return self.rows[square.row][square.column] != WALL

    def squares(self) -> list[Square]:
        """Return all free squares, row by row."""
        every = (Square(row, column) for row in range(self.height) for column in range(self.width))
        return [square for square in every if self.free(square)]

    def neighbours(self, square: Square) -> list[Square]:
        """Return the free neighbours of a square: right, down, left, up."""
        row, column = square
        beside = (Square(row, column + 1), Square(row + 1, column), Square(row, column - 1), Square(row - 1, column))
        return [place for place in beside if self.free(place)]

    def route(self) -> tuple[Square, ...]:
        """Return a walk along the path, from the start, that touches all of it: always on to the nearest new square.

        It is the shortest such walk if the path has no branches; otherwise there may be a shorter one.
        """
        return _find_route(self)


def count_distinct_squares(route: Sequence[Square]) -> list[int]:
    """Return the number of distinct squares among the first 0, 1, 2, ... of a route."""
    return [len(set(route[:count])) for count in range(len(route) + 1)]


def read_layout(file: str | None, steps: int | None = None) -> MazeLayout:
    """Read a maze.

    Args:
        file: the path of a maze file or the name of a built-in maze. None, in records of runs from before mazes had
            names, is the maze of that time, `long`.
        steps: number of moves within which the maze must be solvable; None: no limit.
    """
    name = "long" if file is None else file
    path = SHIPPED.get(name) or Path(os.path.expanduser(name))
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else _unreadable(error)
        raise TfsmError(f"cannot read the maze {str(path)!r}: {reason}") from None
    layout = _parse_layout(text, str(path))
    needed = len(layout.route()) - 1
    if steps is not None and needed > steps:
        raise TfsmError(f"{path}: walking the whole path takes {needed} moves, but an episode has {steps}")
    return layout


def _unreadable(error: ValueError) -> str:
    # A path with a zero byte raises ValueError, too.
    return "not a UTF-8 text file" if isinstance(error, UnicodeDecodeError) else str(error)


@cache
def _parse_layout(text: str, source: str) -> MazeLayout:
    lines = text.rstrip().splitlines()
    while lines and not lines[0].strip():
        lines = lines[1:]
    rows = tuple(line.rstrip() for line in lines)
    if len(rows) < 3 or len(rows) > _MOST or any(len(row) > _MOST for row in rows):
        raise TfsmError(f"{source}: a maze must have 3 to {_MOST} rows and columns; this one has {len(rows)} rows")
    places: dict[str, list[Square]] = {mark: [] for mark in (WALL, FREE, START, END, PATH)}
    for number, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise TfsmError(
                f"{source}, line {number + 1}: a maze must be rectangular: the first line has {len(rows[0])} columns, "
                f"this one has {len(row)}"
            )
        for column, mark in enumerate(row):
            if mark not in places:
                raise TfsmError(
                    f"{source}, line {number + 1}, column {column + 1}: unknown character {mark!r}; "
                    "'#' is a wall, '.' free, '+' the hidden path, 'S' its start, 'E' its end"
                )
            places[mark].append(Square(number, column))
    for mark, name in ((START, "start"), (END, "end")):
        if len(places[mark]) != 1:
            raise TfsmError(f"{source}: a maze must have one {name}, {mark!r}; this one has {len(places[mark])}")
    (start,), (end,) = places[START], places[END]
    layout = MazeLayout(rows, start, end, frozenset([start, end, *places[PATH]]), source)
    _check_closed(layout)
    _check_connected(layout)
    return layout


def _check_closed(layout: MazeLayout) -> None:
    for square in layout.squares():
        if square.row in (0, layout.height - 1) or square.column in (0, layout.width - 1):
            raise TfsmError(
                f"{layout.source}, line {square.row + 1}, column {square.column + 1}: "
                "a maze must be closed: every square on its border must be a wall"
            )


def _check_connected(layout: MazeLayout) -> None:
    reached, queue = {layout.start}, deque([layout.start])
    while queue:
        for neighbour in layout.neighbours(queue.popleft()):
            if neighbour in layout.path and neighbour not in reached:
                reached.add(neighbour)
                queue.append(neighbour)
    missing = sorted(layout.path - reached)
    if missing:
        row, column = missing[0]
        raise TfsmError(
            f"{layout.source}, line {row + 1}, column {column + 1}: the path must be connected: "
            "this square cannot be reached from the start along the path"
        )


@cache
def _find_route(layout: MazeLayout) -> tuple[Square, ...]:
    route = [layout.start]
    while set(route) != layout.path:
        route += _path_to_nearest(layout, route[-1], set(route))
    return tuple(route)


def _path_to_nearest(layout: MazeLayout, start: Square, touched: set[Square]) -> list[Square]:
    before: dict[Square, Square | None] = {start: None}
    queue = deque([start])
    while queue:
        square = queue.popleft()
        if square not in touched:
            path = []
            while square != start:
                path.append(square)
                step = before[square]
                assert step is not None
                square = step
            return path[::-1]
        for neighbour in layout.neighbours(square):
            if neighbour in layout.path and neighbour not in before:
                before[neighbour] = square
                queue.append(neighbour)
    raise AssertionError("the path is connected, as checked before")
