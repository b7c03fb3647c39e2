"""A pool whose workers run in this process: no process is started, and the test controls what fails."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from tfsm.parallel.pool import Backend, Message
from tfsm.parallel.worker import Task, WorkerContext, run_task


@dataclass
class InProcessPool:
    """Runs its tasks when `wait` is called.

    Args:
        size: the number of workers.
        absent: the workers that never start.
    """

    size: int
    absent: Collection[int] = ()
    tasks: dict[int, Task] = field(default_factory=dict)
    killed: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._contexts = [WorkerContext() for _ in range(self.size)]

    def is_ready(self, worker: int) -> bool:
        return worker not in self.absent

    def submit(self, worker: int, task: Task) -> None:
        assert worker not in self.tasks
        self.tasks[worker] = task

    def wait(self, timeout: float | None = None) -> list[Message]:
        ready = [worker for worker in self.tasks if worker not in self.absent]
        found = [
            Message(worker, *event)
            for worker in ready
            for event in run_task(self.tasks.pop(worker), self._contexts[worker])
        ]
        assert found or timeout is None or not self.tasks, "it would wait forever"
        return found

    def stop(self, worker: int) -> None:
        self._contexts[worker].request_stop()

    def kill(self, worker: int) -> None:
        self.killed.append(worker)
        self.tasks.pop(worker, None)
        self._contexts[worker] = WorkerContext()

    def close(self) -> None:
        self.tasks.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass(frozen=True)
class InProcessBackend(Backend):
    """A backend with an in-process pool."""

    pool: InProcessPool | None = None

    def start_pool(self, notify: Callable[[str], None]) -> Any:
        assert self.pool is not None
        return self.pool

    def as_dict(self) -> dict[str, Any]:
        return {"backend": self.backend, "workers": self.workers, "address": self.address, "grain": self.grain}


def make_in_process_backend(size: int, grain: Any = "runs", absent: Collection[int] = ()) -> InProcessBackend:
    """Return a backend with an in-process pool."""
    return InProcessBackend("processes", size, None, grain, InProcessPool(size, absent))
