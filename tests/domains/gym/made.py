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


class Made(gymnasium.Env[Any, Any]):
    """Shows samples of a space, and checks what is done.

    Args:
        seen: the space of observations.
        acts: the space of actions.
        ends: terminates after this many steps; never if None.
        shows: makes an observation in place of a sample.
        pays: the reward of an action.
        draws: makes a picture.
        render_mode: as Gymnasium has it.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 7}  # noqa: RUF012

    def __init__(
        self,
        *,
        seen: spaces.Space[Any] = LINE,
        acts: spaces.Space[Any] = TWO,
        ends: int | None = 5,
        shows: Callable[[Made], Any] | None = None,
        pays: Callable[[Made, Any], float] = lambda env, action: 1.0,
        draws: Callable[[Made], Any] = lambda env: np.full((4, 6, 3), env.time, np.uint8),
        render_mode: str | None = None,
    ) -> None:
        # Gymnasium gives all of them the same one, and each has to sample by its own seed.
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
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        self.time, self.last = self.time + 1, action
        return self._seen(), self.pays(self, action), self.time == self.ends, False, {}

    def render(self) -> Any:
        return self.draws(self)

    def _seen(self) -> Any:
        return self.shows(self) if self.shows is not None else self.observation_space.sample()


@contextmanager
def made(*, threshold: float | None = None, limit: int | None = None, **kwargs: Any) -> Iterator[None]:
    """Register the environment with these options, for the time being."""
    gymnasium.register(NAME, Made, reward_threshold=threshold, max_episode_steps=limit, kwargs=kwargs)
    try:
        yield
    finally:
        del gymnasium.registry[NAME]


# Functions for environments, at the top of the module so that they can be sent to another process.


def luck(env: Made, action: Any) -> float:
    return env.luck


def total(env: Made, action: Any) -> float:
    return float(np.sum(action))


def process(env: Made) -> np.ndarray:
    return np.array([os.getpid()], np.float32)


def diary(env: Made) -> np.ndarray:
    """Show a random number and what was done last."""
    done = -1.0 if env.last is None else float(env.last)
    return np.array([env.np_random.normal(), done], np.float32)


def fails(env: Made, action: Any) -> float:
    if env.time == 3:
        raise RuntimeError("too\n  late")
    return 0.0


def leaves(env: Made, action: Any) -> float:
    os._exit(7)
