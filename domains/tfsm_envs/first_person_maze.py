"""The first-person maze as an environment."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfsm.contracts import Tensor
from tfsm_envs.many import MazeVectorEnv
from tfsm_envs.pixels import PixelWorld, checked_options
from tfsm_envs.single import MazeEnv, drawn_at
from tfsm_envs.worlds import Moment, Sight
from tfsm_pixelmaze.first_person import RATE, Done, FirstPersonMaze
from tfsm_pixelmaze.layout import Layout
from tfsm_pixelmaze.options import FirstPersonOptions, Scoring
from tfsm_pixelmaze.raycast import draw

NAME = "tfsm/FirstPersonMaze-v0"


class FirstPersonState(NamedTuple):
    """B agents."""

    track: Tensor
    """`[B, hold, 3]`: x, y and heading after each frame of the last decision."""
    touched: Tensor
    progress: Tensor
    """As in `Done`."""


@dataclass(frozen=True)
class FirstPersonWorld(PixelWorld):
    """The maze; its layout belongs to what makes two of them equal, because a file may change."""

    maze: FirstPersonMaze
    layout: Layout
    hold: int

    @property
    def limit(self) -> int:
        """How often an agent is asked."""
        return self.maze.decisions

    @property
    def frames(self) -> int:
        """Frames of an episode."""
        return self.maze.options.frames

    @property
    def rate(self) -> float:
        """As in a replay."""
        return RATE

    def begin(self, lanes: int) -> FirstPersonState:
        """Return agents at the start."""
        start, done = self.maze.begin(lanes)
        return FirstPersonState(tf.repeat(start[:, None], self.hold, axis=1), *done)

    def step(self, state: FirstPersonState, time: Tensor, actions: Tensor) -> FirstPersonState:
        """Do the same for some frames."""
        done = Done(state.touched, state.progress)
        track, done = self.maze.held(state.track[:, -1], actions, done, time * self.hold)
        return FirstPersonState(track, *done)

    def look(self, state: FirstPersonState) -> Sight:
        """Draw, and count."""
        here = state.track[:, -1]
        seen = draw(self.maze.walls, None, here[:, :2], here[:, 2])[..., None]
        score = self.maze.score(Done(state.touched, state.progress))
        return Sight(seen, score, tf.equal(score, float(len(self.layout.path))))

    def info(self, moment: Moment) -> dict[str, np.ndarray]:
        """Tell in which direction agents look too, in degrees."""
        return {**super().info(moment), "heading": moment.state.track.numpy()[:, -1, 2]}

    def poses(self, moment: Moment) -> np.ndarray:
        """Return x, y and heading in radians."""
        track: np.ndarray = moment.state.track.numpy()
        return np.concatenate([track[..., :2], np.radians(track[..., 2:])], axis=-1)


def _world(**options: Any) -> FirstPersonWorld:
    maze = FirstPersonMaze(**checked_options(NAME, FirstPersonOptions, options))
    return FirstPersonWorld(maze, maze.layout, maze.options.hold)


class FirstPersonMazeEnv(MazeEnv):
    """Walk a hidden path through a grid maze, seen in perspective.

    An observation is 64x64 gray levels from 0 to 255; the domain's network sees
    `observation.astype(np.float32) / 255`. Actions are forward, left, right, backward and none; a step
    does one of them for `hold` frames. The reward is 1 for each square of the path that is touched for the first time;
    an episode is over when all are.

    Args:
        maze: a maze file, or `short`; None: the default maze.
        scoring: `touched`: squares count in whatever order; `progress`: only in the path's own.
        frames: of an episode.
        hold: frames that each action is held for.
        render_mode: `human`, `rgb_array` or None.
    """

    metadata = drawn_at(RATE / FirstPersonOptions.hold)

    def __init__(
        self,
        *,
        maze: str | os.PathLike[str] | None = None,
        scoring: Scoring = FirstPersonOptions.scoring,
        frames: int = FirstPersonOptions.frames,
        hold: int = FirstPersonOptions.hold,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(_world(maze=maze, scoring=scoring, frames=frames, hold=hold), render_mode)


class FirstPersonMazeVectorEnv(MazeVectorEnv):
    """Many agents at once, each in a maze of its own; see `FirstPersonMazeEnv`."""

    def __init__(
        self,
        num_envs: int = 1,
        *,
        maze: str | os.PathLike[str] | None = None,
        scoring: Scoring = FirstPersonOptions.scoring,
        frames: int = FirstPersonOptions.frames,
        hold: int = FirstPersonOptions.hold,
        max_episode_steps: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        world = _world(maze=maze, scoring=scoring, frames=frames, hold=hold)
        super().__init__(world, num_envs, NAME, max_episode_steps, render_mode)
