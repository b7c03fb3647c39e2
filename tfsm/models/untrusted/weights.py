"""HDF5 weights: links that lead out of the file, and shapes that nothing stands behind."""

from __future__ import annotations

import math
from typing import IO, Final

import h5py  # type: ignore[import-untyped]

from tfsm.errors import TfsmError
from tfsm.models.untrusted.limits import MOST_BYTES, is_bomb
from tfsm.models.untrusted.refusal import RefusedError, reason, shown

OTHER_FILES: Final = "it can bring other files of this machine into the model"


def check_weights(stream: IO[bytes], name: str) -> None:
    """Refuse links, data that lie elsewhere, and more bytes than memory should hold; no number is read.

    Args:
        stream: the HDF5 file.
        name: what to call it.
    """
    try:
        with h5py.File(stream, "r") as file:
            total = _check_group(file, name)
    except TfsmError:
        raise
    except Exception as error:  # what a broken file makes h5py raise is of many kinds
        raise TfsmError(
            f"cannot load the model: {name} are not an HDF5 file that can be read ({reason(error)})"
        ) from None
    if total > MOST_BYTES:
        raise RefusedError(f"{name} of {total:,} bytes", f"above {MOST_BYTES:,} they could take all memory")


def _check_group(root: h5py.Group, name: str) -> int:
    """Look at everything below a group once, and return the bytes of all data."""
    total, groups, seen = 0, [root], set()
    while groups:
        group = groups.pop()
        for key in group:
            place = f"{group.name.rstrip('/')}/{key}"
            # Asked for the link itself, h5py does not follow it.
            link = group.get(key, getlink=True)
            if not isinstance(link, h5py.HardLink):
                raise RefusedError(f"{name}: {type(link).__name__} at {shown(place)}", f"a link; {OTHER_FILES}")
            child = group[key]
            address = h5py.h5o.get_info(child.id).addr
            if address in seen:
                continue
            seen.add(address)
            if isinstance(child, h5py.Group):
                groups.append(child)
            elif isinstance(child, h5py.Dataset):
                total += _check_data(child, f"{name}: data at {shown(place)}")
    return total


def _check_data(data: h5py.Dataset, name: str) -> int:
    if data.external:
        raise RefusedError(f"{name} stored in {shown(data.external[0][0])}", f"an external file; {OTHER_FILES}")
    if data.is_virtual:
        raise RefusedError(f"{name}, a virtual dataset", f"it is made of other files; {OTHER_FILES}")
    if data.shape is None:
        return 0
    if data.dtype.hasobject:
        raise RefusedError(f"{name} of type {data.dtype}", "weights are numbers, and nothing else is safe to read")
    size = math.prod(data.shape) * data.dtype.itemsize
    stored = data.id.get_storage_size()
    if size > MOST_BYTES or is_bomb(size, stored):
        raise RefusedError(
            f"{name} of shape {data.shape}, {size:,} bytes of which {stored:,} are stored",
            "a shape bomb; reading it could take all memory",
        )
    return size
