"""Make Gymnasium environments, and step many copies of one, in this process or in several."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import pickle
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from tfsm.errors import TfsmError, import_optional
from tfsm.parallel.processes import Channel, ChildProcess, count_cores

PURPOSE: Final = "the domain 'gym'"
LIMIT: Final = 10_000
"""Steps per episode if neither the user nor the environment sets a limit; some environments never terminate."""
OURS: Final = "tfsm/"
"""The namespace of tfsm's own environments."""
GRACE_SECONDS: Final = 5.0
"""Time for a process to end by itself."""
_PROTOCOL: Final = pickle.HIGHEST_PROTOCOL  # without buffers on the side, which cost more than they save here
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")


class EnvConfig(NamedTuple):
    """How to make an environment; can be pickled."""

    name: str
    options: Mapping[str, Any]
    steps: int | None
    """Maximum steps per episode; None: the environment's own limit."""
    spec: Any = None
    """The spec registered under that name, for processes in which it is not registered."""


def gymnasium() -> Any:
    """Import Gymnasium."""
    return import_optional("gymnasium", extra="gym", purpose=PURPOSE)


def parse_env_options(text: str) -> dict[str, Any]:
    """Parse keyword arguments from JSON or a Python dict literal.

    >>> parse_env_options('{"map_name": "8x8"}') == parse_env_options("{'map_name': '8x8'}")
    True
    """
    for read in (json.loads, ast.literal_eval):
        try:
            options = read(text)
        except (TypeError, ValueError, SyntaxError):
            continue
        if isinstance(options, dict) and all(isinstance(key, str) for key in options):
            return options
    raise TfsmError(f'env_options={text}: expected keyword arguments as JSON, such as {{"map_name": "8x8"}}')


def make_env(config: EnvConfig, *, warn: bool = True, render: bool = False) -> Any:
    """Make an environment.

    Args:
        config: which environment, and its options.
        warn: whether to warn about an outdated version.
        render: whether to render frames.
    """
    gym = gymnasium()
    if config.name.startswith(OURS) and importlib.util.find_spec("tfsm_domains.envs") is not None:
        importlib.import_module("tfsm_domains.envs")
    if ":" in config.name and "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # as with `python -m`, for modules of the user
    options = dict(config.options) | ({"render_mode": "rgb_array"} if render else {})
    if config.steps is not None:
        options["max_episode_steps"] = config.steps
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            env = gym.make(config.spec or config.name, **{"disable_env_checker": True, **options})
        except Exception as error:
            raise TfsmError(f"the environment {config.name!r} cannot be made: {describe_env_error(error)}") from error
    for text in dict.fromkeys(_strip_colors(str(warning.message)) for warning in caught) if warn else ():
        if "version" in text:
            warnings.warn(text, stacklevel=2)
    limited = env.spec is not None and env.spec.max_episode_steps is not None
    return env if limited else gym.wrappers.TimeLimit(env, LIMIT)


def registered_spec(env: Any) -> Any:
    """Return the registered spec of an environment, or None."""
    return gymnasium().registry.get(env.spec.id) if env.spec is not None else None


def describe_env_error(error: BaseException) -> str:
    """Return an error's message on one line, with its type unless it is one of Gymnasium's own."""
    message = " ".join(str(error).split())
    is_gymnasium = type(error).__module__.partition(".")[0] == "gymnasium"
    return message if is_gymnasium and message else f"{type(error).__name__}: {message}".removesuffix(": ")


def describe_pickle_error(name: str, error: BaseException) -> str:
    """Return the message for an environment that cannot be pickled or unpickled."""
    what = f"the environment {name!r}" if name else "the environment"
    return f"{what} cannot be sent to another process ({describe_env_error(error)}): use --set vector=sync"


@contextmanager
def quiet_gymnasium() -> Iterator[None]:
    """Suppress Gymnasium's warnings about how environments are used."""
    logger = gymnasium().logger
    before, logger.min_level = logger.min_level, logger.ERROR
    try:
        yield
    finally:
        logger.min_level = before


def _strip_colors(text: str) -> str:
    return " ".join(_COLOUR.sub("", text).removeprefix("WARN: ").split())


class StepResult(NamedTuple):
    """The result of one action."""

    observation: Any
    reward: float
    """The sum over all steps of the action."""
    terminated: bool
    truncated: bool
    steps: int


class EnvPool(Protocol):
    """Many copies of an environment, numbered from 0."""

    def reset(self, seeds: Sequence[int]) -> list[Any]:
        """Start one episode per seed and return the first observations."""
        ...

    def step(self, numbers: Sequence[int], actions: Sequence[Any], hold: int) -> list[StepResult]:
        """Act in some of the environments, `hold` steps per action."""
        ...

    def close(self) -> None:
        """Close all of them."""
        ...


