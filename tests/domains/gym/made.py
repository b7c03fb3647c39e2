"""A configurable environment with any spaces. It imports no TensorFlow, because worker processes import it."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

NAME = "tests/Made-v0"
LINE = spaces.Box(-1.0, 1.0, (3,), np.float32)
TWO = spaces.Discrete(2)


class ConfigurableEnv(gymnasium.Env[Any, Any]):
    """Observes samples of a space, and checks actions.

    Args:
        seen: the space of observations.
        acts: the space of actions.
        ends: terminates after this many steps; never if None.
        shows: makes an observation instead of a sample.
        pays: the reward of an action.
        draws: makes a picture.
        render_mode: as in Gymnasium.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 7}  # noqa: RUF012

    def __init__(
        self,
        *,
        seen: spaces.Space[Any] = LINE,
        acts: spaces.Space[Any] = TWO,
        ends: int | None = 5,
        shows: Callable[[ConfigurableEnv], Any] | None = None,
        pays: Callable[[ConfigurableEnv, Any], float] = lambda env, action: 1.0,
        draws: Callable[[ConfigurableEnv], Any] = lambda env: np.full((4, 6, 3), env.time, np.uint8),
        render_mode: str | None = None,
    ) -> None:
        # Gymnasium passes the same space to all environments, but each must sample with its own seed.
        self.observation_space, self.action_space = copy.deepcopy(seen), acts
        self.render_mode = render_mode
        self.ends, self.shows, self.pays, self.draws = ends, shows, pays, draws
        self.time = self.luck = 0.0
        self.last: Any = None

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        assert type(seed) is int
        assert 0 <= seed < 2**31
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        self.time, self.last, self.luck = 0, None, float(self.np_random.uniform())
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        self.time, self.last = self.time + 1, action
        return self._observe(), self.pays(self, action), self.time == self.ends, False, {}

    def render(self) -> Any:
        return self.draws(self)

    def _observe(self) -> Any:
        return self.shows(self) if self.shows is not None else self.observation_space.sample()


@contextmanager
def registered_env(*, threshold: float | None = None, limit: int | None = None, **kwargs: Any) -> Iterator[None]:
    """Register the environment with these options, and unregister it at the end."""
    gymnasium.register(NAME, ConfigurableEnv, reward_threshold=threshold, max_episode_steps=limit, kwargs=kwargs)
    try:
        yield
    finally:
        del gymnasium.registry[NAME]


# Functions for environments, at module level so that they can be pickled.


def reward_luck(env: ConfigurableEnv, action: Any) -> float:
    return env.luck


def reward_sum(env: ConfigurableEnv, action: Any) -> float:
    return float(np.sum(action))


def observe_process(env: ConfigurableEnv) -> np.ndarray:
    return np.array([os.getpid()], np.float32)


def observe_last_action(env: ConfigurableEnv) -> np.ndarray:
    """Return a random number and the last action."""
    done = -1.0 if env.last is None else float(env.last)
    return np.array([env.np_random.normal(), done], np.float32)


def fail_late(env: ConfigurableEnv, action: Any) -> float:
    if env.time == 3:
        raise RuntimeError("too\n  late")
    return 0.0


def exit_process(env: ConfigurableEnv, action: Any) -> float:
    os._exit(7)
