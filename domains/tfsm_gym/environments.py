"""Environments that are stepped together, all in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from tfsm.errors import TfsmError
from tfsm_gym.loading import reason


class Stepped(NamedTuple):
    """What came of an action."""

    observation: Any
    reward: float
    """The sum, where an action is held for several steps."""
    terminated: bool
    truncated: bool
    steps: int


class Environments(Protocol):
    """Many environments, numbered from 0."""

    def reset(self, seeds: Sequence[int]) -> list[Any]:
        """Begin an episode in as many environments as there are seeds, and return the first observations."""
        ...

    def step(self, numbers: Sequence[int], actions: Sequence[Any], hold: int) -> list[Stepped]:
        """Act in some of the environments; `hold` is how many steps to hold an action for."""
        ...

    def close(self) -> None:
        """Close all of them."""
        ...


class Here:
    """Environments in this process, made when they are first needed.

    Args:
        name: what they are called, for messages.
        make: makes one more.
    """

    def __init__(self, name: str, make: Callable[[], Any]) -> None:
        self._name, self._make = name, make
        self._envs: list[Any] = []

    def reset(self, seeds: Sequence[int]) -> list[Any]:
        """Begin episodes."""
        while len(self._envs) < len(seeds):
            self._envs.append(self._make())
        try:
            return [env.reset(seed=seed)[0] for env, seed in zip(self._envs, seeds, strict=False)]
        except TfsmError:
            raise  # it has its own words for what is wrong
        except Exception as error:
            raise failed(self._name, "reset", error) from error

    def step(self, numbers: Sequence[int], actions: Sequence[Any], hold: int) -> list[Stepped]:
        """Act."""
        try:
            return [held(self._envs[i], action, hold) for i, action in zip(numbers, actions, strict=True)]
        except TfsmError:
            raise
        except Exception as error:
            raise failed(self._name, "step", error) from error

    def close(self) -> None:
        """Close all."""
        for env in self._envs:
            with suppress(Exception):  # nobody needs it any more, whatever is wrong with it
                env.close()
        self._envs.clear()


def held(env: Any, action: Any, times: int) -> Stepped:
    """Do the same for some steps, or until the episode is over."""
    total, steps = 0.0, 0
    while True:
        observation, reward, terminated, truncated, _ = env.step(action)
        total, steps = total + float(reward), steps + 1
        if terminated or truncated or steps == times:
            return Stepped(observation, total, bool(terminated), bool(truncated), steps)


def failed(name: str, what: str, error: Exception) -> TfsmError:
    """Return what to tell of an environment that raises."""
    return TfsmError(f"the environment {name!r} failed in {what}(): {reason(error)}")
