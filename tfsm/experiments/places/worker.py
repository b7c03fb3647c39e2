"""The worker's side of every pool: do a task, and say how it went."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from typing import Any, TypeAlias

from tfsm.errors import TfsmError
from tfsm.experiments.places.task import Desk, Failure, Kind, Task

Told: TypeAlias = tuple[Kind, Any]


def perform(task: Task, desk: Desk) -> Iterator[Told]:
    """Do a task: tell each event as it comes, then that it is done or why it failed."""
    last: Told
    try:
        events = task(desk)
        while True:
            try:
                event = next(events)
            except StopIteration as end:
                last = "done", end.value
                break
            yield "event", event
    except GeneratorExit:
        raise
    except BaseException as error:  # also what would end the process, such as sys.exit() in somebody's code
        last = "failed", failure(error)
    yield last


def failure(error: BaseException) -> Failure:
    r"""Put an exception into words.

    >>> failure(TfsmError("no such thing")).text
    'no such thing'
    >>> failure(ValueError("odd\nand more")).text
    'ValueError: odd'
    """
    ours = isinstance(error, TfsmError)
    first = next(iter(str(error).strip().splitlines()), "")
    text = str(error) if ours else f"{type(error).__name__}: {first}".removesuffix(": ")
    return Failure(ours, text, "".join(traceback.format_exception(error)))
