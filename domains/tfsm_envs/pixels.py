"""What the two pixel mazes have in common as environments."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np

from tfsm.contracts import Film
from tfsm.errors import TfsmError
from tfsm.options import validate
from tfsm_envs.worlds import Moment, World
from tfsm_pixelmaze.drawing import PixelFilm
from tfsm_pixelmaze.layout import Layout
from tfsm_pixelmaze.networks import SIZE

ACTIONS = 5


class PixelWorld(World):
    """A pixel maze: pictures are seen, and a point is worth a square of the path."""

    layout: Layout

    @property
    def threshold(self) -> float:
        """All squares but the one to start from."""
        return float(len(self.layout.path) - 1)

    def observations(self) -> gymnasium.spaces.Box:
        """Return the space of pictures."""
        return gymnasium.spaces.Box(0, 255, (SIZE, SIZE, 1), np.uint8)

    def actions(self) -> gymnasium.spaces.Discrete[Any]:
        """Return the space of what can be done."""
        return gymnasium.spaces.Discrete(ACTIONS)

    def idle(self, count: int) -> np.ndarray:
        """Return actions that do nothing."""
        return np.full([count], ACTIONS - 1, np.int32)

    def checked(self, actions: Any, count: int) -> np.ndarray:
        """Return actions as numbers."""
        given = np.asarray(actions)
        if given.shape != (count,) or given.dtype.kind not in "iu" or given.min() < 0 or given.max() >= ACTIONS:
            raise TfsmError(f"an action is a whole number from 0 to {ACTIONS - 1}, got {actions!r}")
        return given.astype(np.int32)

    def info(self, moment: Moment) -> dict[str, np.ndarray]:
        """Tell where agents are, and how many squares count as touched."""
        place = self.poses(moment)[:, -1, :2]
        return {"position": place, "squares": moment.score.astype(np.int64), "solved": moment.solved}

    def film(self, trail: np.ndarray, seen: np.ndarray) -> Film:
        """Return what a replay shows: the map, and beside it what is seen."""
        return PixelFilm(self.layout, trail, seen[..., 0], self.rate)


def checked_options(name: str, options: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a maze, or say what is wrong with them."""
    maze = given["maze"]
    plain = {**given, "maze": None if maze is None else os.fspath(maze)}
    validate(options, plain, where=name)
    return plain
