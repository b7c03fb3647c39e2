"""Make/step copies, here or in processes."""

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
"""Steps of an episode where neither the user nor the environment has a limit: some never end by themselves."""
OURS: Final = "tfsm/"
"""The namespace of tfsm's own environments."""
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")


class Recipe(NamedTuple):
    """How to make an environment; it can be pickled."""

    name: str
    options: Mapping[str, Any]
    steps: int | None
    """Most steps of an episode, in place of the environment's own limit."""
    spec: Any = None
    """What is registered by that name, for a process in which it is not."""


def gymnasium() -> Any:
    """Import Gymnasium."""
    return optional("gymnasium", extra="gym", purpose=PURPOSE)


def parsed(text: str) -> dict[str, Any]:
    """Read keyword arguments, which are JSON, or a dict as Python writes it.

    >>> parsed('{"map_name": "8x8", "is_slippery": false}') == parsed("{'map_name': '8x8', 'is_slippery': False}")
    True
    """
    for read in (json.loads, ast.literal_eval):
        try:
            found = read(text)
        except (TypeError, ValueError, SyntaxError):
            continue
        if isinstance(found, dict) and all(isinstance(key, str) for key in found):
            return found
    raise TfsmError(f'env_options={text}: expected keyword arguments as JSON, such as {{"map_name": "8x8"}}')


def make(recipe: Recipe, *, told: bool = True, render: bool = False) -> Any:
    """Make an environment.

    Args:
        recipe: which, and how.
        told: whether the user is told of a version that is out of date.
        render: whether it shall draw pictures.
    """
    gym = gymnasium()
    if recipe.name.startswith(OURS) and importlib.util.find_spec("tfsm_domains.envs") is not None:
        importlib.import_module("tfsm_domains.envs")
    if ":" in recipe.name and "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # as `python -m` has it: a user's module lies there
    options = dict(recipe.options) | ({"render_mode": "rgb_array"} if render else {})
    if recipe.steps is not None:
        options["max_episode_steps"] = recipe.steps
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            env = gym.make(recipe.spec or recipe.name, **{"disable_env_checker": True, **options})
        except Exception as error:
            raise TfsmError(f"the environment {recipe.name!r} cannot be made: {reason(error)}") from error
    for text in dict.fromkeys(_plain(str(warning.message)) for warning in said) if told else ():
        if "version" in text:
            warnings.warn(text, stacklevel=2)
    limited = env.spec is not None and env.spec.max_episode_steps is not None
    return env if limited else gym.wrappers.TimeLimit(env, LIMIT)


def registered(env: Any) -> Any:
    """Return what is registered of an environment; None where nothing is."""
    return gymnasium().registry.get(env.spec.id) if env.spec is not None else None


def reason(error: BaseException) -> str:
    """Return in one line what an error says; of its type only where it is not Gymnasium's."""
    words = " ".join(str(error).split())
    own = type(error).__module__.partition(".")[0] == "gymnasium"
    return words if own and words else f"{type(error).__name__}: {words}".removesuffix(": ")


def unsendable(name: str, error: BaseException) -> str:
    """Return what to tell of an environment that cannot be pickled, or not read again."""
    what = f"the environment {name!r}" if name else "the environment"
    return f"{what} cannot be sent to another process ({reason(error)}): use --set vector=sync"


@contextmanager
def quiet() -> Iterator[None]:
    """Keep Gymnasium from warning of how environments are used."""
    logger = gymnasium().logger
    before, logger.min_level = logger.min_level, logger.ERROR
    try:
        yield
    finally:
        logger.min_level = before


def _plain(text: str) -> str:
    return " ".join(_COLOUR.sub("", text).removeprefix("WARN: ").split())


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


# Not by multiprocessing: a fork of a process with TensorFlow's threads may hang, and a spawned one imports the user's
# script again.
_PROGRAM: Final = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); from tfsm_domains.gym.env_pool import main; main()"
)


class Worker:
    """A process that makes and steps environments, as `tfsm_domains.gym.env_pool` does.

    Args:
        recipe: how to make one.
    """

    def __init__(self, recipe: Recipe) -> None:
        import cloudpickle  # comes with Gymnasium, and takes classes of a script along

        self._name = recipe.name
        try:
            message = cloudpickle.dumps(recipe)
        except Exception as error:
            raise TfsmError(unsendable(recipe.name, error)) from error
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


class Elsewhere:
    """Environments in several processes; the i-th is in process i modulo their number.

    Args:
        recipe: how to make one.
        processes: how many; as many as there are cores if None.
    """

    def __init__(self, recipe: Recipe, processes: int | None = None) -> None:
        self._recipe = recipe
        self._most = processes or _cores()
        self._workers: list[Worker] = []

    def reset(self, seeds: Sequence[int]) -> list[Any]:
        """Begin episodes."""
        while len(self._workers) < min(self._most, len(seeds)):
            self._workers.append(Worker(self._recipe))
        return self._asked("reset", range(len(seeds)), [int(seed) for seed in seeds], 0)

    def step(self, numbers: Sequence[int], actions: Sequence[Any], hold: int) -> list[Stepped]:
        """Act."""
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
    """Answer messages: first comes the recipe, pickled, then what to do with which environments."""
    try:
        share = _Share(pickle.loads(pickle.load(messages)))
    except Exception as error:
        pickle.dump(([], unsendable("", error)), output)
        return
    with quiet(), closing(share):
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
        recipe: how to make one.
    """

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self._envs: dict[int, Any] = {}

    def asked(self, what: str, items: list[tuple[int, Any]], hold: int) -> list[Any]:
        """Reset or step some environments, by their numbers."""
        for number, _ in items:
            if number not in self._envs:
                self._envs[number] = make(self._recipe, told=False)
        try:
            if what == "step":
                return [held(self._envs[number], action, hold) for number, action in items]
            return [self._envs[number].reset(seed=seed)[0] for number, seed in items]
        except Exception as error:
            raise failed(self._recipe.name, what, error) from error

    def close(self) -> None:
        """Close all."""
        for env in self._envs.values():
            with suppress(Exception):
                env.close()
