"""The file format of checkpoints: a header in JSON, tables as they lie in memory, and a digest of all of it.

Nothing in a file is ever run: there is no pickle. What was cut off, changed, or written by something else is told from
what is whole before any of it is used.

    magic 16 bytes | version u32 | length of the header u64 | header, JSON | tables, each at a multiple of 64 | SHA-256
"""

from __future__ import annotations

import hashlib
import json
import mmap
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any, Final

import numpy as np

from tfsm.errors import TfsmError
from tfsm.evolution.saving import Rows

VERSION: Final = 1
_MAGIC: Final = b"tfsm checkpoint\n"
_PREFACE: Final = struct.Struct("<16sIQ")
_DIGEST: Final = 32
_ALIGNED: Final = 64
_LARGEST_HEADER: Final = 2**28


class Damaged(TfsmError):
    """What is in a file is not, or not any more, what was once written."""


def dump(file: IO[bytes], header: Mapping[str, Any], tables: Mapping[str, Rows]) -> None:
    """Write a header and tables.

    Args:
        file: where to, opened for bytes.
        header: what JSON can say.
        tables: written row by row, so that only one row at a time takes memory.
    """
    listed, offset = [], 0
    for name, rows in tables.items():
        listed.append({"name": name, "dtype": rows.dtype.str, "shape": list(rows.shape), "offset": offset})
        offset = _aligned(offset + _size(rows))
    text = json.dumps({"header": header, "tables": listed}).encode()
    text += b" " * (_aligned(_PREFACE.size + len(text)) - _PREFACE.size - len(text))
    digest = hashlib.sha256()

    def write(chunk: Any) -> None:
        digest.update(chunk)
        file.write(chunk)

    write(_PREFACE.pack(_MAGIC, VERSION, len(text)))
    write(text)
    for rows in tables.values():
        for row in rows:
            if row.size:
                write(np.ascontiguousarray(row, rows.dtype).data.cast("B"))
        write(b"\0" * (_aligned(_size(rows)) - _size(rows)))
    file.write(digest.digest())


def load(buffer: Any, where: str, digest: bytes | None = None) -> tuple[dict[str, Any], dict[str, Rows]]:
    """Return header and tables of a buffer of bytes; a `Damaged` error if it is not whole.

    Args:
        buffer: bytes, or a file that is mapped into memory.
        where: what to call it in a message.
        digest: that of all of it but the digest at its end, if it is known.
    """
    view = memoryview(buffer)
    if len(view) < _PREFACE.size + _DIGEST:
        raise Damaged(f"{where}: cut off after {len(view)} bytes")
    magic, version, length = _PREFACE.unpack(view[: _PREFACE.size])
    if magic != _MAGIC:
        raise Damaged(f"{where}: not a checkpoint of tfsm")
    if version > VERSION:
        raise Damaged(
            f"{where}: written by a newer tfsm (format {version}, this one reads up to {VERSION}): upgrade tfsm"
        )
    body = len(view) - _DIGEST
    if (digest or hashlib.sha256(view[:body]).digest()) != view[body:]:
        raise Damaged(f"{where}: damaged or cut off, its digest does not fit")
    # From here on it is as somebody wrote it; whoever that was may have written nonsense all the same.
    try:
        if length > min(_LARGEST_HEADER, body - _PREFACE.size):
            raise ValueError("its header is longer than the file")
        text = json.loads(bytes(view[_PREFACE.size : _PREFACE.size + length]))
        tables = dict(_tables(view[_PREFACE.size + length : body], text["tables"]))
        header = text["header"]
        if not isinstance(header, dict):
            raise ValueError("its header is no object")
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise Damaged(f"{where}: not a checkpoint of tfsm: {error}") from None
    return header, tables


def load_file(file: Path) -> tuple[dict[str, Any], dict[str, Rows]]:
    """Return header and tables of a file, of which only what is looked at takes memory."""
    try:
        with file.open("rb") as opened:
            # Read before it is mapped: a disk that cannot read a mapped page kills the process.
            digest = _digest(opened)
            content = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
    except ValueError:
        raise Damaged(f"{file}: empty") from None
    except OSError as error:
        raise Damaged(f"{file}: cannot be read: {error.strerror}") from None
    return load(content, str(file), digest)


def _digest(file: IO[bytes]) -> bytes:
    left = max(0, file.seek(0, 2) - _DIGEST)
    file.seek(0)
    found = hashlib.sha256()
    while left and (chunk := file.read(min(left, 2**20))):
        found.update(chunk)
        left -= len(chunk)
    return found.digest()


def _tables(view: memoryview, listed: Iterable[Mapping[str, Any]]) -> Iterable[tuple[str, Rows]]:
    for entry in listed:
        dtype, shape = np.dtype(entry["dtype"]), tuple(int(n) for n in entry["shape"])
        if dtype.hasobject or any(n < 0 for n in shape):
            raise ValueError("a table of objects")
        count = int(np.prod(shape, dtype=object))
        whole = np.frombuffer(view, dtype, count, int(entry["offset"])).reshape(shape)
        yield str(entry["name"]), Rows(dtype, shape, lambda place, whole=whole: whole[place])  # type: ignore[misc]


def _size(rows: Rows) -> int:
    return int(np.prod(rows.shape, dtype=object)) * rows.dtype.itemsize


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNED) * _ALIGNED
