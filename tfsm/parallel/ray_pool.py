"""Ray actors."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, cast

from tfsm.errors import TfsmError
from tfsm.parallel.pool import (
    THREAD_VARIABLES,
    Kind,
    Message,
    Task,
    count_cores,
    describe_actor_death,
    worker_environment,
)
from tfsm.parallel.worker import Actor, from_parcel, pack_task, to_parcel, unpack
from tfsm.utils.optional import optional
from tfsm.utils.tf_startup import silence_stderr

PATIENCE: Final = 5.0
"""Seconds for an address to answer at all."""

# Ray looks at these when it is imported. The first keeps what it has to say of dead workers off the driver's output,
# where the pool tells it; the second lets a Ray of our own listen on the loopback device only; the third is how often
# it tries to join a cluster, each time for up to 40 seconds.
_QUIET: Final = {"RAY_DEDUP_LOGS_SKIP_REGEX": "."}
_LOOPBACK: Final = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
_BRIEF: Final = {"RAY_NUM_REDIS_GET_RETRIES": "2"}


class Joined(NamedTuple):
    """A Ray that this process talks to.

    Attributes:
        ray: the module.
        address: as it was given; None if it is on this machine for this process alone.
        ours: this process joined it on the pool's behalf, and has to leave it.
    """

    ray: Any
    address: str | None
    ours: bool

    @property
    def is_client(self) -> bool:
        """Whether a server on the cluster acts for this process, which can pass on plain bytes only."""
        return "://" in _resolved(self.address or "")

    def leave(self) -> None:
        """End a Ray that was started here; another is only left."""
        if self.ours:
            self.ray.shutdown()


def join(address: str | None, size: int) -> Joined:
    """Start or join a Ray; one that this process has joined before is used as it is.

    Args:
        address: None starts one on this machine, whatever `RAY_ADDRESS` says; `auto` is that of `RAY_ADDRESS`, or
            one that was started on this machine by `ray start`; else `host:port` or `ray://host:port`.
        size: with how many CPUs to start one.
    """
    with _set(_QUIET | (_BRIEF if address else _LOOPBACK)):
        ray = optional("ray", extra="ray", purpose="a pool of Ray workers")
        if ray.is_initialized():
            return Joined(ray, address, ours=False)
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if address is None:
            options |= {"num_cpus": size, "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
        else:
            _check_answers(_resolved(address))
        try:
            with _own_signals(), silence_stderr(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ray.init(address=address or "local", **options)
        except Exception as error:
            raise TfsmError(_refused(address, error)) from error
    return Joined(ray, address, ours=True)


def _resolved(address: str) -> str:
    return os.environ.get("RAY_ADDRESS", "auto") if address == "auto" else address


def _named(address: str | None) -> str:
    return "Ray cannot be started on this machine" if address is None else f"Ray at {address!r} cannot be joined"


def _refused(address: str | None, error: Exception) -> str:
    if address == "auto" and isinstance(error, ConnectionError) and error.__cause__ is None:
        return "no Ray runs on this machine: start one by 'ray start --head', or name one by its address"
    if "AuthToken" in f"{error} {error.__cause__}":
        return f"{_named(address)}: it asks for a token; set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN to the cluster's"
    return f"{_named(address)}: {type(error).__name__}: {' '.join(str(error).split())}"


def _check_answers(address: str) -> None:
    """Look whether anything listens: Ray itself would try for minutes."""
    if address in ("auto", "local"):
        return
    host, _, port = address.rpartition("://")[2].partition("/")[0].rpartition(":")
    if not host and address.startswith("ray://"):
        host, port = port, "10001"
    if not host or not port.isdecimal():
        raise TfsmError(f"{_named(address)}: an address is 'auto', 'host:port' or 'ray://host:port'")
    place = f"{host}:{port}"
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE).close()
    except (OSError, ValueError, OverflowError) as error:  # names and numbers that cannot be are of the latter kinds
        raise TfsmError(f"{_named(address)}: nothing answers there ({error}); is it running, the port right?") from None
    if os.environ.get("RAY_USE_TLS", "0") == "0" and not _speaks(place):
        raise TfsmError(f"{_named(address)}: what answers there is not Ray; is the port right?")


def _speaks(place: str) -> bool:
    """Say whether gRPC, which Ray is made with, is spoken there."""
    grpc = optional("grpc", extra="ray", purpose="a cluster of Ray")  # TensorFlow needs it too
    with grpc.insecure_channel(place) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=2 * PATIENCE)
        except grpc.FutureTimeoutError:
            return False
    return True


@contextmanager
def _set(values: Mapping[str, str]) -> Iterator[None]:
    missing = {name: value for name, value in values.items() if name not in os.environ and "ray" not in sys.modules}
    os.environ.update(missing)
    try:
        yield
    finally:
        for name in missing:
            os.environ.pop(name, None)


@contextmanager
def _own_signals() -> Iterator[None]:
    """Keep the driver's way to end: Ray puts a handler of its own in its place."""
    kept = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        # Not in the main thread, where Ray has not touched it either; or a handler that is not Python's.
        with suppress(ValueError, TypeError):
            signal.signal(signal.SIGTERM, kept)


ATTEMPTS: Final = 3
NOTICE: Final = 10.0
"""Seconds after which a worker that has not begun is told of."""
_LOOK: Final = 1.0


@dataclass
class _Hand:
    """An actor, and what will come from it next."""

    number: int
    actor: Any
    coming: Any
    busy: bool = False
    ready: bool = False
    since: float = field(default_factory=time.monotonic)


