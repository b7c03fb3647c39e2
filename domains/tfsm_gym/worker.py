"""The process that `tfsm_gym.workers` starts: it makes environments and steps them as it is told through its input."""

from __future__ import annotations

import os
import pickle
import signal
import sys
from contextlib import closing, suppress
from typing import Any, BinaryIO

from tfsm.errors import TfsmError
from tfsm_gym.environments import failed, held
from tfsm_gym.loading import Recipe, make, quiet, unsendable


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
