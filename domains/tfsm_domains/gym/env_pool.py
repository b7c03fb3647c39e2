"""Make Gymnasium environments, and step many copies of one, in this process or in several."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, Protocol

from tfsm.errors import TfsmError
from tfsm.utils.optional import optional

PURPOSE: Final = "the domain 'gym'"
LIMIT: Final = 10_000
"""Steps per episode if neither the user nor the environment sets a limit; some environments never terminate."""
OURS: Final = "tfsm/"
"""The namespace of tfsm's own environments."""
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
    return optional("gymnasium", extra="gym", purpose=PURPOSE)


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
            raise TfsmError(f"the environment {config.name!r} cannot be made: {describe_error(error)}") from error
    for text in dict.fromkeys(_strip_colors(str(warning.message)) for warning in caught) if warn else ():
        if "version" in text:
            warnings.warn(text, stacklevel=2)
    limited = env.spec is not None and env.spec.max_episode_steps is not None
    return env if limited else gym.wrappers.TimeLimit(env, LIMIT)


def registered_spec(env: Any) -> Any:
    """Return the registered spec of an environment, or None."""
    return gymnasium().registry.get(env.spec.id) if env.spec is not None else None


def describe_error(error: BaseException) -> str:
    """Return an error's message on one line, with its type unless it is one of Gymnasium's own."""
    message = " ".join(str(error).split())
    is_gymnasium = type(error).__module__.partition(".")[0] == "gymnasium"
    return message if is_gymnasium and message else f"{type(error).__name__}: {message}".removesuffix(": ")


def describe_pickle_error(name: str, error: BaseException) -> str:
    """Return the message for an environment that cannot be pickled or unpickled."""
    what = f"the environment {name!r}" if name else "the environment"
    return f"{what} cannot be sent to another process ({describe_error(error)}): use --set vector=sync"


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
    return TfsmError(f"the environment {name!r} failed in {what}(): {describe_error(error)}")


# Not by multiprocessing: a fork of a process with TensorFlow's threads may hang, and a spawned one imports the user's
# script again.
_PROGRAM: Final = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); from tfsm_domains.gym.env_pool import main; main()"
)


class Worker:
    """A process that makes and steps environments, as `tfsm_domains.gym.env_pool` does.

    Args:
        config: how to make one.
    """

    def __init__(self, config: EnvConfig) -> None:
        import cloudpickle  # comes with Gymnasium, and takes classes of a script along

        self._name = config.name
        try:
            message = cloudpickle.dumps(config)
        except Exception as error:
            raise TfsmError(describe_pickle_error(config.name, error)) from error
        command = [sys.executable, "-c", _PROGRAM, json.dumps(sys.path)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.tell(message)

    def tell(self, message: Any) -> None:
        """Send a message."""
        assert self._process.stdin is not None
        try:
            pickle.dump(message, self._process.stdin, pickle.HIGHEST_PROTOCOL)
            self._process.stdin.flush()
        except OSError:
            raise self._gone() from None

    def answer(self) -> list[Any]:
        """Wait for what the last message led to."""
        assert self._process.stdout is not None
        try:
            found, problem = pickle.load(self._process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            raise self._gone() from None
        if problem:
            raise TfsmError(problem)
        return list(found)

    def close(self) -> None:
        """End the process."""
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                assert pipe is not None
                pipe.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _gone(self) -> TfsmError:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)
        code = self._process.returncode
        return TfsmError(f"{PURPOSE}: a process that ran {self._name!r} has ended (exit code {code})")


class ProcessEnvPool:
    """Environments in several processes; the i-th is in process i modulo their number.

    Args:
        config: how to make one.
        processes: how many; as many as there are cores if None.
    """

    def __init__(self, config: EnvConfig, processes: int | None = None) -> None:
        self._config = config
        self._most = processes or _cores()
        self._workers: list[Worker] = []

    def reset(self, seeds: Sequence[int]) -> list[Any]:
        """Start episodes."""
        while len(self._workers) < min(self._most, len(seeds)):
            self._workers.append(Worker(self._config))
        return self._asked("reset", range(len(seeds)), [int(seed) for seed in seeds], 0)

    def step(self, numbers: Sequence[int], actions: Sequence[Any], hold: int) -> list[StepResult]:
        """Act in some environments."""
        return self._asked("step", numbers, actions, hold)

    def close(self) -> None:
        """End all processes."""
        for worker in self._workers:
            worker.close()
        self._workers.clear()

    def _asked(self, what: str, numbers: Sequence[int], arguments: Sequence[Any], hold: int) -> list[Any]:
        shares: list[list[int]] = [[] for _ in self._workers]
        for place, number in enumerate(numbers):
            shares[number % len(shares)].append(place)
        busy = [(worker, share) for worker, share in zip(self._workers, shares, strict=True) if share]
        found: list[Any] = [None] * len(numbers)
        try:
            for worker, share in busy:
                worker.tell((what, [(numbers[i], arguments[i]) for i in share], hold))
            for worker, share in busy:
                for place, one in zip(share, worker.answer(), strict=True):
                    found[place] = one
        except BaseException:
            self.close()  # answers that nobody has read would be taken for those to the next question
            raise
        return found


def _cores() -> int:
    # Those that this process may use; not every system tells.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def main() -> None:
    """Serve until the input ends, which it does with the process at its other end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all processes; it is for the other one
    with os.fdopen(os.dup(1), "wb") as output:
        os.dup2(2, 1)  # what environments print is no answer
        serve(sys.stdin.buffer, output)


def serve(messages: BinaryIO, output: BinaryIO) -> None:
    """Answer messages: first comes the config, pickled, then what to do with which environments."""
    try:
        share = _Share(pickle.loads(pickle.load(messages)))
    except Exception as error:
        pickle.dump(([], describe_pickle_error("", error)), output)
        return
    with quiet_gymnasium(), closing(share):
        while True:
            try:
                what, items, hold = pickle.load(messages)
            except EOFError:
                return
            try:
                answer = pickle.dumps((share.asked(what, items, hold), ""), pickle.HIGHEST_PROTOCOL)
            except TfsmError as error:
                answer = pickle.dumps(([], str(error)))
            output.write(answer)
            output.flush()


class _Share:
    """This process's share of the environments.

    Args:
        config: how to make one.
    """

    def __init__(self, config: EnvConfig) -> None:
        self._config = config
        self._envs: dict[int, Any] = {}

    def asked(self, what: str, items: list[tuple[int, Any]], hold: int) -> list[Any]:
        """Reset or step some environments, by their numbers."""
        for number, _ in items:
            if number not in self._envs:
                self._envs[number] = make_env(self._config, warn=False)
        try:
            if what == "step":
                return [repeat_action(self._envs[number], action, hold) for number, action in items]
            return [self._envs[number].reset(seed=seed)[0] for number, seed in items]
        except Exception as error:
            raise env_error(self._config.name, what, error) from error

    def close(self) -> None:
        """Close all."""
        for env in self._envs.values():
            with suppress(Exception):
                env.close()
