"""The hard maze as a Gymnasium environment."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import tensorflow as tf

from tfsm.abilities import Film
from tfsm.errors import TfsmError
from tfsm.interfaces import Tensor
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
    count_decisions,
    hold_action,
    sense,
    start_robots,
)

NAME = "tfsm/HardMaze-v0"


class HardMazeState(NamedTuple):
    """B robots."""

    track: Tensor
    """`[B, hold, 5]`: x, y, heading, turning and speed after each step of the last decision."""


@dataclass(frozen=True)
class HardMazeSimulator(MazeSimulator):
    """The hard maze, with `hold` simulation steps per action."""

    maze: Maze
    hold: int

    @property
    def limit(self) -> int:
        """Decisions per episode."""
        return count_decisions(self.maze, self.hold)

    @property
    def frames(self) -> int:
        """Simulation steps per episode."""
        return self.maze.steps

    @property
    def rate(self) -> float:
        """Film frames per second, as in a replay."""
        return MazeFilm.rate

    @property
    def threshold(self) -> float:
        """The path length from the start to where the goal is in reach, rounded down."""
        way = self.path_length.at(start_robots(self.maze, 1).position)
        # From some directions the rest of the path is measured up to 0.8 % longer than the straight line.
        return float(math.floor(float(way[0]) - 1.01 * self.maze.reach))

    @property
    def path_length(self) -> PathLengthField:
        """Path lengths to the goal, computed on first use, because a process must not fork after that."""
        with tf.init_scope():  # also while a function is being traced
            return compute_path_lengths(self.maze)

    def observations(self) -> gymnasium.spaces.Box:
        """Return the space of sensor readings."""
        return gymnasium.spaces.Box(0.0, 1.0, (SENSORS,), np.float32)

    def actions(self) -> gymnasium.spaces.Box:
        """Return the space of network outputs."""
        return gymnasium.spaces.Box(0.0, 1.0, (2,), np.float32)

    def idle(self, count: int) -> np.ndarray:
        """Return outputs that stand still."""
        return np.full([count, 2], 0.5, np.float32)

    def check_actions(self, actions: Any, count: int) -> np.ndarray:
        """Validate outputs. Values beyond the space act like those at its edge, because speeds are limited."""
        checked = np.asarray(actions, np.float32)
        if checked.shape != (count, 2) or not np.isfinite(checked).all():
            raise TfsmError(f"{NAME}: an action is two numbers from 0 to 1, got {actions!r}")
        return checked

    def begin(self, lanes: int) -> HardMazeState:
        """Return robots at the start."""
        return HardMazeState(tf.repeat(_pack(start_robots(self.maze, lanes))[:, None], self.hold, axis=1))

    def step(self, state: HardMazeState, time: Tensor, actions: Tensor) -> HardMazeState:
        """Apply outputs for `hold` steps, or until the goal is reached."""
        robot = _robot(state)
        track, _ = hold_action(
            self.maze, robot, actions, at_goal(self.maze, robot), time * self.hold, self.hold, stop=True
        )
        return HardMazeState(tf.stack([_pack(one) for one in track], axis=1))

    def observe(self, state: HardMazeState) -> StepOutput:
        """Return the sensor readings and minus the remaining path length."""
        robot = _robot(state)
        seen = sense(self.maze, robot.position, robot.heading)
        return StepOutput(seen, -self.path_length.at(robot.position), at_goal(self.maze, robot))

    def info(self, agents: AgentBatch) -> dict[str, np.ndarray]:
        """Return the robots' poses and remaining path lengths."""
        last = agents.state.track.numpy()[:, -1]
        return {"position": last[:, :2], "heading": last[:, 2], "left": -agents.score, "solved": agents.solved}

    def poses(self, agents: AgentBatch) -> np.ndarray:
        """Return x, y and heading."""
        return agents.state.track.numpy()[..., :3]

    def film(self, trail: np.ndarray, seen: np.ndarray) -> Film:
        """Return the film of a replay."""
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

    An observation is the input of the domain's network, 11 numbers from 0 to 1: a bias, six rangefinders, and the
    quadrant of the goal, one-hot. An action is the network's two outputs, angular velocity and speed: 0 is 3 degrees or
    units per step backwards, 0.5 is zero, 1 is 3 forwards. One environment step is `hold` simulation steps. The reward
    is the decrease of the path length to the goal; an episode terminates when the goal is reached.

    Args:
        maze: a maze file; None: the paper's maze.
        hold: simulation steps per action.
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
    """Independent robots, stepped together; see `HardMazeEnv`."""

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
