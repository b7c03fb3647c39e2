"""Draw the hard maze: walls, robots, sensors and trails, with pygame and without a display."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from tfsm.render.canvas import INK, PAPER, Canvas, Color
from tfsm_domains.hard_maze.maze import Maze

GOAL: Final[Color] = (213, 94, 0)
START: Final[Color] = (150, 150, 158)
ROBOT: Final[Color] = (0, 90, 170)
BEAM: Final[Color] = (120, 170, 215)
ARRIVES: Final[Color] = (0, 140, 110)
FAILS: Final[Color] = (190, 120, 150)


def draw_maze(maze: Maze) -> Canvas:
    """Return a canvas in the maze's units, with the walls, the start and the goal."""
    ends = np.reshape(maze.walls, [-1, 2])
    canvas = Canvas(ends.min(axis=0), ends.max(axis=0))
    canvas.circle(maze.start, maze.radius, START, width=1.0)
    canvas.circle(maze.goal, maze.reach / 2.0, GOAL)
    for x1, y1, x2, y2 in maze.walls:
        canvas.line([(x1, y1), (x2, y2)], INK, 1.6)
    return canvas


@dataclass(frozen=True)
class MazeFilm:
    """A film of robots in a maze. The first one is followed; of the others only the trails are drawn."""

    maze: Maze
    trails: np.ndarray
    """`[B, steps + 1, 3]`: x, y and heading."""
    sensors: np.ndarray
    """`[steps + 1, 11]`: the sensor readings of the first robot."""
    arrives: np.ndarray
    """`[B]`, whether each robot reached the goal."""
    lengths: np.ndarray
    """`[B]`, the path length left at the end."""
    angles: tuple[float, ...]
    range: float
    rate: float = 40.0

    @cached_property
    def _empty(self) -> Canvas:
        return draw_maze(self.maze)

    def __len__(self) -> int:
        """Return the number of frames, one per pose."""
        return self.trails.shape[1]

    def frame(self, index: int) -> np.ndarray:
        """Draw one frame."""
        canvas = self._background(index)
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
        canvas.caption(f"step {index}")
        return canvas.image()

    def still(self) -> np.ndarray:
        """Draw the complete trail."""
        canvas = self._background(len(self) - 1)
        canvas.line(self.trails[0, :, :2], ROBOT, 1.2)
        canvas.circle(self.trails[0, -1, :2], self.maze.radius, ROBOT)
        if len(self.trails) > 1:
            others = self.arrives[1:]
            canvas.caption(f"{int(others.sum())} of {len(others)} mutants arrive")
        else:
            result = "arrives" if self.arrives[0] else f"{self.lengths[0]:.0f} from the goal"
            canvas.caption(result)
        return canvas.image()

    def _background(self, index: int) -> Canvas:
        canvas = self._empty.copy()
        # Robots that arrive are drawn last, on top of the others.
        for i in sorted(range(1, len(self.trails)), key=lambda i: bool(self.arrives[i])):
            colour = ARRIVES if self.arrives[i] else FAILS
            canvas.line(self.trails[i, : index + 1 : 2, :2], colour, 0.7)
            canvas.circle(self.trails[i, index, :2], 1.8, colour)
        return canvas


def draw_endpoints(maze: Maze, evaluations: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Draw the final positions of populations `[T, N, 2]`; later ones are darker."""
    canvas = draw_maze(maze)
    canvas.populations(evaluations, positions, 1.1)
    return canvas.image()
