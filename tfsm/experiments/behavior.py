"""What a run's populations did, as its directory keeps it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tfsm.errors import TfsmError
from tfsm.models.untrusted.arrays import check_arrays
from tfsm.models.untrusted.refusal import reason


def read_behavior(file: Path) -> dict[str, np.ndarray]:
    """Return all tables of a file: evaluations `[T]`, behavior `[T, N, D]`, and what else was kept."""
    try:
        # Opened here, because NumPy leaves a file open that turns out to be none of its own.
        with file.open("rb") as opened:
            check_arrays(opened, str(file))
            opened.seek(0)
            with np.load(opened, allow_pickle=False) as kept:
                return {name: kept[name] for name in kept.files}
    except TfsmError:
        raise
    except Exception as error:  # what a broken file makes NumPy, zipfile and zlib raise is of many kinds
        raise TfsmError(f"{file}: cannot be read: {reason(error)}") from None
