"""Pictures of the hard maze: walls, robot, sensors and trails, drawn by pygame without a display."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from tfsm.extras import optional
from tfsm_hardmaze.maze import Maze

Colour = tuple[int, int, int]
Points = np.ndarray
"""`[N, 2]`"""

PAPER: Final[Colour] = (252, 252, 250)
WALL: Final[Colour] = (38, 38, 46)
GOAL: Final[Colour] = (213, 94, 0)
START: Final[Colour] = (150, 150, 158)
ROBOT: Final[Colour] = (0, 90, 170)
BEAM: Final[Colour] = (120, 170, 215)
ARRIVES: Final[Colour] = (0, 140, 110)
FAILS: Final[Colour] = (190, 120, 150)
EARLY: Final[Colour] = (250, 200, 90)
LATE: Final[Colour] = (60, 20, 110)
SHARP: Final = 3
"""Drawn so many times too large, then made smaller: smooth edges."""


class Canvas:
    """A picture of a maze, to draw on in the maze's own units.

    Args:
        maze: the maze.
        size: pixels of the longer side.
    """

    def __init__(self, maze: Maze, size: int = 480) -> None:
        self._pygame = optional("pygame", extra="replay", purpose="drawing")
        ends = np.reshape(maze.walls, [-1, 2])
        longest = float(np.ptp(ends, axis=0).max())
        # Room for words above the walls.
        margin, self._line = 0.02 * longest, 0.06 * longest
        self._low = ends.min(axis=0) - margin - [0.0, self._line]
        extent = ends.max(axis=0) + margin - self._low
        self._scale = size * SHARP / extent.max()
        # Even numbers of pixels: most video formats insist.
        self._size = np.maximum(2, 2 * np.round(extent * self._scale / SHARP / 2)).astype(int)
        self._surface = self._pygame.Surface(tuple((self._size * SHARP).tolist()))
        self._surface.fill(PAPER)
        self.circle(maze.start, maze.radius, START, width=1.0)
        self.circle(maze.goal, maze.reach / 2.0, GOAL)
        for x1, y1, x2, y2 in maze.walls:
            self.line([(x1, y1), (x2, y2)], WALL, 1.6)

    def copy(self) -> Canvas:
        """Return another like it, to draw on without changing this one."""
        twin = object.__new__(Canvas)
        twin.__dict__ = {**self.__dict__, "_surface": self._surface.copy()}
        return twin

    def line(self, points: Sequence[Sequence[float]] | Points, colour: Colour, width: float) -> None:
        """Draw a line through points, with round joints."""
        places, thick = self._pixels(points), max(1, round(width * self._scale))
        if len(places) > 1:
            self._pygame.draw.lines(self._surface, colour, False, places, thick)
        for place in places:
            self._pygame.draw.circle(self._surface, colour, place, thick / 2)

    def circle(self, centre: Sequence[float] | Points, radius: float, colour: Colour, *, width: float = 0.0) -> None:
        """Draw a disc, or a ring of some width."""
        thick = max(1, round(width * self._scale)) if width else 0
        self._pygame.draw.circle(self._surface, colour, self._pixels([centre])[0], radius * self._scale, thick)

    def dots(self, points: Points, colour: Colour, radius: float, alpha: int) -> None:
        """Draw many translucent dots."""
        layer = self._pygame.Surface(self._surface.get_size(), self._pygame.SRCALPHA)
        for place in self._pixels(points):
            self._pygame.draw.circle(layer, (*colour, alpha), place, radius * self._scale)
        self._surface.blit(layer, (0, 0))

    def words(self, words: str) -> None:
        """Write above the walls."""
        self._pygame.font.init()
        font = self._pygame.font.Font(None, round(0.9 * self._line * self._scale))
        self._surface.blit(font.render(words, True, WALL), (self._line * self._scale / 2, self._line * self._scale / 4))

    def image(self) -> np.ndarray:
        """Return the picture: `[height, width, 3]`, bytes."""
        small = self._pygame.transform.smoothscale(self._surface, tuple(self._size.tolist()))
        return np.ascontiguousarray(self._pygame.surfarray.array3d(small).swapaxes(0, 1))

    def _pixels(self, points: Any) -> list[tuple[float, float]]:
        return [tuple(p) for p in ((np.asarray(points, float) - self._low) * self._scale).tolist()]


@dataclass(frozen=True)
class MazeFilm:
    """Robots in a maze; the first is followed, of the others only the trails are drawn."""

    maze: Maze
    trails: np.ndarray
    """`[B, steps + 1, 3]`: x, y and heading."""
    sensors: np.ndarray
    """`[steps + 1, 11]`: what the first robot senses."""
    arrives: np.ndarray
    """`[B]`, whether each was ever there."""
    lengths: np.ndarray
    """`[B]`, how far it is to the goal from where each ends."""
    angles: tuple[float, ...]
    range: float
    rate: float = 40.0

    @cached_property
    def _empty(self) -> Canvas:
        return Canvas(self.maze)

    def __len__(self) -> int:
        """Return one frame for each pose."""
        return self.trails.shape[1]

    def frame(self, index: int) -> np.ndarray:
        """Draw one moment."""
        canvas = self._ground(index)
        x, y, heading = self.trails[0, index]
        canvas.line(self.trails[0, : index + 1, :2], ROBOT, 0.9)
        for angle, reading in zip(self.angles, self.sensors[index, 1:7], strict=True):
            direction = math.radians(heading + angle)
            end = (x + reading * self.range * math.cos(direction), y + reading * self.range * math.sin(direction))
            canvas.line([(x, y), end], BEAM, 0.5)
            if reading < 1.0:
                canvas.circle(end, 1.4, BEAM)
        canvas.circle((x, y), self.maze.radius, ROBOT)
        nose = (
            x + self.maze.radius * math.cos(math.radians(heading)),
            y + self.maze.radius * math.sin(math.radians(heading)),
        )
        canvas.line([(x, y), nose], PAPER, 1.2)
        canvas.words(f"step {index}")
        return canvas.image()

    def still(self) -> np.ndarray:
        """Draw the whole trail."""
        canvas = self._ground(len(self) - 1)
        canvas.line(self.trails[0, :, :2], ROBOT, 1.2)
        canvas.circle(self.trails[0, -1, :2], self.maze.radius, ROBOT)
        if len(self.trails) > 1:
            others = self.arrives[1:]
            canvas.words(f"{int(others.sum())} of {len(others)} mutants arrive")
        else:
            there = "arrives" if self.arrives[0] else f"{self.lengths[0]:.0f} from the goal"
            canvas.words(there)
        return canvas.image()

    def _ground(self, index: int) -> Canvas:
        canvas = self._empty.copy()
        # Who does not arrive is drawn first: the others are what one looks for.
        for i in sorted(range(1, len(self.trails)), key=lambda i: bool(self.arrives[i])):
            colour = ARRIVES if self.arrives[i] else FAILS
            canvas.line(self.trails[i, : index + 1 : 2, :2], colour, 0.7)
            canvas.circle(self.trails[i, index, :2], 1.8, colour)
        return canvas


def endpoints(maze: Maze, evaluations: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Draw where populations `[T, N, 2]` ended, the later the darker."""
    canvas = Canvas(maze)
    for shade, population in zip(np.linspace(0.0, 1.0, len(evaluations)), places, strict=True):
        red, green, blue = ((1 - shade) * np.array(EARLY) + shade * np.array(LATE)).round().astype(int).tolist()
        canvas.dots(population, (red, green, blue), 1.1, 110)
    canvas.words(f"{int(evaluations[0]):,} (light) to {int(evaluations[-1]):,} evaluations (dark)")
    return canvas.image()
