"""The program of a process that `ProcessPool` starts: it does tasks as it is told, until its driver is gone."""

from __future__ import annotations

import atexit
import faulthandler
import os
import signal
import threading
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, TypeAlias

from tfsm.experiments.places.channel import Frames, receive, send
from tfsm.experiments.places.packing import told_of
from tfsm.experiments.places.task import Desk

LOOK: Final = 1.0
"""Seconds between two looks at whether the driver is still there."""

_Channel: TypeAlias = "Connection[Any, Any]"


def main(descriptor: int) -> None:
    """Serve.

    Args:
        descriptor: of this end of the channel.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver, which decides
    faulthandler.enable()  # a crash then says where
    _be_first_to_go()
    atexit.register(_end)  # registered first, so it comes last: other people's processes go too
    connection: _Channel = Connection(descriptor)
    desk = Desk()
    tasks: SimpleQueue[Frames | None] = SimpleQueue()
    threading.Thread(target=_listen, args=(connection, desk, tasks), daemon=True).start()
    with suppress(OSError):  # the driver has gone
        send(connection, "ready")
        while (frames := tasks.get()) is not None:
            for kind, packed in told_of(frames, desk):
                send(connection, kind, packed)
            del frames  # perhaps large, and the next task may be long in coming
    desk.kept.clear()


def _listen(connection: _Channel, desk: Desk, tasks: SimpleQueue[Frames | None]) -> None:
    """Hear what the driver says, also while a task is under way; end the process if there is no driver any more."""
    parent = os.getppid()
    try:
        while True:
            # A process that the driver has forked holds the channel open after it: its end is not always heard.
            while not connection.poll(LOOK):
                if os.getppid() != parent:
                    return
            kind, frames = receive(connection)
            if kind == "task":
                desk.clear()
                tasks.put(frames)
            elif kind == "stop":
                desk.ask_to_stop()
            else:
                tasks.put(None)
    except (EOFError, OSError):
        return
    finally:
        _end()


def _end() -> None:
    """End this process and all that it has started, at once."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


def _be_first_to_go() -> None:
    # When memory runs out, the system should take a worker, which can be replaced, and not the driver.
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500")
