"""Messages between two processes: pickles, with what is large beside them so that it is not copied."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any, Final, TypeAlias

Frames: TypeAlias = Sequence[bytes | bytearray | memoryview]

LARGE: Final = 2**16
"""Bytes; a smaller array is not worth a frame of its own."""


def pack(value: Any, dumps: Callable[..., bytes] = pickle.dumps) -> Frames:
    """Pickle a value: first the pickle, then the arrays that it refers to.

    Args:
        value: what to pickle.
        dumps: `pickle.dumps`, or another of that kind.
    """
    large: list[memoryview] = []

    def is_small(buffer: pickle.PickleBuffer) -> bool:
        view = buffer.raw()
        if view.nbytes >= LARGE:
            large.append(view)
        return view.nbytes < LARGE

    return [dumps(value, protocol=5, buffer_callback=is_small), *large]


def unpack(frames: Frames) -> Any:
    """Return the value again."""
    return pickle.loads(frames[0], buffers=frames[1:])


def send(connection: Connection[Any, Any], kind: str, frames: Frames = ()) -> None:
    """Send a message: of which kind it is and how much follows, then that."""
    views = [memoryview(frame).cast("B") for frame in frames]
    connection.send_bytes(pickle.dumps((kind, [view.nbytes for view in views])))
    for view in views:
        while view.nbytes:
            view = view[os.write(connection.fileno(), view) :]


def receive(connection: Connection[Any, Any]) -> tuple[str, Frames]:
    """Wait for a message; raise `EOFError` or `OSError` if the other end is closed."""
    kind, sizes = pickle.loads(connection.recv_bytes())
    frames = [bytearray(size) for size in sizes]
    for frame in frames:
        # Straight to where it is wanted: `recv_bytes` takes three times as long for what is large.
        view = memoryview(frame)
        while view.nbytes:
            count = os.readv(connection.fileno(), [view])
            if count == 0:
                raise EOFError
            view = view[count:]
    return kind, frames
