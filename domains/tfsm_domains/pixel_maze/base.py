"""The base class of both pixel mazes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from tfsm.interfaces import Evaluation, Tensor
from tfsm_domains.pixel_maze.drawing import draw_endpoints
from tfsm_domains.pixel_maze.layout import SHIPPED, MazeLayout


@dataclass(frozen=True, init=False)
class PixelMaze:
    """Walk along a hidden path. Fitness is the number of its squares touched; solved means all of them.

    The options are a separate object because one of them, `network`, has the name of a method.
    """

    compiled: ClassVar[bool] = True
    behavior_names: ClassVar[tuple[str, ...]] = ("x", "y")
    performance_name: ClassVar[str] = "squares touched"

    options: Any
    layout: MazeLayout = field(repr=False, compare=False)

    def _set(self, **values: Any) -> None:
        """Set the fields of a frozen dataclass in its `__init__`."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def behavior_bounds(self) -> tuple[tuple[float, float], ...]:
        """The whole map."""
        return (0.0, float(self.layout.width)), (0.0, float(self.layout.height))

    def files(self) -> dict[str, Path]:
        """Return the maze file, unless it is a built-in one."""
        maze = self.options.maze
        return {} if maze is None or maze in SHIPPED else {"maze": Path(self.layout.source)}

    def performance(self, evaluation: Evaluation) -> Tensor:
        """Return the number of squares of the path that were touched."""
        return evaluation.fitness

    def picture(self, evaluations: np.ndarray, behavior: np.ndarray) -> np.ndarray:
        """Draw the final positions of populations."""
        return draw_endpoints(self.layout, evaluations, behavior)
