"""Workers: what a task is, how it is pickled and run, and the main loops of a worker process and a Ray actor.

A pickle refers to a class or function of the user's script by name, and a worker does not run that script. cloudpickle,
which comes with Gymnasium, sends such objects by value. Without it, such a task is rejected with a message.
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
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, entry_points, version
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import tfsm
from tfsm.errors import TfsmError
from tfsm.parallel.processes import Channel, Frames
from tfsm.utils.tf_startup import set_tensorflow_environment, use_compile_cache

LARGE: Final = 2**16
"""Bytes from which an array is sent as a frame of its own."""

MessageKind: TypeAlias = Literal["event", "done", "failed", "died"]


class WorkerContext:
    """What a worker keeps from one task to the next.

    Attributes:
        cache: for the tasks' own use, such as compiled engines; empty when a worker starts.
    """

    def __init__(self) -> None:
        self.cache: dict[str, Any] = {}
        self._stop = threading.Event()

    def should_stop(self) -> bool:
        """Say whether the current task was asked to end soon."""
        return self._stop.is_set()

    def request_stop(self) -> None:
        """Ask the current task to end soon; may be called from another thread."""
        self._stop.set()

    def clear_stop(self) -> None:
        """Clear the request, for the next task."""
        self._stop.clear()


Task: TypeAlias = Callable[[WorkerContext], Iterator[Any]]
"""A picklable object. What it yields is sent at once, and what it returns when it is done."""


class Failure(NamedTuple):
    """Why a task failed.

    Attributes:
        is_user_error: whether it was a `TfsmError`, whose message is meant for the user.
        message: what was wrong; one line unless it is a user error.
        traceback: the traceback as text.
    """

    is_user_error: bool
    message: str
    traceback: str


def run_task(task: Task, context: WorkerContext) -> Iterator[tuple[MessageKind, Any]]:
    """Run a task: yield each event as it comes, then its result or why it failed."""
    last: tuple[MessageKind, Any]
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
    except BaseException as error:  # also what would end the process, such as sys.exit() in third-party code
        last = "failed", describe_failure(error)
    yield last


def describe_failure(error: BaseException) -> Failure:
    r"""Describe an exception.

    >>> describe_failure(TfsmError("no such thing")).message
    'no such thing'
    >>> describe_failure(ValueError("odd\nand more")).message
    'ValueError: odd'
    """
    is_user_error = isinstance(error, TfsmError)
    first = next(iter(str(error).strip().splitlines()), "")
    message = str(error) if is_user_error else f"{type(error).__name__}: {first}".removesuffix(": ")
    return Failure(is_user_error, message, "".join(traceback.format_exception(error)))


def pack(value: Any, dumps: Callable[..., bytes] = pickle.dumps) -> Frames:
    """Pickle a value: the pickle first, then the large arrays it refers to.

    Args:
        value: what to pickle.
        dumps: `pickle.dumps`, or a function like it.
    """
    large: list[memoryview] = []

    def is_small(buffer: pickle.PickleBuffer) -> bool:
        view = buffer.raw()
        if view.nbytes >= LARGE:
            large.append(view)
        return view.nbytes < LARGE

    return [dumps(value, protocol=5, buffer_callback=is_small), *large]


def unpack(frames: Frames) -> Any:
    """Restore a packed value."""
    return pickle.loads(frames[0], buffers=frames[1:])


def pack_task(task: Task) -> Frames:
    """Pickle a task, with objects of the user's script by value."""
    try:
        return pack(task, _find_cloudpickle() or pickle.dumps)
    except Exception as error:
        raise TfsmError(_describe_pickling_error("sent to", error)) from error


def unpack_task(frames: Frames) -> Task:
    """Restore a task in a worker."""
    try:
        task: Task = unpack(frames)
    except Exception as error:
        raise TfsmError(_describe_pickling_error("loaded in", error)) from error
    return task


def run_packed_task(frames: Frames, context: WorkerContext) -> Iterator[tuple[MessageKind, Frames]]:
    """Run a pickled task; yield pickled events and the result."""
    try:
        for kind, content in run_task(unpack_task(frames), context):
            yield kind, _pack_result(content)
    except Exception as error:
        yield "failed", pack(describe_failure(error))


def _pack_result(value: Any) -> Frames:
    """Pickle an event or result; by value if it is of a class that came with the task, which is slower."""
    try:
        return pack(value)
    except Exception:
        dumps = _find_cloudpickle()
        if dumps is None:
            raise
        return pack(value, dumps)


def _find_cloudpickle() -> Callable[..., bytes] | None:
    # Ray has one of its own, which is not worth importing Ray for.
    for name in ("cloudpickle", "ray.cloudpickle"):
        with suppress(ImportError):
            if name == "cloudpickle" or "ray" in sys.modules:
                dumps: Callable[..., bytes] = importlib.import_module(name).dumps
                return dumps
    return None


def _describe_pickling_error(what: str, error: Exception) -> str:
    hint = "" if _find_cloudpickle() else ", or pip install cloudpickle"
    text = f"{type(error).__name__}: {error}"
    return f"a task cannot be {what} another process ({text}): define its parts in a module that can be imported{hint}"


POLL_SECONDS: Final = 1.0
"""Time between two checks whether the driver is still alive."""


