"""The contracts: what a task is, what a worker keeps, what a pool tells."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Literal, NamedTuple, Protocol, Self, TypeAlias

Kind: TypeAlias = Literal["event", "done", "failed", "died"]


class Desk:
    """What a worker keeps from one task to the next.

    Attributes:
        kept: for the tasks' own use, such as what was compiled; empty when a worker begins.
    """

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}
        self._stop = threading.Event()

    def stopping(self) -> bool:
        """Say whether the task under way was asked to end soon."""
        return self._stop.is_set()

    def ask_to_stop(self) -> None:
        """Ask the task under way to end soon; it may be called from another thread."""
        self._stop.set()

    def clear(self) -> None:
        """Take back what was asked, for the next task."""
        self._stop.clear()


Task: TypeAlias = Callable[[Desk], Iterator[Any]]
"""An object that can be pickled; what it yields is sent at once, and what it returns when it is done."""


class Failure(NamedTuple):
    """Why a task failed.

    Attributes:
        ours: it was a `TfsmError`, so that the text is for the user.
        text: what was wrong, in one line unless it is ours.
        trace: the traceback as a text.
    """

    ours: bool
    text: str
    trace: str


class Message(NamedTuple):
    """What a pool tells of one of its workers.

    Attributes:
        worker: its number.
        kind: `event` for a value that the task yielded; `done` when it ended; `failed` when it raised, which the
            worker survives; `died` when the worker is gone and another, its desk empty, has taken its number.
        content: the value, what the task returned, a `Failure`, or words for the user.
    """

    worker: int
    kind: Kind
    content: Any


class Pool(Protocol):
    """Workers, numbered from zero, each of which does one task at a time.

    Attributes:
        size: how many.
    """

    size: int

    def begun(self, worker: int) -> bool:
        """Say whether a worker is there; until then what it is given may wait for ever."""

    def submit(self, worker: int, task: Task) -> None:
        """Give a task to a worker that has none."""

    def wait(self, timeout: float | None = None) -> list[Message]:
        """Wait for messages; return all that are there, those of a worker in order, or none after the time-out."""

    def stop(self, worker: int) -> None:
        """Ask a worker to end its task soon."""

    def kill(self, worker: int) -> None:
        """End a worker at once and start another in its place; nothing more is told of what it did."""

    def close(self) -> None:
        """End all workers; again if need be."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
