"""Files of mutated models: all of them new, each there as a whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tfsm.errors import TfsmError
from tfsm.files import whole


def child_files(out: Path, count: int) -> list[Path]:
    """Return where children go: one to the file itself, several to files with numbers; an error if one is there.

    Args:
        out: a `.keras` file.
        count: how many children.
    """
    if out.suffix != ".keras":
        raise TfsmError(f"{out}: a child is saved as a .keras file")
    if not out.parent.is_dir():
        raise TfsmError(f"{out}: there is no directory {str(out.parent)!r}")
    digits = len(str(count - 1))
    files = [out] if count == 1 else [out.with_name(f"{out.stem}-{i:0{digits}d}.keras") for i in range(count)]
    for file in files:
        # A link that leads nowhere would be replaced as well.
        if file.exists() or file.is_symlink():
            raise TfsmError(f"{file}: already there, and never overwritten: choose another --out")
    return files


def save_child(child: Any, file: Path) -> None:
    """Save a Keras model, so that nobody sees half of it."""
    try:
        with whole(file) as draft:
            child.save(draft)
    except OSError as error:
        raise TfsmError(f"{file}: cannot be written: {error.strerror or error}") from None
