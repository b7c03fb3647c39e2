"""NumPy files: what an array claims to be is read from its header, before memory is taken for it."""

from __future__ import annotations

import math
import zipfile
from dataclasses import dataclass
from typing import IO

import numpy as np

from tfsm.errors import TfsmError
from tfsm.models.untrusted.limits import MOST_BYTES
from tfsm.models.untrusted.refusal import RefusedError, reason


@dataclass(frozen=True)
class Header:
    """What comes before an array's numbers."""

    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def nbytes(self) -> int:
        """What the array takes in memory."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_header(stream: IO[bytes], name: str) -> Header:
    """Read a header and nothing else; the stream is at the first number afterwards."""
    try:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(stream)
    except Exception as error:  # a header is a Python expression: what is wrong with one is of many kinds
        raise TfsmError(f"{name}: not an array as NumPy writes it ({reason(error)})") from None
    if any(length < 0 for length in shape):
        raise TfsmError(f"{name}: not an array as NumPy writes it (shape {shape})")
    return Header(shape, dtype)


def check_numbers(header: Header, name: str) -> None:
    """Refuse an array of Python objects."""
    if header.dtype.hasobject:
        raise RefusedError(f"{name} of Python objects", "they are pickled, and unpickling runs any code the file names")


def check_arrays(stream: IO[bytes], name: str) -> None:
    """Refuse an `.npz` with Python objects in it, or one that would take all memory."""
    with zipfile.ZipFile(stream) as archive:
        members = archive.infolist()
        total = sum(member.file_size for member in members)
        if total > MOST_BYTES:
            raise RefusedError(f"{name} of {total:,} bytes unpacked", f"above {MOST_BYTES:,} it could take all memory")
        for member in members:
            with archive.open(member) as inner:
                header = read_header(inner, f"{name}: {member.filename}")
            check_numbers(header, name)
            if header.nbytes > member.file_size:
                raise RefusedError(f"{name} with a shape of {header.shape}", "it claims more than the file holds")
