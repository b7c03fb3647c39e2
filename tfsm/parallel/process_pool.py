"""Local processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import IO, Any, Final, NamedTuple, Self, cast

from tfsm.errors import TfsmError
from tfsm.parallel.pool import Kind, Message, Task, describe_exit, worker_environment
from tfsm.parallel.worker import Frames, pack_task, receive, send, unpack

# Not by multiprocessing: a fork of a process with TensorFlow's threads may hang, and a spawned one imports the user's
# script again.
_PROGRAM: Final = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); "
    "from tfsm.parallel.worker import main; main(int(sys.argv[2]))"
)
_LOOK: Final = 1.0
_TAIL: Final = 2**14


class Heard(NamedTuple):
    """What came from a process; `gone` is the last, and comes from its link."""

    link: WorkerProcess
    kind: str
    frames: Frames


class WorkerProcess:
    """A process, the channel to it, and two threads that listen: to its messages, and to what it writes as it dies.

    Threads, because an interrupt is raised in the main thread alone: it cannot tear a message apart.

    Args:
        number: the worker's.
        environ: the process's environment.
        inbox: where to put what it says.
    """

    def __init__(self, number: int, environ: Mapping[str, str], inbox: SimpleQueue[Heard]) -> None:
        self.number = number
        self.busy = self.ready = False
        self._inbox = inbox
        self._tail = b""
        self._connection, theirs = Pipe()
        command = [sys.executable, "-c", _PROGRAM, json.dumps(sys.path), str(theirs.fileno())]
        with theirs:
            # In a group of its own: what it starts can be ended with it, and Ctrl-C does not reach it.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                bufsize=0,
                env=dict(environ),
                pass_fds=[theirs.fileno()],
                process_group=0,
            )
        assert self._process.stderr is not None
        self._threads = [
            threading.Thread(target=self._listen, args=(self._connection,), daemon=True),
            threading.Thread(target=self._drain, args=(self._process.stderr,), daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def tail(self) -> str:
        """The end of what the process wrote to its standard error."""
        return self._tail.decode(errors="replace")

    def send(self, kind: str, frames: Frames = ()) -> None:
        """Send a message; that the process is gone is heard elsewhere."""
        with suppress(OSError):
            send(self._connection, kind, frames)

    def exited(self, within: float) -> bool:
        """Say whether the process has ended by itself, or does so soon."""
        deadline = time.monotonic() + within
        while not (ended := self._ended()) and time.monotonic() < deadline:
            time.sleep(0.005)
        return ended

    def end(self) -> int:
        """End the process and all that it has started; return its exit code."""
        if self._process.returncode is None:
            # Only before it was asked for its code: until then no other process can have its number.
            with suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.kill()
            self._process.wait()
            for thread in self._threads:
                thread.join(timeout=_LOOK)  # it ends, unless a process that has left the group holds the other end
            self._connection.close()
        return int(self._process.returncode)

    def _ended(self) -> bool:
        try:
            return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True

    def _listen(self, connection: Connection[Any, Any]) -> None:
        try:
            while True:
                # A process that the worker has forked holds the channel open after it: its end is not always heard.
                while not connection.poll(_LOOK):
                    if self._ended() and not connection.poll(0):
                        return
                self._inbox.put(Heard(self, *receive(connection)))
        except (EOFError, OSError):
            return
        finally:
            self._inbox.put(Heard(self, "gone", ()))

    def _drain(self, pipe: IO[bytes]) -> None:
        with pipe:
            while some := pipe.read(_TAIL):
                self._tail = (self._tail + some)[-_TAIL:]


ATTEMPTS: Final = 3
"""How often a worker may die before it has begun, until there is no point in starting another."""
GRACE: Final = 2.0
"""Seconds for processes to end by themselves."""


class ProcessPool:
    """Processes on this machine, started with what this one can import; see `Pool`.

    Args:
        size: how many.
        threads: how many threads TensorFlow may use in each; an equal share of the cores if None.
    """

    def __init__(self, size: int, threads: int | None = None) -> None:
        if os.name != "posix":
            raise TfsmError("worker processes need Linux or macOS; on Windows, run in the Windows Subsystem for Linux")
        self.size = size
        self._environ = worker_environment(size, threads)
        self._inbox: SimpleQueue[Heard] = SimpleQueue()
        self._ready: list[Message] = []
        self._attempts = [0] * size
        self._closed = False
        self._links: list[WorkerProcess] = []
        try:
            for number in range(size):
                self._links.append(self._started(number))
        except BaseException:
            self.close()
            raise

    def is_ready(self, worker: int) -> bool:
        """Say whether a worker is there."""
        return self._links[worker].ready

    def submit(self, worker: int, task: Task) -> None:
        """Give a task to a worker that has none."""
        link = self._links[worker]
        if link.busy or self._closed:
            raise ValueError(f"worker {worker} {'is closed' if self._closed else 'has a task'}")
        frames = pack_task(task)
        link.busy = True
        try:
            link.send("task", frames)
        except BaseException:  # an interrupt: half a message was sent
            self.kill(worker)
            raise

    def wait(self, timeout: float | None = None) -> list[Message]:
        """Wait for messages; return all that are there, or none after the time-out."""
        if self._closed:
            return []
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._ready:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            try:
                self._take(self._inbox.get(timeout=left))
            except Empty:
                break
        for _ in range(self._inbox.qsize()):
            self._take(self._inbox.get())
        found, self._ready = self._ready, []
        return found

    def stop(self, worker: int) -> None:
        """Ask a worker to end its task soon."""
        if self._links[worker].busy:
            self._links[worker].send("stop")

    def kill(self, worker: int) -> None:
        """End a worker at once and start another in its place."""
        if self._closed:
            return
        self._links[worker].end()
        self._ready = [message for message in self._ready if message.worker != worker]
        self._links[worker] = self._started(worker)

    def close(self) -> None:
        """End all workers: those that have a task at once, the others when they have put their things away."""
        if self._closed:
            return
        self._closed = True
        idle = [link for link in self._links if not link.busy]
        for link in idle:
            link.send("end")
        deadline = time.monotonic() + GRACE
        for link in idle:
            link.exited(within=deadline - time.monotonic())
        for link in self._links:
            link.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _started(self, number: int) -> WorkerProcess:
        return WorkerProcess(number, self._environ, self._inbox)

    def _take(self, heard: Heard) -> None:
        link = heard.link
        if link is not self._links[link.number]:
            return  # it was killed, and all that it said is void
        if heard.kind == "gone":
            self._replace(link)
        elif heard.kind == "ready":
            link.ready = True
            self._attempts[link.number] = 0
        else:
            kind = cast(Kind, heard.kind)
            try:
                content = unpack(heard.frames)
            except Exception as error:
                self._tell_death(link, f"it sent what cannot be loaded here ({type(error).__name__}: {error})")
                return
            link.busy = kind == "event"
            self._ready.append(Message(link.number, kind, content))

    def _replace(self, link: WorkerProcess) -> None:
        exited = link.exited(within=GRACE)
        code = link.end()
        words = describe_exit(code if exited else None, link.tail)
        self._attempts[link.number] += not link.ready
        if self._attempts[link.number] >= ATTEMPTS:
            raise TfsmError(f"worker processes end before they have begun: {words}")
        self._tell_death(link, words)

    def _tell_death(self, link: WorkerProcess, words: str) -> None:
        link.end()
        self._links[link.number] = self._started(link.number)
        self._ready.append(Message(link.number, "died", words))
