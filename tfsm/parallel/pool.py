"""Pool, Task, Message; Backend choice; thread shares."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, NamedTuple, Protocol, Self, TypeAlias, get_args

from tfsm.errors import TfsmError, suggestion
from tfsm.utils.tf_startup import set_tensorflow_environment, use_compile_cache

Kind: TypeAlias = Literal["event", "done", "failed", "died"]


class WorkerContext:
    """What a worker keeps from one task to the next.

    Attributes:
        kept: for the tasks' own use, such as what was compiled; empty when a worker begins.
    """

    def __init__(self) -> None:
        self.cache: dict[str, Any] = {}
        self._stop = threading.Event()

    def should_stop(self) -> bool:
        """Say whether the task under way was asked to end soon."""
        return self._stop.is_set()

    def request_stop(self) -> None:
        """Ask the task under way to end soon; it may be called from another thread."""
        self._stop.set()

    def clear(self) -> None:
        """Take back what was asked, for the next task."""
        self._stop.clear()


Task: TypeAlias = Callable[[WorkerContext], Iterator[Any]]
"""An object that can be pickled; what it yields is sent at once, and what it returns when it is done."""


class Failure(NamedTuple):
    """Why a task failed.

    Attributes:
        is_user_error: whether it was a `TfsmError`, whose message is meant for the user.
        message: what was wrong; one line unless it is a user error.
        traceback: the traceback as text.
    """

    is_user_error: bool
    message: str
    traceback: str


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

    def is_ready(self, worker: int) -> bool:
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


THREAD_VARIABLES: Final = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS")


def worker_environment(
    size: int, threads: int | None = None, environ: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return the environment of one of several workers; it must hold before TensorFlow is imported there.

    Args:
        size: how many workers share this machine.
        threads: how many threads each may use, whatever the environment says; if None, what the user has set in the
            environment, or else an equal share of the cores.
        environ: what to begin with.
    """
    found = dict(environ)
    for name in THREAD_VARIABLES:
        if threads is not None:
            found[name] = str(threads)
        else:
            found.setdefault(name, str(max(1, count_cores() // size)))
    set_tensorflow_environment(found)
    use_compile_cache(found)
    return found


def count_cores() -> int:
    """Return how many cores this process may use; not every system tells, then all."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


BackendName: TypeAlias = Literal["local", "processes", "ray"]
Grain: TypeAlias = Literal["runs", "children"]
BACKENDS: Final = get_args(BackendName)
GRAINS: Final = get_args(Grain)


@dataclass(frozen=True)
class Backend:
    """Which workers, how many, and what each is given at a time."""

    backend: BackendName = "local"
    workers: int | None = None
    """How many; one for each core, or CPU of a cluster, if None."""
    address: str | None = None
    """Which Ray; None starts one on this machine."""
    grain: Grain = "runs"
    """Whole groups of runs, or one child."""

    @property
    def is_local(self) -> bool:
        """Whether everything is done by this process itself."""
        return self.backend == "local"

    def start_pool(self, notify: Callable[[str], None]) -> Pool:
        """Start the workers."""
        if self.backend == "ray":
            from tfsm.parallel.ray_pool import RayPool

            return RayPool(self.workers, self.address, notify=notify)
        from tfsm.parallel.process_pool import ProcessPool

        return ProcessPool(self.workers or count_cores())

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return asdict(self)


def resume_backend(record: Mapping[str, Any], directory: Path, wanted: Backend, *, explicit: bool) -> Backend:
    """Return the backend to resume an experiment on: the previous one unless the user asks for another.

    Args:
        record: the experiment's `run.json`.
        directory: the directory, for messages.
        wanted: the backend that the user asked for.
        explicit: whether the user asked for one.
    """
    told = _told(record)
    before = choose_backend(*(told.get(key) for key in ("backend", "workers", "address", "grain")))
    if not explicit:
        return before
    check_grain(record, directory, wanted.grain)
    return wanted


def check_grain(record: Mapping[str, Any], directory: Path, wanted: str) -> None:
    """Refuse to go on with an experiment otherwise than it was begun: it would become a mixture of two."""
    before = _told(record).get("grain") or "runs"
    if wanted != before:
        raise TfsmError(f"{directory}: was begun with --grain {before}, and goes on with that only")


def _told(record: Mapping[str, Any]) -> Mapping[str, Any]:
    plan = record.get("plan")
    told = plan.get("place", {}) if isinstance(plan, dict) else {}
    return told if isinstance(told, dict) else {}


def choose_backend(
    backend: str | None = None, workers: int | None = None, address: str | None = None, grain: str | None = None
) -> Backend:
    """Return where to work, from what a user said; what does not fit together is an error that says so."""
    chosen = backend or ("ray" if address is not None else "processes" if workers is not None or grain else "local")
    for name, value, known in (("backend", chosen, BACKENDS), ("grain", grain or "runs", GRAINS)):
        if value not in known:
            raise TfsmError(f"--{name} {value}: no such {name}{suggestion(value, known)}")
    if workers is not None and workers < 1:
        raise TfsmError(f"--workers {workers}: expected at least 1")
    if address is not None and chosen != "ray":
        raise TfsmError(f"--address {address}: only --backend ray has an address, and this is --backend {chosen}")
    if chosen == "local" and (workers is not None or grain == "children"):
        what = "--workers" if workers is not None else "--grain children"
        raise TfsmError(f"{what}: --backend local has no workers; choose --backend processes or ray")
    return Backend(chosen, workers, address, grain or "runs")  # type: ignore[arg-type]


def describe_exit(code: int | None, tail: str = "") -> str:
    r"""Say how a process ended.

    Args:
        code: its exit code, or minus the number of the signal that killed it; None if it could not be known.
        tail: the end of what it wrote to its standard error.

    >>> describe_exit(3)
    'exit code 3'
    >>> describe_exit(-6, "chatter\nterminate called after throwing an instance of 'std::bad_alloc'\n")
    "killed by signal 6 (SIGABRT): terminate called after throwing an instance of 'std::bad_alloc'"
    """
    if code is None:
        return "it did not answer any more"
    if code == -signal.SIGKILL:  # what it wrote last has nothing to do with it
        return "killed by signal 9 (SIGKILL), as the system does when memory runs out"
    said = summarize_stderr(tail)
    return f"{_ended(code)}: {said}" if said else _ended(code)


def _ended(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    name = ""
    with suppress(ValueError):
        name = f" ({signal.Signals(-code).name})"
    return f"killed by signal {-code}{name}"


def summarize_stderr(tail: str) -> str:
    r"""Return the line that tells most: Python's own about a fatal error and where it was, or the last.

    >>> summarize_stderr('Fatal Python error: Aborted\n\nCurrent thread 0x1:\n  File "a.py", line 7 in f\n')
    'Fatal Python error: Aborted, File "a.py", line 7 in f'
    """
    lines = [line.strip() for line in tail.splitlines() if line.strip()]
    for place, line in enumerate(lines):
        if line.startswith("Fatal Python error:"):
            current = next((i for i in range(place, len(lines)) if lines[i].startswith("Current thread")), len(lines))
            return ", ".join([line, *lines[current + 1 : current + 2]])
    return lines[-1] if lines else ""


def describe_actor_death(text: str) -> str:
    r"""Say how an actor of Ray ended, in fewer words than Ray's.

    >>> describe_actor_death("The actor died.\n\tpid: 7\n\tip: 10.0.0.3\nThe node was terminated: lost. More of it.")
    'The node was terminated: lost (process 7 on 10.0.0.3)'
    """
    process, address = (re.search(rf"^\s*{name}: (\S+)$", text, re.MULTILINE) for name in ("pid", "ip"))
    location = f" (process {process[1]} on {address[1]})" if process and address else ""
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["it is gone"]
    said = lines[-1].rpartition("Worker exit detail: ")[2]
    if "connection error code" in said:  # all that Ray knows of a process that vanished
        return f"its process ended, as it does when it crashes or when memory runs out{location}"
    return f"{said.partition('. ')[0].removesuffix('.')}{location}"
