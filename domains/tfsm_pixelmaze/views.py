"""What is seen from above: the nine squares around, as pixels; few of these views are distinct."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from tfsm_pixelmaze.layout import Layout, Square, points

BLOCK: Final = 21
"""Pixels of a square."""
SIZE: Final = 64
"""Three squares, and one row and column more, which stay black."""

MOVES: Final = ((-1, 0), (0, 1), (1, 0), (0, -1), (0, 0))
"""Rows and columns of the five actions: up, right, down, left, none."""


@dataclass(frozen=True)
class Ground:
    """A maze in numbers: free squares are counted row by row."""

    squares: tuple[Square, ...]
    view: np.ndarray
    """`[S]`, which view each square has."""
    views: np.ndarray
    """`[V, 64, 64]`: free is 1, a wall 0."""
    after: np.ndarray
    """`[S, 5]`, the square in which each action ends; a move into a wall does nothing."""
    on_path: np.ndarray
    """`[S]`, whether a square is on the hidden path."""
    start: int
    walk: np.ndarray
    """The squares of the path, in its order."""
    points: np.ndarray
    """What the first 0, 1, 2, ... of these are worth."""

    @property
    def goals(self) -> int:
        """How many squares there are to touch."""
        return int(self.on_path.sum())

    @cached_property
    def middles(self) -> np.ndarray:
        """`[S, 2]`, x and y of the squares' middles."""
        return np.array([(square.column + 0.5, square.row + 0.5) for square in self.squares])


def ground_of(layout: Layout) -> Ground:
    """Number a maze's free squares, and find its distinct views."""
    squares = tuple(layout.squares())
    number = {square: i for i, square in enumerate(squares)}
    patterns = np.array([_around(layout, square) for square in squares])  # [S, 3, 3]
    distinct, view = np.unique(patterns.reshape(len(squares), 9), axis=0, return_inverse=True)
    after = [
        [number.get(Square(square.row + down, square.column + right), i) for down, right in MOVES]
        for i, square in enumerate(squares)
    ]
    return Ground(
        squares,
        view.reshape(-1).astype(np.int32),
        np.stack([_drawn(pattern.reshape(3, 3)) for pattern in distinct]),
        np.array(after, np.int32),
        np.array([square in layout.path for square in squares]),
        number[layout.start],
        np.array([number[square] for square in layout.walk()], np.int32),
        np.array(points(layout.walk()), np.int32),
    )


def _around(layout: Layout, square: Square) -> np.ndarray:
    near = range(-1, 2)
    return np.array([[layout.free(Square(square.row + r, square.column + c)) for c in near] for r in near])


def _drawn(pattern: np.ndarray) -> np.ndarray:
    picture = np.zeros([SIZE, SIZE], np.float32)
    picture[: 3 * BLOCK, : 3 * BLOCK] = np.kron(pattern, np.ones([BLOCK, BLOCK]))
    return picture
