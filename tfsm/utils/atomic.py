"""Files that are there as a whole or not at all, also after a power cut."""

from __future__ import annotations

import errno
import itertools
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_DRAFT: Final = ".part"
_CANNOT_BE_ASKED: Final = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS)


@contextmanager
def atomic_write(file: Path) -> Iterator[Path]:
    """Give a draft to write to, which becomes the file if nothing fails, and is removed if something does.

    The draft has the file's ending, because some libraries go by that. What was there before stays until the new file
    is on the disk.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "notes.txt"
    >>> with atomic_write(file) as draft:
    ...     _ = draft.write_text("kept")
    >>> file.read_text()
    'kept'
    """
    draft = file.with_name(f".{file.name}{_DRAFT}{file.suffix}")
    try:
        yield draft
        flush_to_disk(draft)
        os.replace(draft, file)
        flush_to_disk(file.parent)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise


def is_temporary(path: Path) -> bool:
    """Say whether a file was never finished, because whoever wrote it was killed."""
    return path.name.startswith(".") and _DRAFT in path.suffixes


def back_up(file: Path, why: str, *, copy: bool = False) -> Path:
    """Give a file another name, so that its place is free and nothing is lost; returns that name.

    Args:
        file: the file.
        why: a word of the new name.
        copy: whether the file itself stays as well.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "notes.txt"
    >>> for text in ("one", "two"):
    ...     _ = file.write_text(text)
    ...     print(back_up(file, "damaged").name, file.exists())
    notes.txt.damaged-1 False
    notes.txt.damaged-2 False
    """
    names = (file.with_name(f"{file.name}.{why}-{number}") for number in itertools.count(1))
    free = next(name for name in names if not name.exists())
    if not copy:
        return file.rename(free)
    with atomic_write(free) as draft:
        shutil.copyfile(file, draft)
    return free


def is_backup(path: Path) -> bool:
    """Say whether a file was put aside."""
    return re.fullmatch(r"\.[a-z]+-\d+", path.suffix) is not None


def flush_to_disk(path: Path) -> None:
    """Let neither a file nor the names in a folder wait in a buffer."""
    # Some systems cannot open folders, and some file systems cannot be asked: then this is all that can be done.
    with suppress(PermissionError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        except OSError as error:
            if path.is_file() and error.errno not in _CANNOT_BE_ASKED:
                raise
        finally:
            os.close(descriptor)