def main(channel: Channel) -> None:
    """Run tasks until the driver says to end, or is gone.

    Args:
        channel: the channel to the driver.
    """
    faulthandler.enable()  # a crash then says where
    _prefer_to_be_killed()
    atexit.register(_end)  # registered first, so it runs last, and processes that libraries started end too
    context = WorkerContext()
    tasks: SimpleQueue[Frames | None] = SimpleQueue()
    threading.Thread(target=_listen, args=(channel, context, tasks), daemon=True).start()
    threading.Thread(target=_watch_driver, args=(os.getppid(),), daemon=True).start()
    with suppress(OSError):  # the driver is gone
        channel.send("ready")
        while (frames := tasks.get()) is not None:
            for kind, packed in run_packed_task(frames, context):
                channel.send(kind, packed)
            del frames  # it may be large, and the next task a long way off
    context.cache.clear()


def _listen(channel: Channel, context: WorkerContext, tasks: SimpleQueue[Frames | None]) -> None:
    """Receive messages of the driver, also during a task; end the process when the driver is gone."""
    try:
        while True:
            kind, frames = channel.receive()
            if kind == "task":
                context.clear_stop()
                tasks.put(frames)
            elif kind == "stop":
                context.request_stop()
            else:
                tasks.put(None)
    except (EOFError, OSError):
        _end()


def _watch_driver(process: int) -> None:
    """End this process with the driver: a process that the driver forked may hold the pipe open, so there is no EOF."""
    while os.getppid() == process:
        time.sleep(POLL_SECONDS)
    _end()


def _end() -> None:
    """End this process and all that it has started, at once."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


def _prefer_to_be_killed() -> None:
    # When memory runs out, the system should kill a worker, which can be replaced, rather than the driver.
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500")


_LIBRARIES: Final = ("tensorflow", "keras", "numpy")
"""Libraries of which another version may give other results."""


class Installation(NamedTuple):
    """What a machine has installed.

    Attributes:
        address: the machine, as Ray names it; empty outside of Ray.
        versions: by distribution: tfsm, the libraries that results depend on, and all packages with plugins.
        niceness: how much other processes come before this one.
    """

    address: str
    versions: Mapping[str, str]
    niceness: int = 0

    @classmethod
    def here(cls, address: str = "") -> Installation:
        """Describe this process; imports nothing."""
        points = entry_points(group="tfsm")
        plugins = {point.dist.name: point.dist.version for point in points if point.dist is not None}
        versions = plugins | {"tfsm": tfsm.__version__}
        for name in _LIBRARIES:
            with suppress(PackageNotFoundError):  # TensorFlow is also distributed under other names
                versions[name] = version(name)
        return cls(address, versions, os.nice(0))

    def list_differences(self, other: Installation) -> list[str]:
        """Say what another machine lacks, or has in another version.

        >>> here = Installation("", {"tfsm": "1.0", "tfsm-noise": "2.0"})
        >>> here.list_differences(Installation("", {"tfsm": "1.1"}))
        ['tfsm 1.1 instead of 1.0', 'no tfsm-noise 2.0']
        """
        return [
            f"{name} {other.versions[name]} instead of {wanted}" if name in other.versions else f"no {name} {wanted}"
            for name, wanted in self.versions.items()
            if other.versions.get(name) != wanted
        ]


Parcel: TypeAlias = "list[pickle.PickleBuffer | bytes]"


class Actor:
    """Runs tasks in a thread, so that its methods answer meanwhile.

    Its messages are fetched with `receive`, all that there are at a time. A streaming generator would do the same, but
    not for a driver that is connected through `ray://`.

    Args:
        plain: whether messages must be plain bytes.
        address: the address of its node; Ray is asked if it is None.
    """

    def __init__(self, plain: bool = False, address: str | None = None) -> None:
        self._plain = plain
        set_tensorflow_environment(os.environ)
        use_compile_cache(os.environ)
        self._context = WorkerContext()
        self._messages: SimpleQueue[tuple[str, Parcel]] = SimpleQueue()
        here = Installation.here(_find_node_address() if address is None else address)
        self._messages.put(("ready", to_parcel(pack(here), plain)))

    def start(self, parcel: Parcel) -> None:
        """Start a task."""
        self._context.clear_stop()
        threading.Thread(target=self._run, args=(from_parcel(parcel),), daemon=True).start()

    def receive(self) -> list[tuple[str, Parcel]]:
        """Wait for a message; return all that there are."""
        messages = [self._messages.get()]
        messages += [self._messages.get() for _ in range(self._messages.qsize())]
        return messages

    def stop(self) -> None:
        """Ask the task to end soon."""
        self._context.request_stop()

    def _run(self, frames: Frames) -> None:
        for kind, packed in run_packed_task(frames, self._context):
            self._messages.put((kind, to_parcel(packed, self._plain)))


def _find_node_address() -> str:
    address: str = importlib.import_module("ray.util").get_node_ip_address()
    return address


def to_parcel(frames: Frames, plain: bool = False) -> Parcel:
    """Let Ray take large frames as they are instead of copying them into a pickle; or copy them to plain bytes."""
    return [bytes(frame) if plain else pickle.PickleBuffer(frame) for frame in frames]


def from_parcel(parcel: Parcel) -> Frames:
    """Copy the frames out of Ray's shared memory, which is read-only."""
    return [bytearray(frame) for frame in parcel]
