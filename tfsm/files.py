"""Files that are there as a whole or not at all, also after a power cut."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_DRAFT: Final = ".part"
_CANNOT_BE_ASKED: Final = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS)


@contextmanager
def whole(file: Path) -> Iterator[Path]:
    """Give a draft to write to, which becomes the file if nothing fails, and is removed if something does.

    The draft has the file's ending, because some libraries go by that. What was there before stays until the new file
    is on the disk.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "notes.txt"
    >>> with whole(file) as draft:
    ...     _ = draft.write_text("kept")
    >>> file.read_text()
    'kept'
    """
    draft = file.with_name(f".{file.name}{_DRAFT}{file.suffix}")
    try:
        yield draft
        to_disk(draft)
        os.replace(draft, file)
        to_disk(file.parent)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise


def is_draft(path: Path) -> bool:
    """Say whether a file was never finished, because whoever wrote it was killed."""
    return path.name.startswith(".") and _DRAFT in path.suffixes


def put_aside(file: Path, why: str) -> Path:
    """Give a file another name, so that its place is free and nothing is lost; returns that name.

    Args:
        file: the file.
        why: a word of the new name.
    """
    count = sum(1 for _ in file.parent.glob(f"{file.name}.{why}-*"))
    return file.rename(file.with_name(f"{file.name}.{why}-{count + 1}"))


def to_disk(path: Path) -> None:
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
