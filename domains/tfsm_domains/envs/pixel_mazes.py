"""The topdown and first-person mazes as Gymnasium environments."""

from __future__ import annotations

import os
from collections.abc import Mapping
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
from tfsm_domains.pixel_maze import FirstPersonOptions, Scoring, TopdownOptions
from tfsm_domains.pixel_maze.base import SIZE
from tfsm_domains.pixel_maze.drawing import PixelFilm
from tfsm_domains.pixel_maze.first_person import RATE as FIRST_PERSON_RATE
from tfsm_domains.pixel_maze.first_person import FirstPersonMaze, PathProgress
from tfsm_domains.pixel_maze.layout import MazeLayout
from tfsm_domains.pixel_maze.raycast import draw
from tfsm_domains.pixel_maze.topdown import RATE as TOPDOWN_RATE
from tfsm_domains.pixel_maze.topdown import TopdownAgents, TopdownMaze

ACTIONS = 5


class PixelMazeSimulator(MazeSimulator):
    """A pixel maze: observations are images, and each square of the path is worth one point."""

    layout: MazeLayout

    @property
    def threshold(self) -> float:
        """One point per square of the path, except the start."""
        return float(len(self.layout.path) - 1)

    def observations(self) -> gymnasium.spaces.Box:
        """Return the space of images."""
        return gymnasium.spaces.Box(0, 255, (SIZE, SIZE, 1), np.uint8)

    def actions(self) -> gymnasium.spaces.Discrete[Any]:
        """Return the space of actions."""
        return gymnasium.spaces.Discrete(ACTIONS)

    def idle(self, count: int) -> np.ndarray:
        """Return actions that do nothing."""
        return np.full([count], ACTIONS - 1, np.int32)

    def check_actions(self, actions: Any, count: int) -> np.ndarray:
        """Validate actions."""
        checked = np.asarray(actions)
        if checked.shape != (count,) or checked.dtype.kind not in "iu" or checked.min() < 0 or checked.max() >= ACTIONS:
            raise TfsmError(f"an action is an integer from 0 to {ACTIONS - 1}, got {actions!r}")
        return checked.astype(np.int32)

    def info(self, agents: AgentBatch) -> dict[str, np.ndarray]:
        """Return the agents' positions and the number of squares that count as touched."""
        place = self.poses(agents)[:, -1, :2]
        return {"position": place, "squares": agents.score.astype(np.int64), "solved": agents.solved}

    def film(self, trail: np.ndarray, seen: np.ndarray) -> Film:
        """Return the film of a replay: the map, with the agent's view next to it."""
        return PixelFilm(self.layout, trail, seen[..., 0], self.rate)


