"""The worker's side of `RayPool`: what is done in the process that Ray starts. Imports no Ray."""

from __future__ import annotations

import os
import pickle
import threading
from queue import SimpleQueue
from typing import TypeAlias

from tfsm.compile_cache import use_compile_cache
from tfsm.experiments.places.channel import Frames
from tfsm.experiments.places.packing import told_of
from tfsm.experiments.places.task import Desk
from tfsm.starting import prepare

Parcel: TypeAlias = "list[pickle.PickleBuffer | bytes]"


class Actor:
    """Does tasks in a thread of its own, so that its methods answer meanwhile.

    What it tells is fetched by `hear`, as much as there is at a time. A streaming generator would do the same, but not
    for a driver that is connected by `ray://`.

    Args:
        plain: whether what is told must be plain bytes.
    """

    def __init__(self, plain: bool = False) -> None:
        self._plain = plain
        prepare(os.environ)
        use_compile_cache(os.environ)
        self._desk = Desk()
        self._told: SimpleQueue[tuple[str, Parcel]] = SimpleQueue()
        self._told.put(("ready", []))

    def begin(self, parcel: Parcel) -> None:
        """Begin a task."""
        self._desk.clear()
        threading.Thread(target=self._work, args=(unwrapped(parcel),), daemon=True).start()

    def hear(self) -> list[tuple[str, Parcel]]:
        """Wait until there is something to tell, and tell all."""
        found = [self._told.get()]
        found += [self._told.get() for _ in range(self._told.qsize())]
        return found

    def stop(self) -> None:
        """Ask the task to end soon."""
        self._desk.ask_to_stop()

    def _work(self, frames: Frames) -> None:
        for kind, packed in told_of(frames, self._desk):
            self._told.put((kind, wrapped(packed, self._plain)))


def wrapped(frames: Frames, plain: bool = False) -> Parcel:
    """Let Ray take what is large as it is, instead of copying it into a pickle; or copy it, where it must be plain."""
    return [bytes(frame) if plain else pickle.PickleBuffer(frame) for frame in frames]


def unwrapped(parcel: Parcel) -> Frames:
    """Take a copy that can be written to, and leave Ray's memory, which is shared and cannot."""
    return [bytearray(frame) for frame in parcel]
