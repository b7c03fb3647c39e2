"""Step many copies of an environment, in this process or in several."""

from __future__ import annotations

import mmap
import os
import pickle
import tempfile
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
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

    @property
    def steps_ahead(self) -> int:
        """How many steps, of different environments, are worth starting before the first one is finished."""
        ...

    def reset(self, seeds: Sequence[int]) -> list[np.ndarray]:
        """Start one episode per seed and return the first observations, `[N, ...]` per network input."""
        ...

    def start_step(self, numbers: np.ndarray, actions: np.ndarray, hold: int) -> None:
        """Begin to act in some of the environments, `hold` steps per action."""
        ...

    def finish_step(self) -> StepResults:
        """Wait for the results of the step that was started first."""
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
        self._started: deque[tuple[np.ndarray, np.ndarray, int]] = deque()

    @property
    def steps_ahead(self) -> int:
        """One: nothing is done before `finish_step`."""
        return 1

    def reset(self, seeds: Sequence[int]) -> list[np.ndarray]:
        """Start episodes."""
        self._started.clear()
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

    def start_step(self, numbers: np.ndarray, actions: np.ndarray, hold: int) -> None:
        """Take note of the actions; the environments take their steps in `finish_step`."""
        self._started.append((numbers, actions, hold))

    def finish_step(self) -> StepResults:
        """Take the step that was started first."""
        return self.step(*self._started.popleft())

    def step(self, numbers: np.ndarray, actions: np.ndarray, hold: int) -> StepResults:
        """Act in some environments."""
        observations, others = [], []
        # Gymnasium checks an int in a fraction of the time that it takes for a NumPy integer.
        choices = actions.tolist() if actions.ndim == 1 and actions.dtype.kind == "i" else actions
        try:
            for number, action in zip(numbers.tolist(), choices, strict=True):
                step = self._envs[number].step
                observation, reward, terminated, truncated, _ = step(action)
                total, steps = float(reward), 1
                while steps < hold and not (terminated or truncated):
                    observation, reward, terminated, truncated, _ = step(action)
                    total, steps = total + float(reward), steps + 1
                observations.append(observation)
                others.append((total, bool(terminated), bool(truncated), steps))
            arrays = [np.array(values) for values in zip(*others, strict=True)]
            return StepResults(self._encoder.encode(observations), *arrays)
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


