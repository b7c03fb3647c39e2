"""A pool whose workers are this process: nothing is started, and what goes wrong is up to the test."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from tfsm.parallel.pool import Backend, Message
from tfsm.parallel.worker import Task, WorkerContext, run_task


@dataclass
class PoolHere:
    """Does what it is given when somebody waits for it.

    Args:
        size: how many workers.
        absent: those that never begin.
    """

    size: int
    absent: Collection[int] = ()
    given: dict[int, Task] = field(default_factory=dict)
    killed: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._desks = [WorkerContext() for _ in range(self.size)]

    def is_ready(self, worker: int) -> bool:
        return worker not in self.absent

    def submit(self, worker: int, task: Task) -> None:
        assert worker not in self.given
        self.given[worker] = task

    def wait(self, timeout: float | None = None) -> list[Message]:
        some = [worker for worker in self.given if worker not in self.absent]
        found = [
            Message(worker, *told) for worker in some for told in run_task(self.given.pop(worker), self._desks[worker])
        ]
        assert found or timeout is None or not self.given, "it would wait for ever"
        return found

    def stop(self, worker: int) -> None:
        self._desks[worker].request_stop()

    def kill(self, worker: int) -> None:
        self.killed.append(worker)
        self.given.pop(worker, None)
        self._desks[worker] = WorkerContext()

    def close(self) -> None:
        self.given.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass(frozen=True)
class BackendHere(Backend):
    """Such a pool, as the place to work at."""

    made: PoolHere | None = None

    def start_pool(self, notify: Callable[[str], None]) -> Any:
        assert self.made is not None
        return self.made

    def as_dict(self) -> dict[str, Any]:
        return {"backend": self.backend, "workers": self.workers, "address": self.address, "grain": self.grain}


def here(size: int, grain: Any = "runs", absent: Collection[int] = ()) -> BackendHere:
    """Return such a place."""
    return BackendHere("processes", size, None, grain, PoolHere(size, absent))
