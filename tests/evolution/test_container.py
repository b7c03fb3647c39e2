"""Checkpoint files: what was written comes back bit by bit, and nothing else is ever taken for it."""

from __future__ import annotations

import errno
import hashlib
import io
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tfsm.evolution import checkpoint as container
from tfsm.evolution.checkpoint import VERSION, Damaged, Rows, dump, load, load_file

DTYPES = [np.dtype(name) for name in ("<f4", "<f8", ">f4", ">i8", "<i4", "|b1", "|u1", "<f2")]


def rows_of(table: np.ndarray) -> Rows:
    return Rows(table.dtype, table.shape, lambda place: table[place])


def dumped(header: dict[str, Any], **tables: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    dump(buffer, header, {name: rows_of(table) for name, table in tables.items()})
    return buffer.getvalue()


def signed(body: bytes) -> bytes:
    """Put the right digest under what may be nonsense."""
    return body + hashlib.sha256(body).digest()


SHAPES = arrays.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=3)
TABLES = st.sampled_from(DTYPES).flatmap(lambda dtype: arrays.arrays(dtype, SHAPES))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=6), JSON, max_size=4), st.dictionaries(st.text(max_size=8), TABLES, max_size=4))
def test_what_was_written_comes_back(header: dict[str, Any], tables: dict[str, np.ndarray]) -> None:
    buffer = io.BytesIO()
    dump(buffer, header, {name: rows_of(table) for name, table in tables.items()})
    told, found = load(buffer.getvalue(), "here")
    assert told == header
    assert set(found) == set(tables)
    for name, table in tables.items():
        assert found[name].dtype == table.dtype
        assert found[name].shape == table.shape
        for own, row in zip(table, found[name], strict=True):
            assert row.tobytes() == np.ascontiguousarray(own).tobytes()


def test_every_byte_counts() -> None:
    content = dumped({"a": 1}, table=np.arange(5.0), none=np.zeros([0, 3]))
    for place in range(len(content)):
        for change in (1, 0x80):
            changed = bytearray(content)
            changed[place] ^= change
            with pytest.raises(Damaged, match="here"):
                load(bytes(changed), "here")


def test_no_end_is_taken_for_the_end() -> None:
    content = dumped({"a": 1}, table=np.arange(5.0))
    for length in range(len(content)):
        with pytest.raises(Damaged, match="here"):
            load(content[:length], "here")
    with pytest.raises(Damaged):
        load(content + b"\0", "here")


def test_a_newer_format_says_so_whatever_else_it_holds() -> None:
    content = dumped({})
    newer = signed(content[:16] + struct.pack("<I", VERSION + 1) + content[20:-32])
    with pytest.raises(Damaged, match=r"written by a newer tfsm .*upgrade"):
        load(newer, "here")


@pytest.mark.parametrize(
    "text",
    [
        b"[]",
        b"{}",
        b'{"header": [], "tables": []}',
        b'{"header": {}, "tables": [{"name": "a", "dtype": "|O", "shape": [1], "offset": 0}]}',
        b'{"header": {}, "tables": [{"name": "a", "dtype": "<f4", "shape": [-1], "offset": 0}]}',
        b'{"header": {}, "tables": [{"name": "a", "dtype": "<f4", "shape": [99999999999], "offset": 0}]}',
        b'{"header": {}, "tables": [{"name": "a", "dtype": "<f4", "shape": [1], "offset": -8}]}',
        b'{"header": {}, "tables": [{"name": "a", "dtype": "no such", "shape": [1], "offset": 0}]}',
        b"[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_nonsense_with_the_right_digest_is_refused(text: bytes) -> None:
    body = struct.pack("<16sIQ", b"tfsm checkpoint\n", VERSION, len(text)) + text
    with pytest.raises(Damaged, match="not a checkpoint of tfsm"):
        load(signed(body), "here")


def test_a_header_longer_than_the_file_is_refused() -> None:
    body = struct.pack("<16sIQ", b"tfsm checkpoint\n", VERSION, 2**40) + b"{}"
    with pytest.raises(Damaged):
        load(signed(body), "here")


def test_nothing_in_a_file_is_run(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "sprung",))

    for content in (
        pickle.dumps(Trap()),
        signed(struct.pack("<16sIQ", b"tfsm checkpoint\n", 1, 9) + pickle.dumps(Trap())),
    ):
        with pytest.raises(Damaged):
            load(content, "here")
    assert not (tmp_path / "sprung").exists()


def test_a_disk_that_cannot_read_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Any) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    (tmp_path / "some").write_bytes(b"x" * 500)
    monkeypatch.setattr(container, "_digest", fail)
    with pytest.raises(Damaged, match="some: cannot be read: Input/output error"):
        load_file(tmp_path / "some")


def test_files_that_cannot_be_read_are_told_of(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with pytest.raises(Damaged, match="empty"):
        load_file(tmp_path / "empty")
    with pytest.raises(Damaged, match="cannot be read: No such file"):
        load_file(tmp_path / "missing")
    (tmp_path / "good").write_bytes(dumped({"a": 1}, table=np.arange(3)))
    header, tables = load_file(tmp_path / "good")
    assert header == {"a": 1}
    assert [int(row) for row in tables["table"]] == [0, 1, 2]
