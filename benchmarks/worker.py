"""A process for each library: two of them in one process may share, or quarrel over, threads and memory."""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

_GO_AWAY = None
START_SECONDS = 300.0
CALL_SECONDS = 300.0


class Worker:
    """Runs a library's sides in a process of its own, one call at a time; in between it sleeps.

    Args:
        module: the module whose `sides` it serves.
        genomes: what it says the fitness of, so that libraries can be compared.
        quick: whether to leave out what takes long to prepare.
    """

    def __init__(self, module: str, genomes: np.ndarray, *, quick: bool) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(module, genomes, quick, theirs), daemon=True)
        self._process.start()
        theirs.close()
        self.hello: dict[str, Any] = self._answer(START_SECONDS)

    @property
    def missing(self) -> str:
        """Why the library takes no part; empty if it does."""
        return str(self.hello.get("missing", ""))

    def repeat(self, side: str, seconds: float) -> tuple[float, int]:
        """Call a side for about so long; return the seconds of one call, and how many there were."""
        self._connection.send((side, seconds))
        answer = self._answer(CALL_SECONDS)
        if "missing" in answer:
            raise RuntimeError(answer["missing"])
        return answer["seconds"], answer["calls"]

    def close(self) -> None:
        """End the process."""
        if self._process.is_alive():
            with contextlib.suppress(OSError):  # it may have ended meanwhile
                self._connection.send(_GO_AWAY)
            self._process.join(5)
            self._process.terminate()
        self._connection.close()

    def _answer(self, seconds: float) -> dict[str, Any]:
        if not self._connection.poll(seconds):
            self._process.terminate()
            return {"missing": f"no answer within {seconds:.0f} s"}
        try:
            found: dict[str, Any] = self._connection.recv()
        except EOFError:
            self._process.join(5)
            return {"missing": f"its process ended with code {self._process.exitcode}"}
        return found


def _serve(module: str, genomes: np.ndarray, quick: bool, connection: Connection) -> None:
    began = time.perf_counter()
    try:
        with _quiet():
            library = importlib.import_module(module)
        served = library.sides(quick)
        everything = served.whole | served.parts
        rehearsed = {name: side for name, side in everything.items() if not side.heavy}
        for side in rehearsed.values():
            side.call()
        hello = {
            "fitness": np.asarray(served.fitness(genomes), float).tolist(),
            "whole": {name: (side.evaluations, side.about) for name, side in served.whole.items()},
            "parts": {name: side.evaluations for name, side in served.parts.items()},
            "seconds": time.perf_counter() - began,
        }
    except Exception as error:  # a library may be missing, or fail, in any way; the others still take part
        connection.send({"missing": f"{type(error).__name__}: {error}"})
        return
    connection.send(hello)
    while (request := connection.recv()) is not _GO_AWAY:
        name, seconds = request
        calls, start = 0, time.perf_counter()
        while calls == 0 or time.perf_counter() - start < seconds:
            everything[name].call()
            calls += 1
        connection.send({"seconds": (time.perf_counter() - start) / calls, "calls": calls})


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep start-up notices, which some libraries write straight to the file descriptor, off the terminal."""
    kept = os.dup(2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