def check_options(name: str, options: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Validate the options of a maze and return them."""
    maze = values["maze"]
    plain = {**values, "maze": None if maze is None else os.fspath(maze)}
    validate(options, plain, where=name)
    return plain


TOPDOWN_NAME = "tfsm/TopdownMaze-v0"


@dataclass(frozen=True)
class TopdownSimulator(PixelMazeSimulator):
    """The maze. Its layout takes part in comparisons, because a maze file may change."""

    maze: TopdownMaze
    layout: MazeLayout
    hold: int = 1

    @property
    def limit(self) -> int:
        """Moves per episode."""
        return self.maze.options.steps

    @property
    def frames(self) -> int:
        """One frame per move."""
        return self.limit

    @property
    def rate(self) -> float:
        """Film frames per second, as in a replay."""
        return TOPDOWN_RATE

    def begin(self, lanes: int) -> TopdownAgents:
        """Return agents at the start."""
        return self.maze.begin(lanes)

    def step(self, state: TopdownAgents, time: Tensor, actions: Tensor) -> TopdownAgents:
        """Move."""
        return self.maze.move(state, actions)

    def observe(self, state: TopdownAgents) -> StepOutput:
        """Return the views and the scores."""
        seen = tf.gather(self.maze.gray_views(), tf.gather(self.maze.grid.view, state.square))[..., None]
        score = self.maze.score(state)
        return StepOutput(seen, score, tf.equal(score, float(len(self.layout.path))))

    def poses(self, agents: AgentBatch) -> np.ndarray:
        """Return x and y."""
        return self.maze.grid.centers[agents.state.square.numpy()][:, None]


def _build_topdown(**options: Any) -> TopdownSimulator:
    maze = TopdownMaze(**check_options(TOPDOWN_NAME, TopdownOptions, options))
    return TopdownSimulator(maze, maze.layout)


class TopdownMazeEnv(MazeEnv):
    """Walk a hidden path through a grid maze, seen from above.

    An observation is the nine squares around the agent as 64x64 gray levels from 0 to 255; the domain's network sees
    `observation.astype(np.float32) / 255`. Actions are up, right, down, left and none. The reward is 1 per square of
    the path touched for the first time; an episode terminates when all are.

    Args:
        maze: a maze file, or a built-in maze: `stairs`, `short` or `long`.
        scoring: `touched`: squares count in any order; `progress`: only in the order of the path.
        steps: moves per episode.
        render_mode: `human`, `rgb_array` or None.
    """

    metadata = render_metadata(TOPDOWN_RATE)

    def __init__(
        self,
        *,
        maze: str | os.PathLike[str] | None = TopdownOptions.maze,
        scoring: Scoring = TopdownOptions.scoring,
        steps: int = TopdownOptions.steps,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(_build_topdown(maze=maze, scoring=scoring, steps=steps), render_mode)


class TopdownMazeVectorEnv(MazeVectorEnv):
    """Independent agents, stepped together; see `TopdownMazeEnv`."""

    def __init__(
        self,
        num_envs: int = 1,
        *,
        maze: str | os.PathLike[str] | None = TopdownOptions.maze,
        scoring: Scoring = TopdownOptions.scoring,
        steps: int = TopdownOptions.steps,
        max_episode_steps: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        simulator = _build_topdown(maze=maze, scoring=scoring, steps=steps)
        super().__init__(simulator, num_envs, TOPDOWN_NAME, max_episode_steps, render_mode)


FIRST_PERSON_NAME = "tfsm/FirstPersonMaze-v0"


class FirstPersonState(NamedTuple):
    """B agents."""

    track: Tensor
    """`[B, hold, 3]`: x, y and heading after each frame of the last decision."""
    touched: Tensor
    progress: Tensor
    """As in `PathProgress`."""


@dataclass(frozen=True)
class FirstPersonSimulator(PixelMazeSimulator):
    """The maze. Its layout takes part in comparisons, because a maze file may change."""

    maze: FirstPersonMaze
    layout: MazeLayout
    hold: int

    @property
    def limit(self) -> int:
        """Decisions per episode."""
        return self.maze.decisions

    @property
    def frames(self) -> int:
        """Frames per episode."""
        return self.maze.options.frames

    @property
    def rate(self) -> float:
        """Film frames per second, as in a replay."""
        return FIRST_PERSON_RATE

    def begin(self, lanes: int) -> FirstPersonState:
        """Return agents at the start."""
        start, done = self.maze.begin(lanes)
        return FirstPersonState(tf.repeat(start[:, None], self.hold, axis=1), *done)

    def step(self, state: FirstPersonState, time: Tensor, actions: Tensor) -> FirstPersonState:
        """Apply actions for `hold` frames."""
        done = PathProgress(state.touched, state.progress)
        track, done = self.maze.hold_action(state.track[:, -1], actions, done, time * self.hold)
        return FirstPersonState(track, *done)

    def observe(self, state: FirstPersonState) -> StepOutput:
        """Return the rendered views and the scores."""
        pose = state.track[:, -1]
        seen = draw(self.maze.walls, None, pose[:, :2], pose[:, 2])[..., None]
        score = self.maze.score(PathProgress(state.touched, state.progress))
        return StepOutput(seen, score, tf.equal(score, float(len(self.layout.path))))

    def info(self, agents: AgentBatch) -> dict[str, np.ndarray]:
        """Return the info of all pixel mazes, and the headings in degrees."""
        return {**super().info(agents), "heading": agents.state.track.numpy()[:, -1, 2]}

    def poses(self, agents: AgentBatch) -> np.ndarray:
        """Return x, y and heading in radians."""
        track: np.ndarray = agents.state.track.numpy()
        return np.concatenate([track[..., :2], np.radians(track[..., 2:])], axis=-1)


def _build_first_person(**options: Any) -> FirstPersonSimulator:
    maze = FirstPersonMaze(**check_options(FIRST_PERSON_NAME, FirstPersonOptions, options))
    return FirstPersonSimulator(maze, maze.layout, maze.options.hold)


class FirstPersonMazeEnv(MazeEnv):
    """Walk a hidden path through a grid maze, seen in perspective.

    An observation is 64x64 gray levels from 0 to 255; the domain's network sees
    `observation.astype(np.float32) / 255`. Actions are forward, left, right, backward and none; a step applies one of
    them for `hold` frames. The reward is 1 per square of the path touched for the first time; an episode terminates
    when all are.

    Args:
        maze: a maze file, or a built-in maze: `stairs`, `short` or `long`.
        scoring: `touched`: squares count in any order; `progress`: only in the order of the path.
        frames: frames per episode.
        hold: frames per action.
        render_mode: `human`, `rgb_array` or None.
    """

    metadata = render_metadata(FIRST_PERSON_RATE / FirstPersonOptions.hold)

    def __init__(
        self,
        *,
        maze: str | os.PathLike[str] | None = FirstPersonOptions.maze,
        scoring: Scoring = FirstPersonOptions.scoring,
        frames: int = FirstPersonOptions.frames,
        hold: int = FirstPersonOptions.hold,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(_build_first_person(maze=maze, scoring=scoring, frames=frames, hold=hold), render_mode)


class FirstPersonMazeVectorEnv(MazeVectorEnv):
    """Independent agents, stepped together; see `FirstPersonMazeEnv`."""

    def __init__(
        self,
        num_envs: int = 1,
        *,
        maze: str | os.PathLike[str] | None = FirstPersonOptions.maze,
        scoring: Scoring = FirstPersonOptions.scoring,
        frames: int = FirstPersonOptions.frames,
        hold: int = FirstPersonOptions.hold,
        max_episode_steps: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        simulator = _build_first_person(maze=maze, scoring=scoring, frames=frames, hold=hold)
        super().__init__(simulator, num_envs, FIRST_PERSON_NAME, max_episode_steps, render_mode)
