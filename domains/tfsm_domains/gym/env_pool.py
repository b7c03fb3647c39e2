"""Step many copies of an environment, in this process or in several."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from tfsm.errors import TfsmError
from tfsm.parallel.processes import Channel, ChildProcess, count_cores
from tfsm_domains.gym.environment import (
    PURPOSE,
    EnvConfig,
    describe_env_error,
    env_error,
    make_env,
    quiet_gymnasium,
)
from tfsm_domains.gym.spaces import ObservationEncoder

GRACE_SECONDS: Final = 5.0
"""Time for a process to end by itself."""
_PROTOCOL: Final = pickle.HIGHEST_PROTOCOL  # without buffers on the side, which cost more than they save here


def describe_pickle_error(name: str, error: BaseException) -> str:
    """Return the message for an environment that cannot be pickled or unpickled."""
    what = f"the environment {name!r}" if name else "the environment"
    return f"{what} cannot be sent to another process ({describe_env_error(error)}): use --set vector=sync"


class StepResults(NamedTuple):
    """The results of one action in each of N environments."""

    observations: list[np.ndarray]
    """`[N, ...]` per network input."""
    reward: np.ndarray
    """`[N]`, the sum over all steps of the action."""
    terminated: np.ndarray
    """`[N]`, bool"""
    truncated: np.ndarray
    """`[N]`, bool"""
    steps: np.ndarray
    """`[N]`"""


class EnvPool(Protocol):
    """Many copies of an environment, numbered from 0."""

    def reset(self, seeds: Sequence[int]) -> list[np.ndarray]:
        """Start one episode per seed and return the first observations, `[N, ...]` per network input."""
        ...

    def step(self, numbers: np.ndarray, actions: np.ndarray, hold: int) -> StepResults:
        """Act in some of the environments, `hold` steps per action."""
        ...

    def close(self) -> None:
        """Close all of them."""
        ...


class LocalEnvPool:
    """Environments in this process, made on first use.

    Args:
        name: the environment's name, for messages.
        encoder: turns observations into network inputs.
        make: makes one copy.
    """

    def __init__(self, name: str, encoder: ObservationEncoder, make: Callable[[], Any]) -> None:
        self._name, self._encoder, self._make = name, encoder, make
        self._envs: dict[int, Any] = {}

    def reset(self, seeds: Sequence[int]) -> list[np.ndarray]:
        """Start episodes."""
        return self.reset_some(range(len(seeds)), seeds)

    def reset_some(self, numbers: Sequence[int], seeds: Sequence[int]) -> list[np.ndarray]:
        """Start episodes in some of the environments."""
        for number in numbers:
            if number not in self._envs:
                self._envs[number] = self._make()
        try:
            return self._encoder.encode(
                [self._envs[number].reset(seed=int(seed))[0] for number, seed in zip(numbers, seeds, strict=True)]
            )
        except TfsmError:
            raise  # already a message for the user
        except Exception as error:
            raise env_error(self._name, "reset", error) from error

    def step(self, numbers: np.ndarray, actions: np.ndarray, hold: int) -> StepResults:
        """Act in some environments."""
        count, envs = len(numbers), self._envs
        observations: list[Any] = []
        reward, steps = np.zeros(count), np.full(count, 1, np.int64)
        terminated, truncated = np.zeros([2, count], bool)
        try:
            for i, (number, action) in enumerate(zip(numbers.tolist(), actions, strict=True)):
                observation, gained, terminated[i], truncated[i], _ = envs[number].step(action)
                reward[i] = float(gained)
                while steps[i] < hold and not (terminated[i] or truncated[i]):
                    observation, gained, terminated[i], truncated[i], _ = envs[number].step(action)
                    reward[i], steps[i] = reward[i] + float(gained), steps[i] + 1
                observations.append(observation)
            return StepResults(self._encoder.encode(observations), reward, terminated, truncated, steps)
        except TfsmError:
            raise
        except Exception as error:
            raise env_error(self._name, "step", error) from error

    def close(self) -> None:
        """Close all."""
        for env in self._envs.values():
            with suppress(Exception):  # it is not used again, so errors do not matter
                env.close()
        self._envs.clear()


class EnvProcess:
    """A process that makes and steps environments.

    Args:
        config: how to make one.
        encoder: turns observations into network inputs.
    """

    def __init__(self, config: EnvConfig, encoder: ObservationEncoder) -> None:
        import cloudpickle  # comes with Gymnasium, and pickles classes of a script by value

        self._name = config.name
        try:
            content = cloudpickle.dumps((config, encoder))
        except Exception as error:
            raise TfsmError(describe_pickle_error(config.name, error)) from error
        self._process = ChildProcess("tfsm_domains.gym.env_pool:serve")
        self.send("config", content)

    def send(self, kind: str, content: bytes) -> None:
        """Send a request, pickled."""
        try:
            self._process.channel.send(kind, [content])
        except OSError:
            raise self._death() from None

    def receive(self) -> Any:
        """Wait for the results of the last request."""
        try:
            kind, (content,) = self._process.channel.receive()
        except (EOFError, OSError):
            raise self._death() from None
        if kind == "failed":
            raise TfsmError(content.decode())
        return pickle.loads(content)

    def close(self) -> None:
        """End the process."""
        self._process.close(GRACE_SECONDS)

    def _death(self) -> TfsmError:
        reason = self._process.describe_exit(GRACE_SECONDS)
        return TfsmError(f"{PURPOSE}: a process that ran {self._name!r} has ended ({reason})")


class ProcessEnvPool:
    """Environments in several processes; environment i is in process i modulo their number.

    Args:
        config: how to make one.
        encoder: turns observations into network inputs; the processes do that, too.
        processes: number of processes; one per core if None.
    """

    def __init__(self, config: EnvConfig, encoder: ObservationEncoder, processes: int | None = None) -> None:
        self._config, self._encoder = config, encoder
        self._limit = processes or count_cores()
        self._processes: list[EnvProcess] = []

    def reset(self, seeds: Sequence[int]) -> list[np.ndarray]:
        """Start episodes."""
        while len(self._processes) < min(self._limit, len(seeds)):
            self._processes.append(EnvProcess(self._config, self._encoder))
        places, results = self._request("reset", np.arange(len(seeds)), np.asarray(seeds), 0)
        return [_merge(places, parts) for parts in zip(*results, strict=True)]

    def step(self, numbers: np.ndarray, actions: np.ndarray, hold: int) -> StepResults:
        """Take a step in some of the environments."""
        places, results = self._request("step", numbers, actions, hold)
        observations, *others = zip(*results, strict=True)
        merged = [_merge(places, parts) for parts in zip(*observations, strict=True)]
        return StepResults(merged, *(_merge(places, parts) for parts in others))

    def close(self) -> None:
        """End all processes."""
        for process in self._processes:
            process.close()
        self._processes.clear()

    def _request(
        self, kind: str, numbers: np.ndarray, arguments: np.ndarray, hold: int
    ) -> tuple[list[np.ndarray], list[Any]]:
        """Let all processes work at the same time; return the places in `numbers` of each one's share, and results."""
        owners = numbers % len(self._processes)
        shares = [(process, np.flatnonzero(owners == i)) for i, process in enumerate(self._processes)]
        busy = [(process, places) for process, places in shares if len(places)]
        try:
            for process, places in busy:
                process.send(kind, pickle.dumps((numbers[places], arguments[places], hold), _PROTOCOL))
            results = [process.receive() for process, _ in busy]
        except BaseException:
            self.close()  # unread results would be taken for those of the next request
            raise
        return [places for _, places in busy], results


