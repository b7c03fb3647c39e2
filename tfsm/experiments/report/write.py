"""Files of a report: there as a whole or not at all, and never in the place of something else."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tfsm.errors import TfsmError
from tfsm.files import whole

PAGES: Final = (".html", ".htm")


def check_page(file: Path) -> None:
    """Refuse a place where no page can be, or where something else is."""
    if file.is_dir():
        raise TfsmError(f"{file}: a directory; --html takes the file to write, such as report.html")
    if file.suffix.lower() not in PAGES:
        raise TfsmError(f"{file}: a page is saved as {' or '.join(PAGES)}")
    if not file.parent.is_dir():
        raise TfsmError(f"{file}: there is no directory {str(file.parent)!r}")


def make_folder(folder: Path) -> None:
    """Make a directory for figures, unless it is there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise TfsmError(f"{folder}: a file; --figures takes a directory") from None
    except OSError as error:
        raise TfsmError(f"{folder}: cannot make the directory: {error.strerror}") from None


def write(file: Path, content: bytes) -> None:
    """Write a file, in the place of an older one of the same name."""
    try:
        with whole(file) as draft:
            draft.write_bytes(content)
    except OSError as error:
        raise TfsmError(f"{file}: cannot be written: {error.strerror}") from None
