"""How tests talk with a pool."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from tfsm.parallel.pool import Message, Pool
from tfsm.parallel.worker import Task

PATIENCE = 60.0


def next_of(pool: Pool, worker: int) -> Message:
    """Wait for exactly one message."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = pool.wait(1.0)
        if found:
            assert [message.worker for message in found] == [worker]
            return found[0]
    raise AssertionError("nothing was heard")


def all_of(pool: Pool, *workers: int) -> dict[int, list[Message]]:
    """Wait until some workers have ended their tasks, one way or another."""
    found: dict[int, list[Message]] = {worker: [] for worker in workers}
    deadline = time.monotonic() + PATIENCE
    while not all(got and got[-1].kind != "event" for got in found.values()):
        assert time.monotonic() < deadline, found
        for message in pool.wait(1.0):
            found[message.worker].append(message)
    return found


def outcome(pool: Pool, task: Task, worker: int = 0) -> list[tuple[str, Any]]:
    """Do a task, and return all that is told of it."""
    pool.submit(worker, task)
    return [(message.kind, message.content) for message in all_of(pool, worker)[worker]]


def is_gone(process: int) -> bool:
    """Say whether a process ends within seconds; one that nobody has asked for its exit code has ended too."""
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
