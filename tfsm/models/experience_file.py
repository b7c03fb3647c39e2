"""An experience from a NumPy file, looked at before memory is taken for it."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import IO, Any, Final

import numpy as np

from tfsm.errors import TfsmError
from tfsm.models.untrusted.arrays import read_header
from tfsm.models.untrusted.limits import MOST_BYTES
from tfsm.models.untrusted.refusal import reason

UNNAMED: Final = re.compile(r"arr_(\d+)")
"""What `np.savez` calls arrays that were given no name."""


def read_experience(path: str | Path) -> Any:
    """Read inputs `[N, ...]` from a `.npy` file, or those of a model with several inputs from a `.npz` file.

    Args:
        path: the file; within a `.npz`, arrays have the inputs' names, or are `arr_0`, `arr_1` and so on.

    Returns:
        An array, or a tuple of them, or a dict by input.
    """
    file = Path(path)
    if file.suffix not in (".npy", ".npz"):
        raise TfsmError(f"{file}: an experience is a .npy file, or a .npz file for a model of several inputs")
    try:
        if file.suffix == ".npy":
            with file.open("rb") as stream:
                _check(stream, f"{file}", file.stat().st_size)
            return np.load(file, allow_pickle=False)
        _check_archive(file)
        with np.load(file, allow_pickle=False) as arrays:
            return _arranged({name: arrays[name] for name in arrays.files})
    except FileNotFoundError:
        raise TfsmError(f"{file}: no such file") from None
    except TfsmError:
        raise
    except Exception as error:  # what a broken file makes NumPy, zipfile and zlib raise is of many kinds
        raise TfsmError(f"{file}: cannot be read: {reason(error)}") from None


def _check(stream: IO[bytes], name: str, held: int) -> int:
    """Refuse an array that is not one of numbers, or claims more than is there; return its bytes."""
    header = read_header(stream, name)
    if header.dtype.kind not in "biuf":
        pickled = ": they are pickled, and unpickling runs any code that the file names" * header.dtype.hasobject
        raise TfsmError(f"{name}: the experience must be numbers, got an array of {header.dtype}{pickled}")
    if header.nbytes > MOST_BYTES:
        raise TfsmError(
            f"{name}: an array of shape {header.shape} takes {header.nbytes:,} bytes, and {MOST_BYTES:,} are the "
            "most: give fewer inputs"
        )
    if header.nbytes > held:
        raise TfsmError(f"{name}: claims the shape {header.shape}, {header.nbytes:,} bytes, but holds {held:,} only")
    return header.nbytes


def _check_archive(file: Path) -> None:
    total = 0
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            with archive.open(member) as stream:
                total += _check(stream, f"{file}: {member.filename}", member.file_size)
    if total > MOST_BYTES:
        raise TfsmError(f"{file}: takes {total:,} bytes, and {MOST_BYTES:,} are the most: give fewer inputs")


def _arranged(arrays: dict[str, np.ndarray]) -> Any:
    numbers = {name: UNNAMED.fullmatch(name) for name in arrays}
    if len(arrays) == 1:  # the name does not matter
        return next(iter(arrays.values()))
    if arrays and all(numbers.values()):
        return tuple(arrays[name] for name in sorted(arrays, key=lambda name: int(name.removeprefix("arr_"))))
    return arrays