class SharedArrays:
    """What this process and those with the environments exchange, in memory that all of them see.

    Pickled arrays took a third of the time of a step in HalfCheetah.

    Args:
        template: an action and an observation, one array per network input.
        count: N, the number of environments.
        file: the file in memory; a new one if None.
    """

    def __init__(self, template: Sequence[np.ndarray], count: int, file: str | None = None) -> None:
        fields = [np.zeros((), np.int64), *[np.zeros((), bool)] * 2, np.zeros(()), np.zeros((), np.int64), *template]
        starts = np.cumsum([0, *(-(-count * field.nbytes // 64) * 64 for field in fields)])
        if file is None:
            folder = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
            number, file = tempfile.mkstemp(prefix="tfsm-gym-", dir=folder)
            os.truncate(number, int(starts[-1]))
            os.close(number)
        self.file, self.count = file, count
        with open(file, "r+b") as opened:
            memory = mmap.mmap(opened.fileno(), int(starts[-1]))
        self.seeds, self.terminated, self.truncated, self.reward, self.steps, self.actions, *rest = (
            np.ndarray((count, *field.shape), field.dtype, memory, int(start))
            for field, start in zip(fields, starts[:-1], strict=True)
        )
        self.observations: list[np.ndarray] = rest

    def write(self, numbers: np.ndarray, results: StepResults) -> None:
        """Write the results of environments."""
        self.write_observations(numbers, results.observations)
        self.reward[numbers], self.steps[numbers] = results.reward, results.steps
        self.terminated[numbers], self.truncated[numbers] = results.terminated, results.truncated

    def write_observations(self, numbers: np.ndarray, observations: Sequence[np.ndarray]) -> None:
        """Write observations of environments."""
        for array, observed in zip(self.observations, observations, strict=True):
            array[numbers] = observed

    def read(self, numbers: np.ndarray) -> StepResults:
        """Return the results of environments."""
        others = self.reward, self.terminated, self.truncated, self.steps
        return StepResults([array[numbers] for array in self.observations], *(array[numbers] for array in others))

    def unlink(self) -> None:
        """Remove the file, as soon as all processes have opened it; its memory remains until they end."""
        with suppress(OSError):  # removed already, or, on some systems, still open
            os.unlink(self.file)


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

    def send(self, kind: str, *content: bytes) -> None:
        """Send a request."""
        try:
            self._process.channel.send(kind, content)
        except OSError:
            raise self._death() from None

    def receive(self) -> None:
        """Wait until the first request without an answer is done."""
        try:
            kind, (content,) = self._process.channel.receive()
        except (EOFError, OSError):
            raise self._death() from None
        if kind == "failed":
            raise TfsmError(content.decode())

    def close(self) -> None:
        """End the process."""
        self._process.close(GRACE_SECONDS)

    def _death(self) -> TfsmError:
        reason = self._process.describe_exit(GRACE_SECONDS)
        return TfsmError(f"{PURPOSE}: a process that ran {self._name!r} has ended ({reason})")


class _Request(NamedTuple):
    """What processes were asked to do and have not confirmed yet."""

    numbers: np.ndarray
    """The environments."""
    busy: list[EnvProcess]


class ProcessEnvPool:
    """Environments in several processes; environment i is in process i modulo their number.

    A process answers its requests in order. With two steps under way, each of half of the environments, the processes
    simulate one half while the networks of the other one decide.

    Args:
        config: how to make one.
        encoder: turns observations into network inputs; the processes do that.
        action: an action, for its shape and type.
        processes: number of processes; one per core if None.
    """

    def __init__(
        self, config: EnvConfig, encoder: ObservationEncoder, action: np.ndarray, processes: int | None = None
    ) -> None:
        self._config, self._encoder = config, encoder
        self._template = [action, *encoder.template.values()]
        self._limit = processes or count_cores()
        self._processes: list[EnvProcess] = []
        self._under_way: deque[_Request] = deque()
        self._shared: SharedArrays | None = None

    @property
    def steps_ahead(self) -> int:
        """Two: one is simulated while what follows the other one is decided."""
        return 2

    def reset(self, seeds: Sequence[int]) -> list[np.ndarray]:
        """Start episodes."""
        if self._under_way:  # what asked for them has failed; their answers are not for this request
            self.close()
        shared, numbers = self._share(len(seeds)), np.arange(len(seeds))
        shared.seeds[numbers] = seeds
        self._send("reset", numbers)
        return shared.read(self._wait()).observations

    def start_step(self, numbers: np.ndarray, actions: np.ndarray, hold: int) -> None:
        """Let the processes begin with a step in some of the environments."""
        assert self._shared is not None, "reset comes first"
        self._shared.actions[numbers] = actions
        self._send("step", numbers, b"%d" % hold)

    def finish_step(self) -> StepResults:
        """Wait for the results of the step."""
        assert self._shared is not None, "reset comes first"
        return self._shared.read(self._wait())

    def close(self) -> None:
        """End all processes."""
        for process in self._processes:
            process.close()
        self._processes.clear()
        self._under_way.clear()
        if self._shared is not None:
            self._shared.unlink()
        self._shared = None

    def _share(self, count: int) -> SharedArrays:
        """Return memory for at least that many environments, which all processes have opened."""
        if self._shared is not None and self._shared.count >= count:
            return self._shared
        if not self._processes or len(self._processes) < min(self._limit, count):
            self.close()  # which environments a process has depends on the number of processes
            try:
                for _ in range(min(self._limit, count)):
                    self._processes.append(EnvProcess(self._config, self._encoder))
            except BaseException:
                self.close()
                raise
        self._shared = SharedArrays(self._template, count)
        try:
            content = pickle.dumps((self._template, count, self._shared.file))
            for process in self._processes:
                process.send("memory", content)
            self._under_way.append(_Request(np.zeros(0, int), list(self._processes)))
            self._wait()
        finally:
            shared = self._shared
            if shared is not None:
                shared.unlink()
        assert shared is not None
        return shared

    def _send(self, kind: str, numbers: np.ndarray, content: bytes = b"") -> None:
        """Send a request to all processes that have some of these environments."""
        places, busy = numbers % len(self._processes), []
        try:
            for place, process in enumerate(self._processes):
                own = numbers[places == place]
                if len(own):
                    process.send(kind, own.tobytes(), content)
                    busy.append(process)
        except BaseException:
            self.close()
            raise
        self._under_way.append(_Request(numbers, busy))

    def _wait(self) -> np.ndarray:
        """Wait until the first request is done, and return its environments."""
        request = self._under_way.popleft()
        try:
            for process in request.busy:
                process.receive()
        except BaseException:
            self.close()  # unread results would be taken for those of the next request
            raise
        return request.numbers


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
            kind, (request, *more) = channel.receive()
            try:
                if kind == "memory":
                    shared = SharedArrays(*pickle.loads(request))
                else:
                    numbers = np.frombuffer(request, np.int64)
                    if kind == "reset":
                        shared.write_observations(
                            numbers, pool.reset_some(numbers.tolist(), shared.seeds[numbers].tolist())
                        )
                    else:
                        shared.write(numbers, pool.step(numbers, shared.actions[numbers], int(more[0])))
            except TfsmError as error:
                channel.send("failed", [str(error).encode()])
            else:
                channel.send("done", [b""])


class RenderedEnv:
    """An environment that is rendered in a process of its own.

    MuJoCo's software rendering and TensorFlow both contain LLVM, and crash in one process.

    Args:
        config: how to make the environment.
    """

    def __init__(self, config: EnvConfig) -> None:
        self._name = config.name
        self._process = ChildProcess("tfsm_domains.gym.env_pool:serve_rendered")
        self.render_mode, self.metadata = self._call("make", config)

    def reset(self, *, seed: int) -> Any:
        """Start an episode."""
        return self._call("reset", seed)

    def step(self, action: Any) -> Any:
        """Take one step."""
        return self._call("step", action)

    def render(self) -> Any:
        """Return a frame."""
        return self._call("render", None)

    def close(self) -> None:
        """End the process."""
        self._process.close(GRACE_SECONDS)

    def _call(self, kind: str, argument: Any) -> Any:
        import cloudpickle

        try:
            self._process.channel.send(kind, [cloudpickle.dumps(argument)])
            answer, (content,) = self._process.channel.receive()
        except (EOFError, OSError):
            reason = self._process.describe_exit(GRACE_SECONDS)
            raise TfsmError(f"{PURPOSE}: the process that rendered {self._name!r} has ended ({reason})") from None
        if answer == "failed":
            raise TfsmError(content.decode())
        return pickle.loads(content)


def serve_rendered(channel: Channel) -> None:
    """Serve a `RenderedEnv`, until the channel is closed."""
    with ExitStack() as stack, quiet_gymnasium(), suppress(EOFError, OSError):
        while True:
            kind, (content,) = channel.receive()
            try:
                argument = pickle.loads(content)
                if kind == "make":
                    env = make_env(argument, render=True)
                    stack.callback(env.close)
                    answer: Any = env.render_mode, dict(env.metadata)
                elif kind == "reset":
                    answer = env.reset(seed=argument)[0], {}
                elif kind == "step":
                    answer = (*env.step(argument)[:4], {})
                else:
                    answer = np.asarray(env.render())
                channel.send("done", [pickle.dumps(answer)])
            except TfsmError as error:
                channel.send("failed", [str(error).encode()])
            except Exception as error:
                channel.send("failed", [describe_env_error(error).encode()])
