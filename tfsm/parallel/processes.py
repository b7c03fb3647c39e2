"""Child processes: start a Python process, exchange framed messages with it, notice its death and end it.

Used by `ProcessPool` and by domains that keep simulators in processes of their own. Processes are not started with
`multiprocessing`: a fork of a process with TensorFlow's threads may hang, and a spawned one imports the user's script.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO, Final, TypeAlias

Frames: TypeAlias = Sequence[bytes | bytearray | memoryview]
"""Flat buffers of bytes."""

_PROGRAM: Final = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); "
    "from tfsm.parallel.processes import run_target; run_target(*sys.argv[2:])"
)
_STDERR_TAIL: Final = 2**14
_JOIN_SECONDS: Final = 1.0


class Channel:
    """Sends and receives messages, each a kind and any number of frames, over a pair of pipes.

    Args:
        reader: a buffered binary file to read from.
        writer: a buffered binary file to write to.
    """

    def __init__(self, reader: IO[bytes], writer: IO[bytes]) -> None:
        self._reader, self._writer = reader, writer

    def send(self, kind: str, frames: Frames = ()) -> None:
        """Send a message; raise an `OSError` if the other end is closed."""
        if self._writer.closed:
            raise BrokenPipeError
        pickle.dump((kind, [len(frame) for frame in frames]), self._writer)
        for frame in frames:
            self._writer.write(frame)
        self._writer.flush()

    def receive(self) -> tuple[str, list[bytearray]]:
        """Wait for a message; raise an `EOFError` or `OSError` if the other end is closed."""
        try:
            kind, sizes = pickle.load(self._reader)
        except (pickle.UnpicklingError, ValueError):  # cut off, or closed on this side
            raise EOFError from None
        return kind, [self._read(size) for size in sizes]

    def close(self) -> None:
        """Close both pipes."""
        for pipe in (self._writer, self._reader):
            with suppress(OSError):
                pipe.close()

    def _read(self, size: int) -> bytearray:
        # Straight to its place: a copy takes three times as long where it is large.
        frame = bytearray(size)
        if self._reader.readinto(frame) < size:  # type: ignore[attr-defined]
            raise EOFError
        return frame


class ChildProcess:
    """A Python process that runs a function with the other end of a `Channel`.

    Args:
        target: the function, `package.module:name`; the child can import what this process can.
        environ: environment variables of the child; this process's own if None.
        own_group: start it in a process group of its own, so that its children end with it. POSIX only.
        quiet: keep the end of its standard error in `stderr_tail` and drop its standard output; otherwise both go to
            this process's standard error.
    """

    def __init__(
        self, target: str, *, environ: Mapping[str, str] | None = None, own_group: bool = False, quiet: bool = False
    ) -> None:
        command = [sys.executable, "-c", _PROGRAM, json.dumps(sys.path), target, "quiet" if quiet else ""]
        self._own_group, self._tail = own_group, b""
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if quiet else None,
            env=None if environ is None else dict(environ),
            process_group=0 if own_group else None,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.channel = Channel(self._process.stdout, self._process.stdin)
        self._threads: list[threading.Thread] = []
        if quiet:
            self.start_thread(self._drain)

    @property
    def stderr_tail(self) -> str:
        """The end of what the process wrote to its standard error."""
        return self._tail.decode(errors="replace")

    def start_thread(self, function: Callable[[], None]) -> threading.Thread:
        """Start a thread that ends, and closes the pipe it reads, when the process ends; `kill` waits for it."""
        thread = threading.Thread(target=function, daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    def wait(self) -> None:
        """Wait until the process has ended. POSIX only."""
        with suppress(ChildProcessError):  # its exit code was collected meanwhile
            os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)

    def has_exited(self, within: float = 0.0) -> bool:
        """Say whether the process has ended by itself, or does within some seconds."""
        deadline = time.monotonic() + within
        while not (ended := self._has_exited()) and time.monotonic() < deadline:
            time.sleep(0.005)
        return ended

    def kill(self) -> int:
        """End the process at once, with its children if it has its own group; return its exit code."""
        if self._process.returncode is None:
            # The group is only killed before the exit code is collected: until then no other process has its number.
            if self._own_group:
                with suppress(OSError):
                    os.killpg(self._process.pid, signal.SIGKILL)
            self._process.kill()
            self._process.wait()
            for thread in self._threads:
                thread.join(timeout=_JOIN_SECONDS)
            # A thread may still wait for a pipe that a process outside the group holds open. Closing would wait for it.
            if not any(thread.is_alive() for thread in self._threads):
                self.channel.close()
        return int(self._process.returncode)

    def close(self, grace: float) -> int:
        """Close the pipes, give the process some seconds to end, and kill it if it does not; return its exit code."""
        self.channel.close()
        self.has_exited(within=grace)
        return self.kill()

    def describe_exit(self, within: float) -> str:
        """Describe how the process ended, after waiting some seconds for it to do so by itself."""
        exited = self.has_exited(within)
        code = self.kill()
        return describe_exit(code if exited else None, self.stderr_tail)

    def _has_exited(self) -> bool:
        if not hasattr(os, "waitid"):
            return self._process.poll() is not None
        try:  # without collecting the exit code
            return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True

    def _drain(self) -> None:
        assert isinstance(self._process.stderr, io.BufferedReader)
        with self._process.stderr as pipe:
            while written := pipe.read1(_STDERR_TAIL):
                self._tail = (self._tail + written)[-_STDERR_TAIL:]


def run_target(target: str, quiet: str) -> None:
    """Run a function in a child process, with the channel to its parent.

    Args:
        target: the function, `package.module:name`.
        quiet: whether to drop what is printed; an empty string sends it to the standard error.
    """
    channel = Channel(os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb"))
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing if quiet else 2, 1)  # so that prints do not get between the messages
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which decides
    module, _, name = target.partition(":")
    getattr(importlib.import_module(module), name)(channel)


def describe_exit(code: int | None, stderr_tail: str = "") -> str:
    r"""Describe how a process ended.

    Args:
        code: its exit code, or minus the number of the signal that killed it; None if it is unknown.
        stderr_tail: the end of what it wrote to its standard error.

    >>> describe_exit(3)
    'exit code 3'
    >>> describe_exit(-6, "chatter\nterminate called after throwing an instance of 'std::bad_alloc'\n")
    "killed by signal 6 (SIGABRT): terminate called after throwing an instance of 'std::bad_alloc'"
    """
    if code is None:
        return "it stopped responding"
    if code == -signal.SIGKILL:  # its last output has nothing to do with it
        return "killed by signal 9 (SIGKILL), as the system does when memory runs out"
    if code >= 0:
        reason = f"exit code {code}"
    else:
        reason = f"killed by signal {-code}"
        with suppress(ValueError):
            reason += f" ({signal.Signals(-code).name})"
    last = summarize_stderr(stderr_tail)
    return f"{reason}: {last}" if last else reason


def summarize_stderr(tail: str) -> str:
    r"""Return Python's line about a fatal error with its location if there is one, otherwise the last line.

    >>> summarize_stderr('Fatal Python error: Aborted\n\nCurrent thread 0x1:\n  File "a.py", line 7 in f\n')
    'Fatal Python error: Aborted, File "a.py", line 7 in f'
    """
    lines = [line.strip() for line in tail.splitlines() if line.strip()]
    for index, line in enumerate(lines):
        if line.startswith("Fatal Python error:"):
            current = next((i for i in range(index, len(lines)) if lines[i].startswith("Current thread")), len(lines))
            return ", ".join([line, *lines[current + 1 : current + 2]])
    return lines[-1] if lines else ""


def count_cores() -> int:
    """Return the number of cores this process may use; on some systems that is unknown, and all are counted."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
