"""The topdown maze as an environment."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from tfsm.contracts import Tensor
from tfsm_envs.many import MazeVectorEnv
from tfsm_envs.pixels import PixelWorld, checked_options
from tfsm_envs.single import MazeEnv, drawn_at
from tfsm_envs.worlds import Moment, Sight
from tfsm_pixelmaze.layout import Layout
from tfsm_pixelmaze.options import Scoring, TopdownOptions
from tfsm_pixelmaze.topdown import RATE, Agents, TopdownMaze

NAME = "tfsm/TopdownMaze-v0"


@dataclass(frozen=True)
class TopdownWorld(PixelWorld):
    """The maze; its layout belongs to what makes two of them equal, because a file may change."""

    maze: TopdownMaze
    layout: Layout
    hold: int = 1

    @property
    def limit(self) -> int:
        """Moves of an episode."""
        return self.maze.options.steps

    @property
    def frames(self) -> int:
        """A frame a move."""
        return self.limit

    @property
    def rate(self) -> float:
        """As in a replay."""
        return RATE

    def begin(self, lanes: int) -> Agents:
        """Return agents on the start."""
        return self.maze.begin(lanes)

    def step(self, state: Agents, time: Tensor, actions: Tensor) -> Agents:
        """Move."""
        return self.maze.moved(state, actions)

    def look(self, state: Agents) -> Sight:
        """Look up the picture, and count."""
        seen = tf.gather(self.maze.grays(), tf.gather(self.maze.ground.view, state.here))[..., None]
        score = self.maze.score(state)
        return Sight(seen, score, tf.equal(score, float(len(self.layout.path))))

    def poses(self, moment: Moment) -> np.ndarray:
        """Return x and y."""
        return self.maze.ground.middles[moment.state.here.numpy()][:, None]


def _world(**options: Any) -> TopdownWorld:
    maze = TopdownMaze(**checked_options(NAME, TopdownOptions, options))
    return TopdownWorld(maze, maze.layout)


class TopdownMazeEnv(MazeEnv):
    """Walk a hidden path through a grid maze, seen from above.

    An observation is the nine squares around as 64x64 gray levels from 0 to 255; the domain's network sees
    `observation.astype(np.float32) / 255`. Actions are up, right, down, left and none. The reward is 1
    for each square of the path that is touched for the first time; an episode is over when all are.

    Args:
        maze: a maze file, or `short`; None: the default maze.
        scoring: `touched`: squares count in whatever order; `progress`: only in the path's own.
        steps: moves of an episode.
        render_mode: `human`, `rgb_array` or None.
    """

    metadata = drawn_at(RATE)

    def __init__(
        self,
        *,
        maze: str | os.PathLike[str] | None = None,
        scoring: Scoring = TopdownOptions.scoring,
        steps: int = TopdownOptions.steps,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(_world(maze=maze, scoring=scoring, steps=steps), render_mode)


class TopdownMazeVectorEnv(MazeVectorEnv):
    """Many agents at once, each in a maze of its own; see `TopdownMazeEnv`."""

    def __init__(
        self,
        num_envs: int = 1,
        *,
        maze: str | os.PathLike[str] | None = None,
        scoring: Scoring = TopdownOptions.scoring,
        steps: int = TopdownOptions.steps,
        max_episode_steps: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        world = _world(maze=maze, scoring=scoring, steps=steps)
        super().__init__(world, num_envs, NAME, max_episode_steps, render_mode)