class LocalEnvPool:
    """Environments in this process, made on first use.

    Args:
        name: the environment's name, for messages.
        make: makes one copy.
    """

    def __init__(self, name: str, make: Callable[[], Any]) -> None:
        self._name, self._make = name, make
        self._envs: list[Any] = []

    def reset(self, seeds: Sequence[int]) -> list[Any]:
        """Start episodes."""
        while len(self._envs) < len(seeds):
            self._envs.append(self._make())
        try:
            return [env.reset(seed=seed)[0] for env, seed in zip(self._envs, seeds, strict=False)]
        except TfsmError:
            raise  # already a message for the user
        except Exception as error:
            raise env_error(self._name, "reset", error) from error

    def step(self, numbers: Sequence[int], actions: Sequence[Any], hold: int) -> list[StepResult]:
        """Act in some environments."""
        try:
            return [repeat_action(self._envs[i], action, hold) for i, action in zip(numbers, actions, strict=True)]
        except TfsmError:
            raise
        except Exception as error:
            raise env_error(self._name, "step", error) from error

    def close(self) -> None:
        """Close all."""
        for env in self._envs:
            with suppress(Exception):  # it is not used again, so errors do not matter
                env.close()
        self._envs.clear()


def repeat_action(env: Any, action: Any, times: int) -> StepResult:
    """Repeat an action for some steps, or until the episode is over."""
    total, steps = 0.0, 0
    while True:
        observation, reward, terminated, truncated, _ = env.step(action)
        total, steps = total + float(reward), steps + 1
        if terminated or truncated or steps == times:
            return StepResult(observation, total, bool(terminated), bool(truncated), steps)


def env_error(name: str, what: str, error: Exception) -> TfsmError:
    """Return the error for an environment that raised one."""
    return TfsmError(f"the environment {name!r} failed in {what}(): {describe_env_error(error)}")


class EnvProcess:
    """A process that makes and steps environments.

    Args:
        config: how to make one.
    """

    def __init__(self, config: EnvConfig) -> None:
        import cloudpickle  # comes with Gymnasium, and pickles classes of a script by value

        self._name = config.name
        try:
            content = cloudpickle.dumps(config)
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

    def receive(self) -> list[Any]:
        """Wait for the results of the last request."""
        try:
            kind, (content,) = self._process.channel.receive()
        except (EOFError, OSError):
            raise self._death() from None
        if kind == "failed":
            raise TfsmError(content.decode())
        return list(pickle.loads(content))

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
        processes: number of processes; one per core if None.
    """

    def __init__(self, config: EnvConfig, processes: int | None = None) -> None:
        self._config = config
        self._limit = processes or count_cores()
        self._processes: list[EnvProcess] = []

    def reset(self, seeds: Sequence[int]) -> list[Any]:
        """Start episodes."""
        while len(self._processes) < min(self._limit, len(seeds)):
            self._processes.append(EnvProcess(self._config))
        return self._request("reset", range(len(seeds)), [int(seed) for seed in seeds], 0)

    def step(self, indices: Sequence[int], actions: Sequence[Any], hold: int) -> list[StepResult]:
        """Take a step in some of the environments."""
        return self._request("step", indices, actions, hold)

    def close(self) -> None:
        """End all processes."""
        for process in self._processes:
            process.close()
        self._processes.clear()

    def _request(self, kind: str, indices: Sequence[int], arguments: Sequence[Any], hold: int) -> list[Any]:
        shares: list[list[int]] = [[] for _ in self._processes]
        for place, index in enumerate(indices):
            shares[index % len(shares)].append(place)
        busy = [(process, share) for process, share in zip(self._processes, shares, strict=True) if share]
        results: list[Any] = [None] * len(indices)
        try:
            for process, share in busy:
                process.send(kind, pickle.dumps(([(indices[i], arguments[i]) for i in share], hold), _PROTOCOL))
            for process, share in busy:
                for place, result in zip(share, process.receive(), strict=True):
                    results[place] = result
        except BaseException:
            self.close()  # unread results would be taken for those of the next request
            raise
        return results


def serve(channel: Channel) -> None:
    """Serve requests in a process of a `ProcessEnvPool`, until the channel is closed.

    Args:
        channel: receives the pickled `EnvConfig` first, then requests to reset or step environments.
    """
    _, (content,) = channel.receive()
    try:
        share = _EnvShare(pickle.loads(content))
    except Exception as error:
        channel.receive()  # the first request, which this answers
        channel.send("failed", [describe_pickle_error("", error).encode()])
        return
    with quiet_gymnasium(), closing(share), suppress(EOFError, OSError):  # until the other end is closed
        while True:
            kind, (request,) = channel.receive()
            items, hold = pickle.loads(request)
            try:
                results = pickle.dumps(share.handle(kind, items, hold), _PROTOCOL)
            except TfsmError as error:
                channel.send("failed", [str(error).encode()])
            else:
                channel.send("done", [results])


class _EnvShare:
    """The environments of one process.

    Args:
        config: how to make one.
    """

    def __init__(self, config: EnvConfig) -> None:
        self._config = config
        self._envs: dict[int, Any] = {}

    def handle(self, kind: str, items: list[tuple[int, Any]], hold: int) -> list[Any]:
        """Reset or step some environments by their index."""
        for index, _ in items:
            if index not in self._envs:
                self._envs[index] = make_env(self._config, warn=False)
        try:
            if kind == "step":
                return [repeat_action(self._envs[index], action, hold) for index, action in items]
            return [self._envs[index].reset(seed=seed)[0] for index, seed in items]
        except Exception as error:
            raise env_error(self._config.name, kind, error) from error

    def close(self) -> None:
        """Close all environments."""
        for env in self._envs.values():
            with suppress(Exception):
                env.close()
