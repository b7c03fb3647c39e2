"""What is sent between a driver and its processes, by pickle or by cloudpickle where that is installed.

A class or function of the user's script is told by its name in a pickle, and a worker does not run that script.
cloudpickle, which comes with Gymnasium, sends it whole. Without it such a task is refused in words.
"""

from __future__ import annotations

import importlib
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from tfsm.errors import TfsmError
from tfsm.experiments.places.channel import Frames, pack, unpack
from tfsm.experiments.places.task import Desk, Kind, Task
from tfsm.experiments.places.worker import failure, perform


def pack_task(task: Task) -> Frames:
    """Pickle a task, with what of it is in the user's script."""
    try:
        return pack(task, _by_value() or pickle.dumps)
    except Exception as error:
        raise TfsmError(_refused("sent to", error)) from error


def unpack_task(frames: Frames) -> Task:
    """Return the task again, in a worker."""
    try:
        task: Task = unpack(frames)
    except Exception as error:
        raise TfsmError(_refused("loaded in", error)) from error
    return task


def told_of(frames: Frames, desk: Desk) -> Iterator[tuple[Kind, Frames]]:
    """Do a task that came in a pickle; pickle what is to be told of it."""
    try:
        for kind, content in perform(unpack_task(frames), desk):
            yield kind, _pack_result(content)
    except Exception as error:
        yield "failed", pack(failure(error))


def _pack_result(value: Any) -> Frames:
    """Pickle what a task told: by pickle, which is faster, unless it is of a class that came with the task."""
    try:
        return pack(value)
    except Exception:
        by_value = _by_value()
        if by_value is None:
            raise
        return pack(value, by_value)


def _by_value() -> Callable[..., bytes] | None:
    # Ray has one of its own, which is not worth importing Ray for.
    for name in ("cloudpickle", "ray.cloudpickle"):
        with suppress(ImportError):
            if name == "cloudpickle" or "ray" in sys.modules:
                found: Callable[..., bytes] = importlib.import_module(name).dumps
                return found
    return None


def _refused(what: str, error: Exception) -> str:
    hint = "" if _by_value() else ", or pip install cloudpickle"
    text = f"{type(error).__name__}: {error}"
    return f"a task cannot be {what} another process ({text}): define its parts in a module that can be imported{hint}"
