"""What a run's populations did, as its directory keeps it."""

from __future__ import annotations

from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from tfsm.errors import TfsmError


def read_behavior(file: Path) -> dict[str, np.ndarray]:
    """Return all tables of a file: evaluations `[T]`, behavior `[T, N, D]`, and what else was kept."""
    try:
        # Opened here, because NumPy leaves a file open that turns out to be none of its own.
        with file.open("rb") as opened, np.load(opened, allow_pickle=False) as kept:
            return {name: kept[name] for name in kept.files}
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        raise TfsmError(f"{file}: cannot be read: {error}") from None
