"""A maze's simulator one decision at a time, compiled, for many agents at once that are each at a time of their own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple

import gymnasium
import numpy as np
import tensorflow as tf

from tfsm.contracts import Film, Tensor

LEAST: Final = 2
"""Lanes at least: XLA drops a batch axis of one and then sums in another order."""


State = Any
"""All that the simulator goes on from: a named tuple of tensors `[B, ...]`."""


class Sight(NamedTuple):
    """What there is to know of B agents."""

    seen: Tensor
    """`[B, ...]`, as in the observation space."""
    score: Tensor
    """`[B]`, of which a reward is the change."""
    solved: Tensor
    """`[B]`"""


class Moment(NamedTuple):
    """B agents between two decisions."""

    state: State
    time: Tensor
    """`[B]`, decisions that were made; -1: to be put at the start by the next, whatever it is."""
    seen: np.ndarray
    score: np.ndarray
    solved: np.ndarray


class World(ABC):
    """What an environment is made of; frozen dataclasses, so that equal ones are compiled once."""

    hold: int
    """Frames of a film that a decision lasts."""

    @property
    @abstractmethod
    def limit(self) -> int:
        """Decisions of an episode."""

    @property
    @abstractmethod
    def frames(self) -> int:
        """Frames of a film of an episode, apart from the first."""

    @property
    @abstractmethod
    def rate(self) -> float:
        """Frames a second of a film."""

    @property
    @abstractmethod
    def threshold(self) -> float:
        """What an episode returns that is solved."""

    @abstractmethod
    def observations(self) -> gymnasium.spaces.Box:
        """Return the observation space of one agent."""

    @abstractmethod
    def actions(self) -> gymnasium.Space[Any]:
        """Return the action space of one agent."""

    @abstractmethod
    def idle(self, count: int) -> np.ndarray:
        """Return some actions of so many agents, as the simulator takes them."""

    @abstractmethod
    def checked(self, actions: Any, count: int) -> np.ndarray:
        """Return actions of so many agents as the simulator takes them, or say what is wrong with them."""

    @abstractmethod
    def begin(self, lanes: int) -> State:
        """Return the state of agents at the start."""

    @abstractmethod
    def step(self, state: State, time: Tensor, actions: Tensor) -> State:
        """Return the state after a decision."""

    @abstractmethod
    def look(self, state: State) -> Sight:
        """Return what there is to know of a state."""

    @abstractmethod
    def info(self, moment: Moment) -> dict[str, np.ndarray]:
        """Return what an environment tells beside observations and rewards, `[B, ...]` each."""

    @abstractmethod
    def poses(self, moment: Moment) -> np.ndarray:
        """Return the poses in a film since the decision before: `[B, hold, D]`."""

    @abstractmethod
    def film(self, trail: np.ndarray, seen: np.ndarray) -> Film:
        """Return a film of one agent.

        Args:
            trail: `[1, frames + 1, D]`, poses.
            seen: `[frames + 1, ...]`, observations.
        """

    def start(self, lanes: int) -> Moment:
        """Return agents before their first decision."""
        lanes = max(LEAST, lanes)
        # By the same program as all other moments: another may round otherwise.
        nobody = Moment(self.begin(lanes), tf.fill([lanes], -1), *[np.empty(0)] * 3)
        return self.go(nobody, self.idle(lanes))

    def go(self, moment: Moment, actions: np.ndarray) -> Moment:
        """Let agents make a decision each.

        Args:
            moment: where they are.
            actions: `[B, ...]`, or fewer where there are fewer agents than lanes.
        """
        lanes = moment.time.shape[0]
        if len(actions) < lanes:
            actions = actions[np.minimum(np.arange(lanes), len(actions) - 1)]
        time, seen, score, solved, *state = _compiled(self, lanes)(moment.time, tf.constant(actions), *moment.state)
        return Moment(type(moment.state)(*state), time, seen.numpy(), score.numpy(), solved.numpy())


@lru_cache(maxsize=32)
def _compiled(world: World, lanes: int) -> Callable[..., Any]:
    kind = type(world.begin(lanes))

    def decide(time: Tensor, actions: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        fresh = time < 0

        def chosen(start: Tensor, new: Tensor) -> Tensor:
            return tf.where(tf.reshape(fresh, [-1, *[1] * (new.shape.rank - 1)]), start, new)

        stepped = world.step(kind(*state), time, actions)
        after = kind(*(chosen(*both) for both in zip(world.begin(lanes), stepped, strict=True)))
        return time + 1, *world.look(after), *after

    # One shape only, and flat: to look for the right one and to unpack takes longer than the simulation.
    given = (tf.fill([lanes], -1), world.idle(lanes), *world.begin(lanes))
    return tf.function(decide, jit_compile=True, autograph=False).get_concrete_function(
        *(tf.TensorSpec(x.shape, x.dtype) for x in given)
    )
