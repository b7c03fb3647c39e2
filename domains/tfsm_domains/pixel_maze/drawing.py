"""Draw the pixel mazes: the map with the agents, and next to it what a single agent sees."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from tfsm.render.canvas import INK, PAPER, Canvas, Color
from tfsm_domains.pixel_maze.layout import MazeLayout, Square

PATH: Final[Color] = (235, 225, 180)
TOUCHED: Final[Color] = (160, 205, 165)
AGENT: Final[Color] = (0, 90, 170)
GOAL: Final[Color] = (213, 94, 0)
SOLVES: Final[Color] = (0, 140, 110)
FAILS: Final[Color] = (190, 120, 150)


@dataclass(frozen=True)
class PixelFilm:
    """A film of agents in a maze. The first one is followed; of the others only the trails are drawn.

    The view of the first one is next to the map, unless there are others.
    """

    layout: MazeLayout
    trails: np.ndarray
    """`[B, steps + 1, 2 or 3]`: x and y in squares, and the heading in radians if agents have one."""
    pictures: np.ndarray
    """`[steps + 1, 64, 64]`, uint8: the view of the first agent."""
    rate: float

    @cached_property
    def _empty(self) -> Canvas:
        return draw_layout(self.layout)

    def __len__(self) -> int:
        """Return the number of frames, one per position."""
        return self.trails.shape[1]

    def frame(self, index: int) -> np.ndarray:
        """Draw one frame."""
        canvas = self._draw_map(index)
        canvas.caption(f"step {index}: {self._count(0, index)} of {len(self.layout.path)} squares")
        return self._add_view(canvas.image(), index)

    def still(self) -> np.ndarray:
        """Draw the complete trail."""
        last = len(self) - 1
        canvas = self._draw_map(last)
        words = f"{self._count(0, last)} of {len(self.layout.path)} squares"
        if len(self.trails) > 1:
            solving = sum(self._count(i, last) == len(self.layout.path) for i in range(1, len(self.trails)))
            words = f"{solving} of {len(self.trails) - 1} mutants touch all"
        canvas.caption(words)
        return self._add_view(canvas.image(), last)

    def _draw_map(self, index: int) -> Canvas:
        canvas = self._empty.copy()
        for square in self._touched(0, index):
            _fill(canvas, square, TOUCHED)
        last = len(self) - 1
        for i in range(1, len(self.trails)):
            colour = SOLVES if self._count(i, last) == len(self.layout.path) else FAILS
            shift = 0.3 * (i / len(self.trails) - 0.5)  # next to each other where trails coincide
            canvas.line(self.trails[i, : index + 1, :2] + shift, colour, 0.04)
        canvas.line(self.trails[0, : index + 1, :2], AGENT, 0.08)
        x, y = self.trails[0, index, :2]
        canvas.circle((x, y), 0.28, AGENT)
        if self.trails.shape[-1] == 3:
            heading = self.trails[0, index, 2]
            canvas.line([(x, y), (x + 0.28 * math.cos(heading), y + 0.28 * math.sin(heading))], PAPER, 0.08)
        return canvas

    def _touched(self, agent: int, index: int) -> set[Square]:
        places = np.floor(self.trails[agent, : index + 1, :2]).astype(int).tolist()
        return {Square(y, x) for x, y in places} & self.layout.path

    def _count(self, agent: int, index: int) -> int:
        return len(self._touched(agent, index))

    def _add_view(self, image: np.ndarray, index: int) -> np.ndarray:
        """Put the agent's view next to the map, enlarged by an integer factor; not next to a map of several agents."""
        if len(self.trails) > 1:
            return image
        height = image.shape[0]
        times = max(1, (height - 40) // self.pictures.shape[1])
        seen = np.kron(self.pictures[index], np.ones([times, times], np.uint8))
        side = np.full([height, seen.shape[1] + 20 + seen.shape[1] % 2, 3], PAPER, np.uint8)
        top = (height - seen.shape[0]) // 2
        side[top - 2 : top + seen.shape[0] + 2, 8 : 12 + seen.shape[1]] = INK
        side[top : top + seen.shape[0], 10 : 10 + seen.shape[1]] = seen[..., None]
        return np.concatenate([image, side], axis=1)


def draw_layout(layout: MazeLayout) -> Canvas:
    """Return a canvas in units of squares, with the maze and its hidden path."""
    canvas = Canvas((0.0, 0.0), (layout.width, layout.height))
    for row in range(layout.height):
        for column in range(layout.width):
            square = Square(row, column)
            if not layout.free(square):
                _fill(canvas, square, INK)
            elif square in layout.path:
                _fill(canvas, square, PATH)
    canvas.circle(_middle(layout.start), 0.38, AGENT, width=0.06)
    canvas.circle(_middle(layout.end), 0.38, GOAL, width=0.06)
    return canvas


def draw_endpoints(layout: MazeLayout, evaluations: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Draw the final positions of populations `[T, N, 2]`, jittered within their squares; later ones are darker."""
    canvas = draw_layout(layout)
    canvas.populations(evaluations, places + np.random.default_rng(0).uniform(-0.3, 0.3, places.shape), 0.05)
    return canvas.image()


def _fill(canvas: Canvas, square: Square, colour: Color) -> None:
    canvas.rectangle((square.column, square.row), (square.column + 1, square.row + 1), colour)


def _middle(square: Square) -> tuple[float, float]:
    return square.column + 0.5, square.row + 0.5
