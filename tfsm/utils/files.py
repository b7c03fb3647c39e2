"""Files: atomic writes, so that a file is there completely or not at all, also after a power cut; backups; and JSON."""

from __future__ import annotations

import errno
import itertools
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Final

from tfsm.errors import TfsmError

_TEMPORARY: Final = ".part"
_UNSUPPORTED: Final = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS)


@contextmanager
def atomic_write(file: Path) -> Iterator[Path]:
    """Yield a temporary file to write to, which replaces the file on success and is removed on failure.

    The temporary file has the same suffix, because some libraries go by that. The old file stays until the new one is
    on the disk.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "notes.txt"
    >>> with atomic_write(file) as temporary:
    ...     _ = temporary.write_text("done")
    >>> file.read_text()
    'done'
    """
    temporary = file.with_name(f".{file.name}{_TEMPORARY}{file.suffix}")
    try:
        yield temporary
        flush_to_disk(temporary)
        os.replace(temporary, file)
        flush_to_disk(file.parent)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def read_available_memory() -> int | None:
    """Return the bytes of memory and swap that this process can still get; None if the system does not say."""
    try:
        lines = (line.split() for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines())
        free = {words[0]: 1024 * int(words[1]) for words in lines if len(words) == 3}
        available = free["MemAvailable:"] + free.get("SwapFree:", 0)
    except (OSError, ValueError, KeyError):
        return None
    group = Path("/sys/fs/cgroup")  # that of a container
    with suppress(OSError, ValueError):
        limit, used = ((group / name).read_text().strip() for name in ("memory.max", "memory.current"))
        if limit != "max":
            available = min(available, max(0, int(limit) - int(used)))
    return available


def write_text(file: Path, text: str) -> None:
    """Write a text file, atomically."""
    with atomic_write(file) as temporary:
        temporary.write_text(text, encoding="utf-8")


def is_temporary(path: Path) -> bool:
    """Say whether a path is a temporary file, left by a process that was killed."""
    return path.name.startswith(".") and _TEMPORARY in path.suffixes


def back_up(file: Path, label: str, *, copy: bool = False) -> Path:
    """Rename a file to a backup name, so that its name is free and nothing is lost; return the new name.

    Args:
        file: the file.
        label: part of the new name.
        copy: copy the file instead.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "notes.txt"
    >>> for text in ("one", "two"):
    ...     _ = file.write_text(text)
    ...     print(back_up(file, "damaged").name, file.exists())
    notes.txt.damaged-1 False
    notes.txt.damaged-2 False
    """
    names = (file.with_name(f"{file.name}.{label}-{number}") for number in itertools.count(1))
    backup = next(name for name in names if not name.exists())
    if not copy:
        return file.rename(backup)
    with atomic_write(backup) as temporary:
        shutil.copyfile(file, temporary)
    return backup


def is_backup(path: Path) -> bool:
    """Say whether a path has a name that `back_up` gives."""
    return re.fullmatch(r"\.[a-z]+-\d+", path.suffix) is not None


def flush_to_disk(path: Path) -> None:
    """Flush a file, or the names in a folder, to the disk."""
    # Some systems cannot open folders, and some file systems cannot flush: then nothing more can be done.
    with suppress(PermissionError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        except OSError as error:
            if path.is_file() and error.errno not in _UNSUPPORTED:
                raise
        finally:
            os.close(descriptor)


def to_json(value: object) -> Any:
    """Return a value as JSON data: numbers that are not finite become null, and unknown objects text.

    Dataclasses and mappings become objects, sequences, sets and arrays become lists, and NumPy's scalars numbers.

    >>> to_json({"share": float("nan"), 2: (1.5, True, None), "file": Path("a/b")})
    {'share': None, '2': [1.5, True, None], 'file': 'a/b'}
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, float):
        return float(value) if isfinite(value) else None
    if isinstance(value, int):
        return int(value)
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_json(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
    if callable(to_list := getattr(value, "tolist", None)):  # NumPy, which is not imported here
        return to_json(to_list())
    return str(value)


def write_json(file: Path, record: Mapping[str, Any]) -> None:
    """Write a record to a file, atomically."""
    write_text(file, json.dumps(to_json(record), indent=2) + "\n")


def read_json(file: Path) -> dict[str, Any]:
    """Return the object in a JSON file; raise a `TfsmError` if there is none."""
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise TfsmError(f"{file}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise TfsmError(f"{file}: not valid JSON: {error}") from None
    if not isinstance(record, dict):
        raise TfsmError(f"{file}: expected an object, got {type(record).__name__}")
    return record
