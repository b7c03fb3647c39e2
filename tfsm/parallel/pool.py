"""Pools of workers: the base class of all pools, the choice of a backend, and the threads of each worker."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, NamedTuple, Self, TypeAlias, TypeVar, cast, get_args

from tfsm.errors import TfsmError, suggestion
from tfsm.utils.tf_startup import set_tensorflow_environment, use_compile_cache

if TYPE_CHECKING:
    from tfsm.parallel.processes import Frames
    from tfsm.parallel.worker import MessageKind, Task

MAX_FAILED_STARTS: Final = 3
"""How often a worker may die before it is ready until the pool gives up."""


class Message(NamedTuple):
    """A message about one of the workers.

    Attributes:
        worker: its number.
        kind: `event` for a value that the task yielded; `done` when it ended; `failed` when it raised, which the
            worker survives; `died` when the worker is gone and a new one, its cache empty, has taken its number.
        content: the value, the task's result, a `Failure`, or the reason of the death.
    """

    worker: int
    kind: MessageKind
    content: Any


class WorkerHandle:
    """A worker as its pool sees it.

    Attributes:
        number: its number.
        busy: whether it has a task.
        ready: whether it has started.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.busy = self.ready = False


Handle = TypeVar("Handle", bound=WorkerHandle)


class BasePool(ABC, Generic[Handle]):
    """Workers, numbered from zero, each of which runs one task at a time. Subclasses start and reach the workers.

    Attributes:
        size: number of workers.
    """

    start_error = "workers do not start"
    """The error if workers die before they are ready."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._closed = False
        self._messages: list[Message] = []
        self._failed_starts = [0] * size
        self._workers: list[Handle] = []
        try:
            for number in range(size):
                self._workers.append(self._start(number))
        except BaseException:
            self.close()
            raise

    def is_ready(self, worker: int) -> bool:
        """Say whether a worker has started; a task given to it earlier may wait forever."""
        return self._workers[worker].ready

    def submit(self, worker: int, task: Task) -> None:
        """Give a task to an idle worker."""
        from tfsm.parallel.worker import pack_task

        handle = self._workers[worker]
        if handle.busy or self._closed:
            raise ValueError(f"worker {worker} {'is closed' if self._closed else 'has a task'}")
        frames = pack_task(task)
        handle.busy = True
        try:
            self._send_task(handle, frames)
        except BaseException:  # an interrupt: only part of the task may have been sent
            self.kill(worker)
            raise

    def wait(self, timeout: float | None = None) -> list[Message]:
        """Wait for messages; return all that have arrived, in order per worker, or none after the timeout."""
        if self._closed:
            return []
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._messages:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            self._collect(left)
            if deadline is not None and time.monotonic() >= deadline:
                break
        messages, self._messages = self._messages, []
        return messages

    def stop(self, worker: int) -> None:
        """Ask a worker to end its task soon."""
        handle = self._workers[worker]
        if handle.busy and not self._closed:
            self._send_stop(handle)

    def kill(self, worker: int) -> None:
        """End a worker at once and start a new one in its place; its remaining messages are dropped."""
        if self._closed:
            return
        self._terminate(self._workers[worker])
        self._messages = [message for message in self._messages if message.worker != worker]
        self._workers[worker] = self._start(worker)

    def close(self) -> None:
        """End all workers; may be called again."""
        if not self._closed:
            self._closed = True
            self._shut_down()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @abstractmethod
    def _start(self, number: int) -> Handle:
        """Start a worker."""

    @abstractmethod
    def _send_task(self, handle: Handle, frames: Frames) -> None:
        """Send a packed task to a worker."""

    @abstractmethod
    def _send_stop(self, handle: Handle) -> None:
        """Tell a worker to end its task soon."""

    @abstractmethod
    def _collect(self, timeout: float | None) -> None:
        """Wait for anything from the workers and pass it to `_receive` or `_replace`; a wake-up for nothing is fine."""

    @abstractmethod
    def _terminate(self, handle: Handle) -> None:
        """End a worker at once."""

    @abstractmethod
    def _shut_down(self) -> None:
        """End all workers, and what the pool has started besides."""

    def _receive(self, handle: Handle, kind: str, frames: Frames) -> bool:
        """Take a message of a worker; return False if it could not be loaded and the worker was replaced."""
        from tfsm.parallel.worker import unpack

        if kind == "ready":
            handle.ready = True
            self._failed_starts[handle.number] = 0
            return True
        try:
            content = unpack(frames)
        except Exception as error:
            self._replace(handle, f"its message cannot be loaded ({type(error).__name__}: {error})")
            return False
        handle.busy = kind == "event"
        self._messages.append(Message(handle.number, cast("MessageKind", kind), content))
        return True

    def _replace(self, handle: Handle, reason: str) -> None:
        """Start a new worker in the place of one that is lost, and report its death."""
        self._terminate(handle)
        self._failed_starts[handle.number] += not handle.ready
        if self._failed_starts[handle.number] >= MAX_FAILED_STARTS:
            raise TfsmError(f"{self.start_error}: {reason}")
        self._workers[handle.number] = self._start(handle.number)
        self._messages.append(Message(handle.number, "died", reason))


Pool: TypeAlias = BasePool[Any]

THREAD_VARIABLES: Final = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS")


def worker_environment(
    size: int, threads: int | None = None, environ: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return the environment variables of a worker, which must be set before it imports TensorFlow.

    Args:
        size: number of workers that share this machine.
        threads: number of threads per worker, whatever the environment says; if None, what the user has set in the
            environment, or else an equal share of the cores.
        environ: the environment to start from.
    """
    from tfsm.parallel.processes import count_cores

    variables = dict(environ)
    for name in THREAD_VARIABLES:
        if threads is not None:
            variables[name] = str(threads)
        else:
            variables.setdefault(name, str(max(1, count_cores() // size)))
    set_tensorflow_environment(variables)
    use_compile_cache(variables)
    return variables


BackendName: TypeAlias = Literal["local", "processes", "ray"]
Grain: TypeAlias = Literal["runs", "children"]
BACKENDS: Final = get_args(BackendName)
GRAINS: Final = get_args(Grain)


@dataclass(frozen=True)
class Backend:
    """Where an experiment runs: which workers, how many, and what each is given at a time."""

    backend: BackendName = "local"
    workers: int | None = None
    """Number of workers; None: one per core, or per CPU of a cluster."""
    address: str | None = None
    """Address of a Ray cluster; None starts Ray on this machine."""
    grain: Grain = "runs"
    """What a worker is given at a time: groups of runs, or single children."""

    @property
    def is_local(self) -> bool:
        """Whether this process does everything itself."""
        return self.backend == "local"

    def start_pool(self, notify: Callable[[str], None]) -> Pool:
        """Start the workers."""
        if self.backend == "ray":
            from tfsm.parallel.ray_pool import RayPool

            return RayPool(self.workers, self.address, notify=notify)
        from tfsm.parallel.process_pool import ProcessPool
        from tfsm.parallel.processes import count_cores

        return ProcessPool(self.workers or count_cores())

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return asdict(self)


def choose_backend(
    backend: str | None = None, workers: int | None = None, address: str | None = None, grain: str | None = None
) -> Backend:
    """Return the backend for a user's options; raise a `TfsmError` if they contradict one another."""
    chosen = backend or ("ray" if address is not None else "processes" if workers is not None or grain else "local")
    for name, value, known in (("backend", chosen, BACKENDS), ("grain", grain or "runs", GRAINS)):
        if value not in known:
            raise TfsmError(f"--{name} {value}: no such {name}{suggestion(value, known)}")
    if workers is not None and workers < 1:
        raise TfsmError(f"--workers {workers}: expected at least 1")
    if address is not None and chosen != "ray":
        raise TfsmError(f"--address {address}: only --backend ray has an address, and this is --backend {chosen}")
    if chosen == "local" and (workers is not None or grain == "children"):
        option = "--workers" if workers is not None else "--grain children"
        raise TfsmError(f"{option}: --backend local has no workers; choose --backend processes or ray")
    return Backend(chosen, workers, address, grain or "runs")  # type: ignore[arg-type]


def resume_backend(record: Mapping[str, Any], directory: Path, wanted: Backend, *, explicit: bool) -> Backend:
    """Return the backend to resume an experiment on: the previous one unless the user asks for another.

    Args:
        record: the experiment's `run.json`.
        directory: its directory, for messages.
        wanted: the backend that the user asked for.
        explicit: whether the user asked for one.
    """
    previous = _recorded_backend(record)
    if not explicit:
        return choose_backend(*(previous.get(key) for key in ("backend", "workers", "address", "grain")))
    check_grain(record, directory, wanted.grain)
    return wanted


def check_grain(record: Mapping[str, Any], directory: Path, wanted: str) -> None:
    """Refuse to resume an experiment with another grain: it would become a mixture of two."""
    previous = _recorded_backend(record).get("grain") or "runs"
    if wanted != previous:
        raise TfsmError(f"{directory}: was started with --grain {previous} and can only be resumed with it")


def _recorded_backend(record: Mapping[str, Any]) -> Mapping[str, Any]:
    plan = record.get("plan")
    recorded = plan.get("place", {}) if isinstance(plan, dict) else {}
    return recorded if isinstance(recorded, dict) else {}
