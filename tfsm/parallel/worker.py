"""Worker main loop, pickling, framing.

A class or function of the user's script is told by its name in a pickle, and a worker does not run that script.
cloudpickle, which comes with Gymnasium, sends it whole. Without it such a task is refused in words.
"""

from __future__ import annotations

import atexit
import faulthandler
import importlib
import os
import pickle
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, TypeAlias

from tfsm.errors import TfsmError
from tfsm.parallel.pool import Failure, Kind, Task, WorkerContext
from tfsm.utils.tf_startup import set_tensorflow_environment, use_compile_cache

Told: TypeAlias = tuple[Kind, Any]


def run_task(task: Task, context: WorkerContext) -> Iterator[Told]:
    """Do a task: tell each event as it comes, then that it is done or why it failed."""
    last: Told
    try:
        events = task(context)
        while True:
            try:
                event = next(events)
            except StopIteration as end:
                last = "done", end.value
                break
            yield "event", event
    except GeneratorExit:
        raise
    except BaseException as error:  # also what would end the process, such as sys.exit() in somebody's code
        last = "failed", describe_failure(error)
    yield last


def describe_failure(error: BaseException) -> Failure:
    r"""Put an exception into words.

    >>> describe_failure(TfsmError("no such thing")).message
    'no such thing'
    >>> describe_failure(ValueError("odd\nand more")).message
    'ValueError: odd'
    """
    ours = isinstance(error, TfsmError)
    first = next(iter(str(error).strip().splitlines()), "")
    text = str(error) if ours else f"{type(error).__name__}: {first}".removesuffix(": ")
    return Failure(ours, text, "".join(traceback.format_exception(error)))


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


def pack_task(task: Task) -> Frames:
    """Pickle a task, with what of it is in the user's script."""
    try:
        return pack(task, _by_value() or pickle.dumps)
    except Exception as error:
        raise TfsmError(_refused("sent to", error)) from error


def unpack_task(frames: Frames) -> Task:
    """Return the task again, in a worker."""
    try:
        task: Task = unpack(frames)
    except Exception as error:
        raise TfsmError(_refused("loaded in", error)) from error
    return task


def run_packed_task(frames: Frames, context: WorkerContext) -> Iterator[tuple[Kind, Frames]]:
    """Do a task that came in a pickle; pickle what is to be told of it."""
    try:
        for kind, content in run_task(unpack_task(frames), context):
            yield kind, _pack_result(content)
    except Exception as error:
        yield "failed", pack(describe_failure(error))


def _pack_result(value: Any) -> Frames:
    """Pickle what a task told: by pickle, which is faster, unless it is of a class that came with the task."""
    try:
        return pack(value)
    except Exception:
        by_value = _by_value()
        if by_value is None:
            raise
        return pack(value, by_value)


def _by_value() -> Callable[..., bytes] | None:
    # Ray has one of its own, which is not worth importing Ray for.
    for name in ("cloudpickle", "ray.cloudpickle"):
        with suppress(ImportError):
            if name == "cloudpickle" or "ray" in sys.modules:
                found: Callable[..., bytes] = importlib.import_module(name).dumps
                return found
    return None


def _refused(what: str, error: Exception) -> str:
    hint = "" if _by_value() else ", or pip install cloudpickle"
    text = f"{type(error).__name__}: {error}"
    return f"a task cannot be {what} another process ({text}): define its parts in a module that can be imported{hint}"


LOOK: Final = 1.0
"""Seconds between two looks at whether the driver is still there."""

_Channel: TypeAlias = "Connection[Any, Any]"


def main(descriptor: int) -> None:
    """Serve.

    Args:
        descriptor: of this end of the channel.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver, which decides
    faulthandler.enable()  # a crash then says where
    _be_first_to_go()
    atexit.register(_end)  # registered first, so it comes last: other people's processes go too
    connection: _Channel = Connection(descriptor)
    context = WorkerContext()
    tasks: SimpleQueue[Frames | None] = SimpleQueue()
    threading.Thread(target=_listen, args=(connection, context, tasks), daemon=True).start()
    with suppress(OSError):  # the driver has gone
        send(connection, "ready")
        while (frames := tasks.get()) is not None:
            for kind, packed in run_packed_task(frames, context):
                send(connection, kind, packed)
            del frames  # perhaps large, and the next task may be long in coming
    context.cache.clear()


def _listen(connection: _Channel, context: WorkerContext, tasks: SimpleQueue[Frames | None]) -> None:
    """Hear what the driver says, also while a task is under way; end the process if there is no driver any more."""
    parent = os.getppid()
    try:
        while True:
            # A process that the driver has forked holds the channel open after it: its end is not always heard.
            while not connection.poll(LOOK):
                if os.getppid() != parent:
                    return
            kind, frames = receive(connection)
            if kind == "task":
                context.clear()
                tasks.put(frames)
            elif kind == "stop":
                context.request_stop()
            else:
                tasks.put(None)
    except (EOFError, OSError):
        return
    finally:
        _end()


def _end() -> None:
    """End this process and all that it has started, at once."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


def _be_first_to_go() -> None:
    # When memory runs out, the system should take a worker, which can be replaced, and not the driver.
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500")


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
        set_tensorflow_environment(os.environ)
        use_compile_cache(os.environ)
        self._desk = WorkerContext()
        self._told: SimpleQueue[tuple[str, Parcel]] = SimpleQueue()
        self._told.put(("ready", []))

    def begin(self, parcel: Parcel) -> None:
        """Begin a task."""
        self._desk.clear()
        threading.Thread(target=self._work, args=(from_parcel(parcel),), daemon=True).start()

    def hear(self) -> list[tuple[str, Parcel]]:
        """Wait until there is something to tell, and tell all."""
        found = [self._told.get()]
        found += [self._told.get() for _ in range(self._told.qsize())]
        return found

    def stop(self) -> None:
        """Ask the task to end soon."""
        self._desk.request_stop()

    def _work(self, frames: Frames) -> None:
        for kind, packed in run_packed_task(frames, self._desk):
            self._told.put((kind, to_parcel(packed, self._plain)))


def to_parcel(frames: Frames, plain: bool = False) -> Parcel:
    """Let Ray take what is large as it is, instead of copying it into a pickle; or copy it, where it must be plain."""
    return [bytes(frame) if plain else pickle.PickleBuffer(frame) for frame in frames]


def from_parcel(parcel: Parcel) -> Frames:
    """Take a copy that can be written to, and leave Ray's memory, which is shared and cannot."""
    return [bytearray(frame) for frame in parcel]
