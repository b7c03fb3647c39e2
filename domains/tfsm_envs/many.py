"""A vector environment whose agents are simulated all at once."""

from __future__ import annotations

from typing import Any, ClassVar

import gymnasium
import numpy as np
import tensorflow as tf
from gymnasium.vector.utils import batch_space

from tfsm.errors import TfsmError
from tfsm_envs.single import warn_of_limit
from tfsm_envs.worlds import Moment, World


class MazeVectorEnv(gymnasium.vector.VectorEnv[np.ndarray, Any, np.ndarray]):
    """Many agents, each in a world of its own; whose episode was over is put at the start in the next step.

    Args:
        world: where they are.
        count: how many.
        name: what the world's environment is registered as.
        most: steps of an episode at most; -1 or None: as many as the world has.
        render_mode: None.
    """

    metadata: ClassVar[dict[str, Any]] = {
        "render_modes": [],
        "autoreset_mode": gymnasium.vector.AutoresetMode.NEXT_STEP,
    }

    def __init__(self, world: World, count: int, name: str, most: int | None, render_mode: str | None) -> None:
        if render_mode is not None:
            raise TfsmError('many agents at once are not drawn: vectorization_mode="sync" draws them')
        self.num_envs = count
        self.single_observation_space, self.single_action_space = world.observations(), world.actions()
        self.observation_space = batch_space(self.single_observation_space, count)
        self.action_space = batch_space(self.single_action_space, count)
        self._world, self._limit = world, world.limit
        if most is not None and most != -1:
            warn_of_limit(most, world.limit, gymnasium.spec(name).max_episode_steps)
            self._limit = min(most, world.limit)
        self._moment: Moment | None = None
        self._over = np.zeros([count], bool)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin all episodes; a seed changes nothing, and there are no options."""
        super().reset(seed=seed)
        self._moment = self._world.start(self.num_envs)
        self._over = np.zeros([self.num_envs], bool)
        return self._told(self._moment)

    def step(self, actions: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Make a decision each."""
        before, fresh, count = self._moment, self._over, self.num_envs
        if before is None:
            raise gymnasium.error.ResetNeeded("call reset(): no episode is going on")
        given = self._world.checked(actions, count)
        if fresh.any():
            time = before.time.numpy()
            time[:count][fresh] = -1
            before = before._replace(time=tf.constant(time))
        now = self._moment = self._world.go(before, given)
        rewards = np.where(fresh, 0.0, now.score[:count].astype(float) - before.score[:count])
        terminated = now.solved[:count] & ~fresh
        truncated = now.time.numpy()[:count] >= self._limit
        self._over = terminated | truncated
        seen, info = self._told(now)
        return seen, rewards, terminated, truncated, info

    def _told(self, moment: Moment) -> tuple[np.ndarray, dict[str, Any]]:
        info: dict[str, Any] = {}
        for key, value in self._world.info(moment).items():
            info[key] = value[: self.num_envs]
            info[f"_{key}"] = np.ones([self.num_envs], bool)
        return moment.seen[: self.num_envs], info
