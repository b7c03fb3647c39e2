"""From a network's outputs to an environment's actions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from tfsm.errors import TfsmError
from tfsm_gym.loading import gymnasium
from tfsm_gym.normalizing import is_bounded, scaling

SUPPORTED: Final = "Discrete, MultiDiscrete, MultiBinary and Box"


class Actor(NamedTuple):
    """How outputs are read."""

    outputs: int
    """K, how many there are."""
    activation: str | None
    """What the default network's outputs go through."""
    act: Callable[[np.ndarray], np.ndarray]
    """From finite outputs `[..., K]` to actions `[..., *shape]`."""


def actor_for(name: str, space: Any) -> Actor:
    """Return how actions of a space are taken; the name is the environment's, for messages."""
    spaces = gymnasium().spaces
    if isinstance(space, spaces.Discrete):
        return Actor(int(space.n), None, lambda outputs: outputs.argmax(axis=-1) + int(space.start))
    if isinstance(space, spaces.MultiDiscrete):
        return _choices(space)
    if isinstance(space, spaces.MultiBinary):
        return Actor(int(np.prod(space.shape)), None, lambda outputs: _shaped(outputs > 0, space))
    if isinstance(space, spaces.Box):
        return _numbers(space)
    raise TfsmError(f"the environment {name!r} has actions of the space {type(space).__name__}; supported: {SUPPORTED}")


def _choices(space: Any) -> Actor:
    ends = np.cumsum(space.nvec.ravel())

    def act(outputs: np.ndarray) -> np.ndarray:
        parts = np.split(outputs, ends[:-1], axis=-1)
        chosen = np.stack([part.argmax(axis=-1) for part in parts], axis=-1) + space.start.ravel()
        return _shaped(chosen, space)

    return Actor(int(ends[-1]), None, act)


def _numbers(space: Any) -> Actor:
    low, high = (np.ravel(end).astype(np.float64) for end in (space.low, space.high))
    bounded = is_bounded(low, high)
    middle, half = scaling(low, high)

    def act(outputs: np.ndarray) -> np.ndarray:
        # From -1 to 1 where there are two bounds; elsewhere outputs are the numbers themselves.
        numbers = middle + half * np.where(bounded, np.clip(outputs, -1.0, 1.0), outputs)
        numbers = np.clip(numbers, low, high)
        if np.issubdtype(space.dtype, np.integer):
            numbers = np.rint(numbers)
        return _shaped(numbers, space)

    return Actor(len(low), "tanh" if bounded.all() else None, act)


def _shaped(actions: np.ndarray, space: Any) -> np.ndarray:
    return actions.astype(space.dtype).reshape([*actions.shape[:-1], *space.shape])
