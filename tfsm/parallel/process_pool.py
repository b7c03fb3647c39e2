"""A pool of processes on this machine."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Final, NamedTuple

from tfsm.errors import TfsmError
from tfsm.parallel.pool import BasePool, WorkerHandle, worker_environment
from tfsm.parallel.processes import ChildProcess, Frames

GRACE_SECONDS: Final = 2.0
"""Time for processes to end by themselves."""
_LISTEN_SECONDS: Final = 1.0
"""Time to receive the last messages of a process that has ended."""
_TARGET: Final = "tfsm.parallel.worker:main"


class _Received(NamedTuple):
    """A message of a worker; `gone` comes from its threads, after its end."""

    worker: WorkerProcess
    kind: str
    frames: Frames


class WorkerProcess(WorkerHandle):
    """A worker that is a process, and threads that receive its messages and notice its end.

    Threads, because an interrupt is raised in the main thread only and so cannot tear a message apart. The process has
    its own group: what it starts can be ended with it, and Ctrl-C does not reach it.

    Args:
        number: its number.
        environ: its environment variables.
        inbox: where to put its messages.
    """

    def __init__(self, number: int, environ: Mapping[str, str], inbox: SimpleQueue[_Received]) -> None:
        super().__init__(number)
        self._inbox = inbox
        self.process = ChildProcess(_TARGET, environ=environ, own_group=True, quiet=True)
        self._listener = self.process.start_thread(self._listen)
        self.process.start_thread(self._watch)

    def _listen(self) -> None:
        try:
            while True:
                self._inbox.put(_Received(self, *self.process.channel.receive()))
        except (EOFError, OSError):
            self._inbox.put(_Received(self, "gone", ()))
        finally:
            self.process.channel.close()

    def _watch(self) -> None:
        """Report the end of the process: one that it forked may hold the pipe open, so there is no EOF."""
        self.process.wait()
        self._listener.join(timeout=_LISTEN_SECONDS)
        self._inbox.put(_Received(self, "gone", ()))


class ProcessPool(BasePool[WorkerProcess]):
    """Processes on this machine, which can import what this one can; see `BasePool`.

    Args:
        size: number of processes.
        threads: number of TensorFlow's threads in each; None: an equal share of the cores.
    """

    start_error = "worker processes do not start"

    def __init__(self, size: int, threads: int | None = None) -> None:
        if os.name != "posix":
            raise TfsmError("worker processes need Linux or macOS; on Windows, run in the Windows Subsystem for Linux")
        self._environ = worker_environment(size, threads)
        self._inbox: SimpleQueue[_Received] = SimpleQueue()
        super().__init__(size)

    def _start(self, number: int) -> WorkerProcess:
        return WorkerProcess(number, self._environ, self._inbox)

    def _send_task(self, handle: WorkerProcess, frames: Frames) -> None:
        self._send(handle, "task", frames)

    def _send_stop(self, handle: WorkerProcess) -> None:
        self._send(handle, "stop")

    def _send(self, handle: WorkerProcess, kind: str, frames: Frames = ()) -> None:
        with suppress(OSError):  # the process is gone, which its thread reports
            handle.process.channel.send(kind, frames)

    def _collect(self, timeout: float | None) -> None:
        try:
            self._take(self._inbox.get(timeout=timeout))
        except Empty:
            return
        for _ in range(self._inbox.qsize()):
            self._take(self._inbox.get())

    def _take(self, received: _Received) -> None:
        worker = received.worker
        if worker is not self._workers[worker.number]:
            return  # it was killed, and its messages are void
        if received.kind == "gone":
            self._replace(worker, worker.process.describe_exit(GRACE_SECONDS))
        else:
            self._receive(worker, received.kind, received.frames)

    def _terminate(self, handle: WorkerProcess) -> None:
        handle.process.kill()

    def _shut_down(self) -> None:
        """End all workers: busy ones at once, the others after they have cleaned up."""
        idle = [worker for worker in self._workers if not worker.busy]
        for worker in idle:
            self._send(worker, "end")
        deadline = time.monotonic() + GRACE_SECONDS
        for worker in idle:
            worker.process.has_exited(within=deadline - time.monotonic())
        for worker in self._workers:
            worker.process.kill()