class RayPool:
    """Actors of Ray; see `Pool`. What they need must be installed on every machine of a cluster.

    Args:
        size: how many; None: one for each core of this machine, or for each CPU of a cluster.
        address: which Ray, as `connecting.join` describes; None starts one on this machine.
        threads: how many threads TensorFlow may use in each; None is an equal share of this machine's cores, or one
            thread on a cluster, where each worker also reserves as many CPUs.
        notify: is told, once, what the pool waits for if workers do not begin.
    """

    def __init__(
        self,
        size: int | None,
        address: str | None = None,
        threads: int | None = None,
        notify: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._notify = notify
        self._noticed = self._closed = False
        self._ready: list[Message] = []
        here = address is None
        environ = worker_environment((size or count_cores()) if here else count_cores(), threads)
        variables = {name: environ[name] for name in THREAD_VARIABLES}
        if here:
            variables["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)
        self._cpus = 1 if here else threads or 1
        self._joined = join(address, size or count_cores())
        self._ray = self._joined.ray
        self.size = size or (count_cores() if here else max(1, int(self._ray_cpus("cluster_resources")) // self._cpus))
        self._attempts = [0] * self.size
        self._remote = self._ray.remote(Actor).options(
            num_cpus=self._cpus, max_restarts=0, max_concurrency=4, runtime_env={"env_vars": variables}
        )
        self._hands = [self._started(number) for number in range(self.size)]

    def is_ready(self, worker: int) -> bool:
        """Say whether a worker is there; one for which a cluster has no room may never be."""
        return self._hands[worker].ready

    def submit(self, worker: int, task: Task) -> None:
        """Give a task to a worker that has none."""
        hand = self._hands[worker]
        if hand.busy or self._closed:
            raise ValueError(f"worker {worker} {'is closed' if self._closed else 'has a task'}")
        parcel = to_parcel(pack_task(task), self._joined.is_client)
        hand.busy = True
        hand.actor.begin.remote(parcel)

    def wait(self, timeout: float | None = None) -> list[Message]:
        """Wait for messages; return all that are there, or none after the time-out."""
        if self._closed:
            return []
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._ready:
            left = _LOOK if deadline is None else max(0.0, deadline - time.monotonic())
            self._take_all(min(left, _LOOK))
            self._notice()
            if deadline is not None and time.monotonic() >= deadline:
                break
        found, self._ready = self._ready, []
        return found

    def stop(self, worker: int) -> None:
        """Ask a worker to end its task soon."""
        if self._hands[worker].busy and not self._closed:
            self._hands[worker].actor.stop.remote()

    def kill(self, worker: int) -> None:
        """End a worker at once and start another in its place."""
        if self._closed:
            return
        self._ray.kill(self._hands[worker].actor)
        self._ready = [message for message in self._ready if message.worker != worker]
        self._hands[worker] = self._started(worker)

    def close(self) -> None:
        """End all workers, and Ray itself if it was started here."""
        if self._closed:
            return
        self._closed = True
        for hand in self._hands:
            self._ray.kill(hand.actor)
        self._joined.leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _started(self, number: int) -> _Hand:
        actor = self._remote.remote(self._joined.is_client)
        return _Hand(number, actor, actor.hear.remote())

    def _take_all(self, timeout: float) -> None:
        coming = {hand.coming: hand for hand in self._hands}
        found, _ = self._ray.wait(list(coming), num_returns=1, timeout=timeout)
        if found:
            found, _ = self._ray.wait(list(coming), num_returns=len(coming), timeout=0)
        for one in found:
            self._take(coming[one])

    def _take(self, hand: _Hand) -> None:
        try:
            told = self._ray.get(hand.coming)
        except self._ray.exceptions.RayError as error:
            self._replace(hand, describe_actor_death(str(error)))
            return
        hand.coming = hand.actor.hear.remote()
        for kind, parcel in told:
            if kind == "ready":
                hand.ready, self._attempts[hand.number] = True, 0
                continue
            try:
                content = unpack(from_parcel(parcel))
            except Exception as error:
                self._replace(hand, f"it sent what cannot be loaded here ({type(error).__name__}: {error})")
                return
            hand.busy = kind == "event"
            self._ready.append(Message(hand.number, cast(Kind, kind), content))

    def _replace(self, hand: _Hand, words: str) -> None:
        self._ray.kill(hand.actor)  # it may be out of reach only
        self._attempts[hand.number] += not hand.ready
        if self._attempts[hand.number] >= ATTEMPTS:
            hint = "" if self._joined.address is None else "; tfsm and its plugins must be installed on every node"
            raise TfsmError(f"Ray's workers end before they have begun: {words}{hint}")
        self._hands[hand.number] = self._started(hand.number)
        self._ready.append(Message(hand.number, "died", words))

    def _notice(self) -> None:
        if self._noticed:
            return
        late = sum(not hand.ready and time.monotonic() - hand.since > NOTICE for hand in self._hands)
        if late:
            self._noticed = True
            free, total = (self._ray_cpus(what) for what in ("available_resources", "cluster_resources"))
            self._notify(
                f"waiting for {late} of {self.size} workers to begin: each needs {self._cpus} CPU, and Ray has "
                f"{free:g} of {total:g} free"
            )

    def _ray_cpus(self, what: str) -> float:
        return float(getattr(self._ray, what)().get("CPU", 0))
