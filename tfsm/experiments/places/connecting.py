"""Starting Ray on this machine, or joining one that runs elsewhere."""

from __future__ import annotations

import os
import signal
import socket
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple

from tfsm.errors import TfsmError
from tfsm.extras import optional
from tfsm.starting import without_notices

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
            with _own_signals(), without_notices(), warnings.catch_warnings():
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
