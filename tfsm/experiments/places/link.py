"""One worker process, as its driver sees it."""

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
from queue import SimpleQueue
from typing import IO, Any, Final, NamedTuple

from tfsm.experiments.places.channel import Frames, receive, send

# Not by multiprocessing: a fork of a process with TensorFlow's threads may hang, and a spawned one imports the user's
# script again.
_PROGRAM: Final = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); "
    "from tfsm.experiments.places.serving import main; main(int(sys.argv[2]))"
)
_LOOK: Final = 1.0
_TAIL: Final = 2**14


class Heard(NamedTuple):
    """What came from a process; `gone` is the last, and comes from its link."""

    link: Link
    kind: str
    frames: Frames


class Link:
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
