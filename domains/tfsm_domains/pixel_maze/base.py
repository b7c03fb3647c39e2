"""What both mazes have in common."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from tfsm.interfaces import Evaluation, Tensor
from tfsm_domains.pixel_maze.drawing import draw_endpoints
from tfsm_domains.pixel_maze.layout import SHIPPED, Layout


@dataclass(frozen=True, init=False)
class PixelMaze:
    """Walk along a path that is not seen; fitness is how many of its squares were touched, solved is all of them.

    Options are kept apart from the domain because one of them has a method's name, `network`.
    """

    compiled: ClassVar[bool] = True
    behavior_names: ClassVar[tuple[str, ...]] = ("x", "y")
    performance_name: ClassVar[str] = "squares touched"

    options: Any
    layout: Layout = field(repr=False, compare=False)

    def _set(self, **values: Any) -> None:
        """Set fields, once: a frozen dataclass forbids it later."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def behavior_bounds(self) -> tuple[tuple[float, float], ...]:
        """The whole map."""
        return (0.0, float(self.layout.width)), (0.0, float(self.layout.height))

    def files(self) -> dict[str, Path]:
        """Return the maze file, if it is the user's own."""
        maze = self.options.maze
        return {} if maze is None or maze in SHIPPED else {"maze": Path(self.layout.source)}

    def performance(self, evaluation: Evaluation) -> Tensor:
        """Return how many of the path's squares were touched."""
        return evaluation.fitness

    def picture(self, evaluations: np.ndarray, behavior: np.ndarray) -> np.ndarray:
        """Draw where populations ended."""
        return draw_endpoints(self.layout, evaluations, behavior)
