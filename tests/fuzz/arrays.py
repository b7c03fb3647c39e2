"""NumPy files that lie."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from hypothesis import strategies as st

from tests.fuzz.damage import damaged

DTYPES: Final = ("<f4", ">f8", "f2", "g", "?", "i1", "<u8", "c8", "S3", "U2", "V4", "M8[s]", "f4,i4", "(2,)f4", "O")
SHAPES: Final = st.lists(st.integers(0, 6), max_size=4).map(tuple) | st.just((5, 3))
CLAIMS: Final = st.sampled_from(
    [
        *(
            "(5, 3)",
            "(1000000000, 3)",
            "(10000000000000000000000,)",
            "(-1, 3)",
            "(True, 3)",
            "()",
            "(0, 3)",
            "5",
            "None",
        ),
        *("(2**40,)", "(4294967296, 4294967296)", f"({'9' * 400},)", "[5, 3]", "(5.0, 3)", "(" * 90 + ")" * 90),
    ]
)
DESCRIPTIONS: Final = st.sampled_from(["'<f4'", "'|O'", "'<f99'", "[('a', '<f4')]", "'f4,f4'", "3", "'<U999999999'"])


class Marks:
    """Leaves a mark where it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("executed",)


def saved(array: np.ndarray) -> bytes:
    """Return an array as `np.save` writes it."""
    with io.BytesIO() as stream:
        np.save(stream, array, allow_pickle=True)
        return stream.getvalue()


def archived(members: Mapping[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return an archive of members."""
    with io.BytesIO() as stream:
        with zipfile.ZipFile(stream, "w", compression) as archive:
            for name, content in members.items():
                archive.writestr(name, content)
        return stream.getvalue()


@st.composite
def honest_arrays(draw: st.DrawFn) -> bytes:
    """Draw arrays of any type and shape, Python objects among them."""
    kind, shape = np.dtype(draw(st.sampled_from(DTYPES))), draw(SHAPES)
    if kind.hasobject:
        objects = np.empty(shape, object)
        objects[...] = Marks()
        return saved(objects)
    return saved(np.zeros(shape, kind))


@st.composite
def lying_arrays(draw: st.DrawFn) -> bytes:
    """Draw headers that claim anything, with little behind them."""
    header = f"{{'descr': {draw(DESCRIPTIONS)}, 'fortran_order': {draw(st.booleans())}, 'shape': {draw(CLAIMS)}, }}"
    version, size = draw(st.sampled_from([(b"\x01\x00", 2), (b"\x02\x00", 4), (b"\x03\x00", 4), (b"\x09\x00", 2)]))
    length = draw(st.sampled_from([len(header), len(header), 0, 2**15, 2 ** (8 * size) - 1]))
    return b"\x93NUMPY" + version + length.to_bytes(size, "little") + header.encode() + bytes(60)


ARRAYS: Final = st.one_of(
    honest_arrays(), lying_arrays(), damaged(saved(np.ones((5, 3), "f4"))), st.binary(max_size=40)
)
ARCHIVES: Final = st.one_of(
    st.dictionaries(st.sampled_from(["arr_0", "arr_0.npy", "arr_1.npy", "a.npy", "../x.npy", "d/"]), ARRAYS, max_size=3)
    .map(archived),
    damaged(archived({"arr_0.npy": saved(np.ones((5, 3), "f4"))}, zipfile.ZIP_STORED)),
    damaged(archived({"arr_0.npy": saved(np.ones((5, 3), "f4"))})),
    ARRAYS,
)  # fmt: skip