def _merge(places: Sequence[np.ndarray], parts: Sequence[np.ndarray]) -> np.ndarray:
    merged = np.empty([sum(map(len, places)), *parts[0].shape[1:]], parts[0].dtype)
    for at, part in zip(places, parts, strict=True):
        merged[at] = part
    return merged


def serve(channel: Channel) -> None:
    """Serve requests in a process of a `ProcessEnvPool`, until the channel is closed.

    Args:
        channel: receives the pickled `EnvConfig` and encoder first, then requests to reset or step environments.
    """
    _, (content,) = channel.receive()
    try:
        config, encoder = pickle.loads(content)
    except Exception as error:
        channel.receive()  # the first request, which this answers
        channel.send("failed", [describe_pickle_error("", error).encode()])
        return
    pool = LocalEnvPool(config.name, encoder, lambda: make_env(config))
    with quiet_gymnasium(), closing(pool), suppress(EOFError, OSError):  # until the other end is closed
        while True:
            kind, (request,) = channel.receive()
            numbers, arguments, hold = pickle.loads(request)
            try:
                answer: Any = (
                    tuple(pool.step(numbers, arguments, hold))
                    if kind == "step"
                    else pool.reset_some(numbers.tolist(), arguments.tolist())
                )
                results = pickle.dumps(answer, _PROTOCOL)
            except TfsmError as error:
                channel.send("failed", [str(error).encode()])
            else:
                channel.send("done", [results])
