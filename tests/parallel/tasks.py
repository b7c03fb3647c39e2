"""Tasks for tests of pools; each does one thing."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tfsm.errors import TfsmError
from tfsm.parallel.worker import WorkerContext


@dataclass(frozen=True)
class YieldValues:
    """Yields some values and returns another."""

    values: tuple[Any, ...] = ()
    last: Any = None

    def __call__(self, context: WorkerContext) -> Iterator[Any]:
        yield from self.values
        return self.last


@dataclass(frozen=True)
class WaitForFile:
    """Yields its process id, then waits for a file, then yields again."""

    file: Path

    def __call__(self, context: WorkerContext) -> Iterator[Any]:
        yield os.getpid()
        while not self.file.exists():
            time.sleep(0.01)
        yield "late"


@dataclass(frozen=True)
class Die:
    """Yields its process id, then dies in one of several ways."""

    how: str

    def __call__(self, context: WorkerContext) -> Iterator[Any]:
        yield os.getpid()
        time.sleep(0.05)
        if self.how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.how == "exit":
            os._exit(3)
        elif self.how == "segfault":
            ctypes.string_at(0)
        elif self.how == "abort":
            os.write(2, b"out of luck\n")
            os.abort()


@dataclass(frozen=True)
class Raise:
    """Yields once, then raises."""

    error: BaseException

    def __call__(self, context: WorkerContext) -> Iterator[Any]:
        yield "before"
        raise self.error


def raise_user_error(context: WorkerContext) -> Iterator[Any]:
    raise TfsmError("no such thing: take another\nand a second line")
    yield


def run_out_of_memory(context: WorkerContext) -> Iterator[Any]:
    limits = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**28, limits[1]))
    try:
        yield np.ones(2**28).sum()
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


def spin(context: WorkerContext) -> Iterator[Any]:
    yield os.getpid()
    while True:
        pass


def sleep(context: WorkerContext) -> Iterator[Any]:
    yield os.getpid()
    time.sleep(3600)


def flood(context: WorkerContext) -> Iterator[Any]:
    number = 0
    while True:
        yield number
        number += 1


def run_until_stopped(context: WorkerContext) -> Iterator[Any]:
    yield context.should_stop()
    while not context.should_stop():
        time.sleep(0.01)
    return "stopped"


def count_tasks(context: WorkerContext) -> Iterator[Any]:
    context.cache["tasks"] = context.cache.get("tasks", 0) + 1
    yield context.cache["tasks"]
    return os.getpid()


def print_much(context: WorkerContext) -> Iterator[Any]:
    for number in range(3):
        print("seen nowhere", "x" * 200_000)
        print("seen nowhere", "x" * 200_000, file=sys.stderr)
        os.write(1, b"seen nowhere\n")
        yield number


def yield_environment(context: WorkerContext) -> Iterator[Any]:
    yield dict(os.environ), "tensorflow" in sys.modules


def count_tensorflow_threads(context: WorkerContext) -> Iterator[Any]:
    import tensorflow as tf

    tf.linalg.matmul(tf.ones((512, 512)), tf.ones((512, 512))).numpy()
    yield len(os.listdir("/proc/self/task"))


def yield_unsendable(context: WorkerContext) -> Iterator[Any]:
    yield (number for number in range(3))


@dataclass(frozen=True)
class DoubleArray:
    """Yields twice an array."""

    array: Any

    def __call__(self, context: WorkerContext) -> Iterator[Any]:
        yield self.array * 2


def start_subprocess(context: WorkerContext) -> Iterator[Any]:
    import subprocess

    yield subprocess.Popen(["sleep", "3600"]).pid
    time.sleep(3600)


class Unloadable:
    """Can be pickled but not loaded."""

    def __reduce__(self) -> Any:
        return _refuse, ()


def _refuse() -> None:
    raise RuntimeError("not here")


def send_unloadable(context: WorkerContext) -> Iterator[Any]:
    yield Unloadable()
    time.sleep(3600)
