"""One process a directory: a lock that the system takes back from a process that has died."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tfsm.errors import TfsmError

LOCK: Final = ".lock"


class Locked:
    """Holds a directory; entered where somebody else holds it, it is an error that says so.

    Args:
        directory: an existing directory.
    """

    def __init__(self, directory: Path) -> None:
        from filelock import FileLock

        self._directory = directory
        self._lock: Any = FileLock(directory / LOCK, timeout=0)

    def __enter__(self) -> Self:
        from filelock import Timeout

        try:
            self._lock.acquire()
        except Timeout:
            raise TfsmError(f"{self._directory}: another process is at work in it; wait for it, or end it") from None
        except OSError as error:
            raise TfsmError(f"{self._directory}: cannot be written to: {error.strerror}") from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()


def is_held(directory: Path) -> bool:
    """Say whether a process is at work in a directory; one that cannot be asked is taken to be free."""
    from filelock import FileLock, Timeout

    if not (directory / LOCK).is_file():
        return False
    lock = FileLock(directory / LOCK, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        return True
    except OSError:
        return False
    lock.release()
    return False
