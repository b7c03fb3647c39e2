"""The hard maze as an environment."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import tensorflow as tf

from tfsm.errors import TfsmError
from tfsm.interfaces import Film, Tensor
from tfsm.plugins.options import validate
from tfsm_domains.envs.env import AgentBatch, MazeEnv, MazeSimulator, MazeVectorEnv, StepOutput, render_metadata
from tfsm_domains.hard_maze import HardMazeOptions
from tfsm_domains.hard_maze.breadcrumb import PathLengthField, compute_path_lengths
from tfsm_domains.hard_maze.drawing import MazeFilm
from tfsm_domains.hard_maze.maze import Maze, read_maze
from tfsm_domains.hard_maze.robot import (
    RANGE,
    RANGEFINDERS,
    SENSORS,
    Robot,
    at_goal,
    begin,
    count_decisions,
    hold_action,
    sense,
)

NAME = "tfsm/HardMaze-v0"


class HardMazeState(NamedTuple):
    """B robots."""

    track: Tensor
    """`[B, hold, 5]`: x, y, heading, turning and speed after each step of the last decision."""


@dataclass(frozen=True)
class HardMazeSimulator(MazeSimulator):
    """A maze, and for how many steps an action is held."""

    maze: Maze
    hold: int

    @property
    def limit(self) -> int:
        """How often a robot is asked."""
        return count_decisions(self.maze, self.hold)

    @property
    def frames(self) -> int:
        """Steps of the simulation."""
        return self.maze.steps

    @property
    def rate(self) -> float:
        """As in a replay."""
        return MazeFilm.rate

    @property
    def threshold(self) -> float:
        """The way from the start to where the goal is in reach, in whole units."""
        way = self.path_length.at(begin(self.maze, 1).position)
        # From some directions the rest of the way is measured up to 0.8 % longer than the straight line that it is.
        return float(math.floor(float(way[0]) - 1.01 * self.maze.reach))

    @property
    def path_length(self) -> PathLengthField:
        """How far it is to the goal; found when it is first needed, because a process must not fork after that."""
        with tf.init_scope():  # also while a function is being traced
            return compute_path_lengths(self.maze)

    def observations(self) -> gymnasium.spaces.Box:
        """Return the space of readings."""
        return gymnasium.spaces.Box(0.0, 1.0, (SENSORS,), np.float32)

    def actions(self) -> gymnasium.spaces.Box:
        """Return the space of outputs."""
        return gymnasium.spaces.Box(0.0, 1.0, (2,), np.float32)

    def idle(self, count: int) -> np.ndarray:
        """Return outputs that want to stand still."""
        return np.full([count, 2], 0.5, np.float32)

    def check_actions(self, actions: Any, count: int) -> np.ndarray:
        """Return outputs; those beyond the space are as good as those at its edge, because speeds have limits."""
        given = np.asarray(actions, np.float32)
        if given.shape != (count, 2) or not np.isfinite(given).all():
            raise TfsmError(f"{NAME}: an action is two numbers from 0 to 1, got {actions!r}")
        return given

    def begin(self, lanes: int) -> HardMazeState:
        """Return robots at the start."""
        return HardMazeState(tf.repeat(_pack(begin(self.maze, lanes))[:, None], self.hold, axis=1))

    def step(self, state: HardMazeState, time: Tensor, actions: Tensor) -> HardMazeState:
        """Hold outputs for some steps, or until the goal is reached."""
        robot = _robot(state)
        track, _ = hold_action(
            self.maze, robot, actions, at_goal(self.maze, robot), time * self.hold, self.hold, stop=True
        )
        return HardMazeState(tf.stack([_pack(one) for one in track], axis=1))

    def observe(self, state: HardMazeState) -> StepOutput:
        """Sense, and measure the way that is left."""
        robot = _robot(state)
        seen = sense(self.maze, robot.position, robot.heading)
        return StepOutput(seen, -self.path_length.at(robot.position), at_goal(self.maze, robot))

    def info(self, agents: AgentBatch) -> dict[str, np.ndarray]:
        """Tell where robots are, and how far it is to the goal."""
        last = agents.state.track.numpy()[:, -1]
        return {"position": last[:, :2], "heading": last[:, 2], "left": -agents.score, "solved": agents.solved}

    def poses(self, agents: AgentBatch) -> np.ndarray:
        """Return x, y and heading."""
        return agents.state.track.numpy()[..., :3]

    def film(self, trail: np.ndarray, seen: np.ndarray) -> Film:
        """Return what a replay shows."""
        return MazeFilm(self.maze, trail, seen, np.zeros([1], bool), np.zeros([1]), RANGEFINDERS, RANGE)


def _pack(robot: Robot) -> Tensor:
    return tf.concat([robot.position, tf.stack([robot.heading, robot.turning, robot.speed], axis=-1)], axis=-1)


def _robot(state: HardMazeState) -> Robot:
    last = state.track[:, -1]
    return Robot(last[:, :2], last[:, 2], last[:, 3], last[:, 4])


def _build_simulator(maze: str | os.PathLike[str] | None, hold: int) -> HardMazeSimulator:
    file = None if maze is None else os.fspath(maze)
    validate(HardMazeOptions, {"maze": file, "hold": hold}, where=NAME)
    return HardMazeSimulator(read_maze(file), hold)


class HardMazeEnv(MazeEnv):
    """Steer a robot to the goal of a maze with dead ends.

    An observation is what the domain's network sees, 11 numbers from 0 to 1: a bias, six rangefinders, and in which of
    four quarters the goal lies. An action is its two outputs, how fast to turn and how fast to go: 0 is 3 degrees or
    units a step backwards, 0.5 none, 1 as much forwards. A step holds it for `hold` steps of the simulation. The reward
    is how much shorter the way to the goal has become; an episode is over where the goal is first in reach.

    Args:
        maze: a maze file; None: the paper's maze.
        hold: steps that each action is held for.
        render_mode: `human`, `rgb_array` or None.
    """

    metadata = render_metadata(MazeFilm.rate / HardMazeOptions.hold)

    def __init__(
        self,
        *,
        maze: str | os.PathLike[str] | None = None,
        hold: int = HardMazeOptions.hold,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(_build_simulator(maze, hold), render_mode)


class HardMazeVectorEnv(MazeVectorEnv):
    """Many robots at once, each in a maze of its own; see `HardMazeEnv`."""

    def __init__(
        self,
        num_envs: int = 1,
        *,
        maze: str | os.PathLike[str] | None = None,
        hold: int = HardMazeOptions.hold,
        max_episode_steps: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(_build_simulator(maze, hold), num_envs, NAME, max_episode_steps, render_mode)
