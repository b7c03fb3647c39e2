"""Send tasks to a pool and receive their messages."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from tfsm.parallel.pool import Message, Pool
from tfsm.parallel.worker import Task

PATIENCE = 60.0


def receive_one(pool: Pool, worker: int) -> Message:
    """Wait for exactly one message."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = pool.wait(1.0)
        if found:
            assert [message.worker for message in found] == [worker]
            return found[0]
    raise AssertionError("no message arrived")


def receive_until_done(pool: Pool, *workers: int) -> dict[int, list[Message]]:
    """Wait until some workers have ended their tasks, with a result, a failure or a death."""
    found: dict[int, list[Message]] = {worker: [] for worker in workers}
    deadline = time.monotonic() + PATIENCE
    while not all(messages and messages[-1].kind != "event" for messages in found.values()):
        assert time.monotonic() < deadline, found
        for message in pool.wait(1.0):
            found[message.worker].append(message)
    return found


def run_to_end(pool: Pool, task: Task, worker: int = 0) -> list[tuple[str, Any]]:
    """Run a task, and return all its messages."""
    pool.submit(worker, task)
    return [(message.kind, message.content) for message in receive_until_done(pool, worker)[worker]]


def exits_soon(process: int) -> bool:
    """Return whether a process exits within seconds; a zombie has exited too."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state in "ZX":
            return True
        time.sleep(0.02)
    return False
