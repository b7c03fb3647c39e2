"""Workers that are processes on this machine."""

from __future__ import annotations

import os
import time
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Final, Self, cast

from tfsm.errors import TfsmError
from tfsm.experiments.places.channel import unpack
from tfsm.experiments.places.link import Heard, Link
from tfsm.experiments.places.packing import pack_task
from tfsm.experiments.places.task import Kind, Message, Task
from tfsm.experiments.places.threads import environment
from tfsm.experiments.places.words import death

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
        self._environ = environment(size, threads)
        self._inbox: SimpleQueue[Heard] = SimpleQueue()
        self._ready: list[Message] = []
        self._attempts = [0] * size
        self._closed = False
        self._links: list[Link] = []
        try:
            for number in range(size):
                self._links.append(self._started(number))
        except BaseException:
            self.close()
            raise

    def begun(self, worker: int) -> bool:
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

    def _started(self, number: int) -> Link:
        return Link(number, self._environ, self._inbox)

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

    def _replace(self, link: Link) -> None:
        exited = link.exited(within=GRACE)
        code = link.end()
        words = death(code if exited else None, link.tail)
        self._attempts[link.number] += not link.ready
        if self._attempts[link.number] >= ATTEMPTS:
            raise TfsmError(f"worker processes end before they have begun: {words}")
        self._tell_death(link, words)

    def _tell_death(self, link: Link, words: str) -> None:
        link.end()
        self._links[link.number] = self._started(link.number)
        self._ready.append(Message(link.number, "died", words))
