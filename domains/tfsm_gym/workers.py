"""Environments in processes of their own, a share of them in each."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from tfsm.errors import TfsmError
from tfsm_gym.environments import Stepped
from tfsm_gym.loading import PURPOSE, Recipe, unsendable

# Not by multiprocessing: a fork of a process with TensorFlow's threads may hang, and a spawned one imports the user's
# script again.
_PROGRAM: Final = "import sys, json; sys.path[:] = json.loads(sys.argv[1]); from tfsm_gym.worker import main; main()"


class Worker:
    """A process that makes and steps environments, as `tfsm_gym.worker` does.

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
