"""The records of run directories and studies: `run.json`, `study.json`, `metrics.jsonl` and the lock. No TensorFlow.

They are files on a disk: a crash, an editor or another program may have left anything in them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Final, NotRequired, Self

from annotated_types import Ge, Lt
from typing_extensions import TypedDict

from tfsm.errors import TfsmError
from tfsm.utils.files import read_json

RECORD: Final = "run.json"
METRICS: Final = "metrics.jsonl"
STUDY: Final = "study.json"
ORDER: Final = "order.log"
BEHAVIOR: Final = "behavior"


def behavior_file(directory: Path, run: int) -> Path:
    """Return the file with the behavior of a run's populations, if the domain names it or the scheme needs it."""
    return directory / BEHAVIOR / f"run-{run:03d}.npz"


def timestamp() -> str:
    """Return the current time as in a record."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def read_record(directory: Path) -> dict[str, Any]:
    """Return the `run.json` of a run directory."""
    file = directory / RECORD
    if not file.is_file():
        problem = f"not a run directory, it has no {RECORD}" if directory.is_dir() else "no such directory"
        raise TfsmError(f"{directory}: {problem}")
    record = read_json(file)
    for key, kind in (("settings", dict), ("runs", list), ("status", str)):
        if not isinstance(record.get(key), kind):
            raise TfsmError(f"{file}: not the record of a run: no {key!r}")
    return record


def read_study(directory: Path) -> dict[str, Any]:
    """Return the `study.json` of a study."""
    file = directory / STUDY
    record = read_json(file)
    members = record.get("members")
    if not isinstance(members, list) or not all(
        isinstance(m, dict) and {"name", "directory"} <= m.keys() for m in members
    ):
        raise TfsmError(f"{file}: not the record of a study: no list of members")
    return record


def read_metrics(directory: Path) -> Iterator[dict[str, Any]]:
    """Return the lines of `metrics.jsonl`, without an incomplete last one."""
    file = directory / METRICS
    if not file.is_file():
        return
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise TfsmError(f"{file}: cannot be read: {error}") from None
    for number, line in enumerate(lines, start=1):
        try:
            metrics = json.loads(line)
        except ValueError as error:
            if number == len(lines):
                return
            raise TfsmError(f"{file}, line {number}: not valid JSON: {error}") from None
        yield metrics


Count = Annotated[int, Ge(0), Lt(2**63)]


class _Run(TypedDict):
    run: Count
    solved: bool
    evaluations: Count
    best_fitness: float | None


class _Settings(TypedDict):
    domain: str
    mutation: str
    evaluations: Count
    runs: NotRequired[Count]


class _Record(TypedDict):
    status: str
    settings: _Settings
    runs: list[_Run]
    command: NotRequired[list[str]]
    started: NotRequired[str | None]
    ended: NotRequired[str | None]
    inputs: NotRequired[dict[str, str]]


class _Member(TypedDict):
    name: str
    directory: str


class _Study(TypedDict):
    members: list[_Member]
    kind: NotRequired[str]
    domain: NotRequired[str]
    status: NotRequired[str]
    commands: NotRequired[list[list[str]]]
    started: NotRequired[str | None]
    ended: NotRequired[str | None]
    scale: NotRequired[float]


class _Line(TypedDict):
    run: Count
    evaluations: Count
    best_fitness: float | None


def read_valid_record(directory: Path) -> dict[str, Any]:
    """Return the `run.json` of a run directory; raise a `TfsmError` that names what is wrong with it."""
    record = read_record(directory)
    _check(_Record, record, f"{directory / RECORD}: not the record of a run")
    return record


def read_valid_study(directory: Path) -> dict[str, Any]:
    """Return the `study.json` of a study; raise a `TfsmError` that names what is wrong with it."""
    record = read_study(directory)
    _check(_Study, record, f"{directory / STUDY}: not the record of a study")
    return record


def read_valid_metrics(directory: Path) -> tuple[dict[str, Any], ...]:
    """Return the lines of `metrics.jsonl`; raise a `TfsmError` that names what is wrong with one."""
    file = directory / METRICS
    try:
        lines = tuple(read_metrics(directory))
    except RecursionError:
        raise TfsmError(f"{file}: not valid JSON: nested too deeply") from None
    for number, line in enumerate(lines, start=1):
        _check(_Line, line, f"{file}, line {number}: not the metrics of a run")
    return lines


def _check(kind: type, value: Mapping[str, Any], where: str) -> None:
    from pydantic import ValidationError

    try:
        _adapter(kind).validate_python(value, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        key = ".".join(map(str, first["loc"]))
        raise TfsmError(f"{where}: {f'{key}: ' if key else ''}{first['msg'].lower()}") from None


@cache
def _adapter(kind: type) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


LOCK: Final = ".lock"


LOCK_SECONDS: Final = 0.3
"""How long to try: another process may test for an instant whether the directory is locked."""


class DirectoryLock:
    """A lock of a directory; entering it raises a `TfsmError` if another process holds it.

    Args:
        directory: an existing directory.
    """

    def __init__(self, directory: Path) -> None:
        from filelock import FileLock

        self._directory = directory
        self._lock: Any = FileLock(directory / LOCK, timeout=LOCK_SECONDS)

    def __enter__(self) -> Self:
        from filelock import Timeout

        try:
            self._lock.acquire()
        except Timeout:
            raise TfsmError(f"{self._directory}: in use by another process; wait for it or stop it") from None
        except OSError as error:
            raise TfsmError(f"{self._directory}: cannot be written to: {error.strerror}") from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()


def is_locked(directory: Path) -> bool:
    """Say whether a process has locked a directory; one whose lock cannot be opened counts as free."""
    try:
        if sys.platform == "win32":
            return _is_acquired(directory / LOCK)
        import fcntl

        # Opened for reading only: those who just look need no write access.
        with (directory / LOCK).open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # closing the file releases it
            except (BlockingIOError, PermissionError):
                return True
    except OSError:
        return False
    return False


def _is_acquired(file: Path) -> bool:
    from filelock import FileLock, Timeout

    if not file.is_file():
        return False
    lock = FileLock(file, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        return True
    lock.release()
    return False
