"""How a process ended, in words for the user."""

from __future__ import annotations

import re
import signal
from contextlib import suppress


def death(code: int | None, tail: str = "") -> str:
    r"""Say how a process ended.

    Args:
        code: its exit code, or minus the number of the signal that killed it; None if it could not be known.
        tail: the end of what it wrote to its standard error.

    >>> death(3)
    'exit code 3'
    >>> death(-6, "chatter\nterminate called after throwing an instance of 'std::bad_alloc'\n")
    "killed by signal 6 (SIGABRT): terminate called after throwing an instance of 'std::bad_alloc'"
    """
    if code is None:
        return "it did not answer any more"
    if code == -signal.SIGKILL:  # what it wrote last has nothing to do with it
        return "killed by signal 9 (SIGKILL), as the system does when memory runs out"
    said = last_words(tail)
    return f"{_ended(code)}: {said}" if said else _ended(code)


def _ended(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    name = ""
    with suppress(ValueError):
        name = f" ({signal.Signals(-code).name})"
    return f"killed by signal {-code}{name}"


def last_words(tail: str) -> str:
    r"""Return the line that tells most: Python's own about a fatal error and where it was, or the last.

    >>> last_words('Fatal Python error: Aborted\n\nCurrent thread 0x1:\n  File "a.py", line 7 in f\n  File "b.py"\n')
    'Fatal Python error: Aborted, File "a.py", line 7 in f'
    """
    lines = [line.strip() for line in tail.splitlines() if line.strip()]
    for place, line in enumerate(lines):
        if line.startswith("Fatal Python error:"):
            current = next((i for i in range(place, len(lines)) if lines[i].startswith("Current thread")), len(lines))
            return ", ".join([line, *lines[current + 1 : current + 2]])
    return lines[-1] if lines else ""


def death_of_actor(text: str) -> str:
    r"""Say how an actor of Ray ended, in fewer words than Ray's.

    >>> death_of_actor("The actor died.\n\tpid: 7\n\tip: 10.0.0.3\nThe node was terminated: lost. More of it.")
    'The node was terminated: lost (process 7 on 10.0.0.3)'
    """
    process, address = (re.search(rf"^\s*{name}: (\S+)$", text, re.MULTILINE) for name in ("pid", "ip"))
    where = f" (process {process[1]} on {address[1]})" if process and address else ""
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["it is gone"]
    said = lines[-1].rpartition("Worker exit detail: ")[2]
    if "connection error code" in said:  # all that Ray knows of a process that vanished
        return f"its process ended, as it does when it crashes or when memory runs out{where}"
    return f"{said.partition('. ')[0].removesuffix('.')}{where}"
