"""A pool of Ray actors, on this machine or on a cluster."""

from __future__ import annotations

import importlib
import os
import re
import secrets
import signal
import socket
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple

from tfsm.errors import TfsmError, import_optional
from tfsm.parallel.pool import THREAD_VARIABLES, BasePool, WorkerHandle, worker_environment
from tfsm.parallel.processes import Frames, count_cores
from tfsm.parallel.worker import Actor, Installation, from_parcel, to_parcel, unpack
from tfsm.utils.tf_startup import silence_stderr

# Ray reads these when it is imported or started. The first keeps its messages about dead workers off the driver's
# output, since the pool reports them. The next two make a Ray of our own listen on the loopback device only, and keep
# it from giving its workers a low priority, with which they crawl beside any other work. The others limit the time to
# connect to a cluster, which is a minute and more by default.
_QUIET: Final = {"RAY_DEDUP_LOGS_SKIP_REGEX": "."}
_PRIVATE: Final = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_worker_niceness": "0"}
_BRIEF: Final = {
    "RAY_NUM_REDIS_GET_RETRIES": "1",
    "RAY_gcs_rpc_server_connect_timeout_s": "3",
    "RAY_py_gcs_connect_timeout_s": "5",
    # Without its head, Ray ends this process after a minute. The pool ends the experiment before that, with a message.
    "RAY_gcs_rpc_server_reconnect_timeout_s": "3600",
}
_TOKEN_VARIABLES: Final = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
_OLDEST: Final = "2.52"
"""The first version of Ray that can require a token."""


class RayConnection(NamedTuple):
    """A Ray that this process talks to.

    Attributes:
        ray: the module.
        address: as it was given; None if it runs on this machine for this process alone.
        owned: whether this process connected for the pool's sake, and has to disconnect.
    """

    ray: Any
    address: str | None
    owned: bool

    @property
    def is_client(self) -> bool:
        """Whether a server on the cluster acts for this process; such a connection passes on plain bytes only."""
        address = os.environ.get("RAY_ADDRESS", "auto") if self.address == "auto" else self.address
        return "://" in (address or "")

    def close(self) -> None:
        """Shut down a Ray that was started here, or disconnect from another."""
        if self.owned:
            self.ray.shutdown()
            _reload_token()


def connect(address: str | None, size: int) -> RayConnection:
    """Start Ray or connect to it; a connection that this process has already is used as it is.

    Args:
        address: None starts Ray on this machine, whatever `RAY_ADDRESS` says; it requires a token that only its own
            processes know. `auto` is `RAY_ADDRESS`, or a Ray that was started on this machine by `ray start`; otherwise
            `host:port` or `ray://host:port`.
        size: number of CPUs to start it with.
    """
    with _set_variables(_QUIET | (_BRIEF if address else _PRIVATE)):
        ray = import_optional("ray", extra="ray", purpose="a pool of Ray workers")
        if ray.is_initialized():
            return RayConnection(ray, address, owned=False)
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if address is None:
            options |= {"num_cpus": size, "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
        try:
            with _private_token(address), _keep_signal_handler(), silence_stderr(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ray.init(address=address or "local", **options)
        except TfsmError:
            raise
        except Exception as error:
            what = "cannot start Ray on this machine" if address is None else f"cannot connect to Ray at {address!r}"
            raise TfsmError(f"{what}: {explain_connection_error(error)}") from error
    return RayConnection(ray, address, owned=True)


@contextmanager
def _set_variables(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables that are not set, for the import and the start of Ray."""
    missing = {name: value for name, value in values.items() if name not in os.environ}
    os.environ.update(missing)
    try:
        yield
    finally:
        for name in missing:
            os.environ.pop(name, None)


@contextmanager
def _private_token(address: str | None) -> Iterator[None]:
    """Let a Ray that is started here require a new token, whatever the environment says; its processes inherit it."""
    if address is not None:
        yield
        return
    before = {name: os.environ.pop(name) for name in _TOKEN_VARIABLES if name in os.environ}
    os.environ.update({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)})
    try:
        _reload_token()
        yield
    finally:
        for name in _TOKEN_VARIABLES:
            os.environ.pop(name, None)
        os.environ.update(before)


def _reload_token() -> None:
    """Let Ray read the variables about its token again, which it reads only once otherwise."""
    raylet = importlib.import_module("ray._raylet")
    if not hasattr(raylet, "AuthenticationTokenLoader"):
        raise TfsmError(f"this version of Ray cannot require a token: pip install 'ray>={_OLDEST}'")
    raylet.Config.initialize("")
    raylet.AuthenticationTokenLoader.instance().reset_cache()


_TOKEN_HINT: Final = "set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH, the name of a file with the cluster's token"
_TLS_HINT: Final = (
    "nothing answers there; if the cluster uses TLS, set RAY_USE_TLS=1, RAY_TLS_SERVER_CERT, RAY_TLS_SERVER_KEY and "
    "RAY_TLS_CA_CERT"
)
_HINTS: Final = {
    "InvalidAuthToken": f"it requires a token, and {{token}}: {_TOKEN_HINT}",
    "no authentication token was found": f"RAY_AUTH_MODE is token, but there is no token: {_TOKEN_HINT}",
    "Version mismatch": "{text}; use the same versions of Ray and Python on every machine",
    "Timed out while waiting for GCS": f"{{text}}: {_TLS_HINT}",
    "Failed to connect to GCS": f"{{text}}: {_TLS_HINT}",
}
"""What to say if a phrase is in Ray's error or one of its causes."""


def explain_connection_error(error: BaseException, environ: Mapping[str, str] = os.environ) -> str:
    r"""Return one line about why Ray cannot be reached, and what to do about it where the cause is known.

    >>> explain_connection_error(ConnectionError("no\nroute"))
    'no route'
    >>> explain_connection_error(RuntimeError("RPC error: InvalidAuthToken"), {})[:47]
    'it requires a token, and none is given: set RAY'
    """
    text = " ".join(str(error).split()) or type(error).__name__
    chain, causes = "", error
    while causes is not None:  # the reason is in one of the causes
        chain += f"{causes}\n"
        causes = causes.__cause__ or causes.__context__  # type: ignore[assignment]
    sends_token = environ.get("RAY_AUTH_MODE", "").lower() == "token"
    token = "refuses the one that is given" if sends_token else "none is given"
    hint = next((hint for phrase, hint in _HINTS.items() if phrase in chain), "{text}")
    return hint.format(text=text.removesuffix("."), token=token)


@contextmanager
def _keep_signal_handler() -> Iterator[None]:
    """Restore the driver's handler of SIGTERM, which Ray replaces."""
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        # Not possible outside the main thread, where Ray has not replaced it either, or for a handler not of Python.
        with suppress(ValueError, TypeError):
            signal.signal(signal.SIGTERM, handler)


NOTICE_SECONDS: Final = 10.0
"""Time after which the user is notified of workers that have not started."""
_POLL_SECONDS: Final = 1.0
_HEAD_POLL_SECONDS: Final = 5.0
HEAD_SECONDS: Final = 30.0
"""Time without an answer of the head node after which the cluster is given up."""


_NODE_LABEL: Final = "ray.io/node-id"


class RayWorker(WorkerHandle):
    """A worker that is a Ray actor.

    Attributes:
        actor: the actor.
        pending: the reference to its next messages.
        since: when it was started.
    """

    def __init__(self, number: int, actor: Any) -> None:
        super().__init__(number)
        self.actor, self.pending = actor, actor.receive.remote()
        self.since = time.monotonic()


class RayPool(BasePool[RayWorker]):
    """Ray actors; see `BasePool`. tfsm and the plugins in use must be installed on every machine of a cluster.

    Args:
        size: number of workers; None: one per core of this machine, or per CPU of a cluster.
        address: which Ray, as for `connect`; None starts one on this machine.
        threads: number of TensorFlow's threads in each. None: an equal share of this machine's cores, or one thread on
            a cluster, where each worker also reserves as many CPUs.
        notify: receives one message if workers do not start.
    """

    start_error = "Ray's workers do not start"

    def __init__(
        self,
        size: int | None,
        address: str | None = None,
        threads: int | None = None,
        notify: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._notify, self._has_notified = notify, False
        self._installed = Installation.here()
        self._refused: dict[str, str] = {}
        """By node, why no worker runs there."""
        self._slow_nodes: set[str] = set()
        self._lost = False
        is_local = address is None
        environ = worker_environment((size or count_cores()) if is_local else count_cores(), threads)
        variables = {name: environ[name] for name in THREAD_VARIABLES}
        if is_local:
            variables["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)
        self._cpus = 1 if is_local else threads or 1
        self._connection = connect(address, size or count_cores())
        self._ray = self._connection.ray
        self._head = None if is_local or self._connection.is_client else self._ray.get_runtime_context().gcs_address
        """The address of the head node, to see whether it is still there; Ray tells a client by itself."""
        self._head_checked = time.monotonic()
        self._options: dict[str, Any] = {
            "num_cpus": self._cpus,
            "max_restarts": 0,
            "max_concurrency": 4,
            "runtime_env": {"env_vars": variables},
        }
        cpus = count_cores() if is_local else int(self._count_cpus("cluster_resources")) // self._cpus
        super().__init__(size or max(1, cpus))

    def _start(self, number: int) -> RayWorker:
        options = dict(self._options)
        if self._refused:
            options["label_selector"] = {_NODE_LABEL: f"!in({','.join(self._refused)})"}
        return RayWorker(number, self._ray.remote(Actor).options(**options).remote(self._connection.is_client))

    def _send_task(self, handle: RayWorker, frames: Frames) -> None:
        handle.actor.start.remote(to_parcel(frames, self._connection.is_client))

    def _send_stop(self, handle: RayWorker) -> None:
        handle.actor.stop.remote()

    def _collect(self, timeout: float | None) -> None:
        self._check_head()
        pending = {worker.pending: worker for worker in self._workers}
        timeout = _POLL_SECONDS if timeout is None else min(timeout, _POLL_SECONDS)
        arrived, _ = self._ray.wait(list(pending), num_returns=1, timeout=timeout)
        if arrived:
            arrived, _ = self._ray.wait(list(pending), num_returns=len(pending), timeout=0)
        for reference in arrived:
            self._take(pending[reference])
        self._notify_if_late()

    def _take(self, worker: RayWorker) -> None:
        try:
            messages = self._ray.get(worker.pending)
        except self._ray.exceptions.RayError as error:
            self._handle_death(worker, str(error))
            return
        worker.pending = worker.actor.receive.remote()
        for kind, parcel in messages:
            frames = from_parcel(parcel)
            if kind == "ready" and not self._admit(worker, unpack(frames) if frames else None):
                return
            if not self._receive(worker, kind, frames):
                return

    def _admit(self, worker: RayWorker, found: Installation | None) -> bool:
        """Say whether a worker that has started has what this process has; otherwise its node is not used."""
        if found is None:  # an old tfsm, whose workers do not say
            self._refuse(worker, self._find_address(worker), "another version of tfsm")
            return False
        if differences := self._installed.list_differences(found):
            self._refuse(worker, found.address, ", ".join(differences))
            return False
        if found.niceness > self._installed.niceness and found.address not in self._slow_nodes:
            self._slow_nodes.add(found.address)
            self._notify(
                f"warning: Ray gives its workers on {found.address} a low priority (niceness {found.niceness}); start "
                "it with RAY_worker_niceness=0"
            )
        return True

    def _handle_death(self, worker: RayWorker, text: str) -> None:
        self._check_head(now=True)
        missing = re.search(r"ModuleNotFoundError: No module named '([\w.]+)'", text)
        address = re.search(r"\bip=([^\s,)]+)", text) or re.search(r"^\s*ip: (\S+)$", text, re.MULTILINE)
        if missing and address and not worker.ready:
            self._refuse(worker, address[1], f"Python there has no module {missing[1]!r}")
        else:
            self._replace(worker, describe_actor_death(text))

    def _refuse(self, worker: RayWorker, address: str, reason: str) -> None:
        """Use a node no longer, and start the worker on another one; raise an error if there is none."""
        alive = {node["NodeID"]: node["NodeManagerAddress"] for node in self._ray.nodes() if node["Alive"]}
        found = [node for node, where in alive.items() if where == address and node not in self._refused]
        if not found:
            self._replace(worker, f"{address}: {reason}")
            return
        self._notify(f"warning: node {address} is not used: {reason}")
        self._refused |= dict.fromkeys(found, f"node {address}: {reason}")
        self._terminate(worker)
        if alive.keys() <= self._refused.keys():
            reasons = "; ".join(sorted({self._refused[node] for node in alive}))
            raise TfsmError(f"no node of the Ray cluster can be used ({reasons})")
        self._workers[worker.number] = self._start(worker.number)

    def _find_address(self, worker: RayWorker) -> str:
        """Ask a worker's node for its address."""
        reference = worker.actor.__ray_call__.remote(
            lambda actor: importlib.import_module("ray.util").get_node_ip_address()
        )
        address: str = self._ray.get(reference, timeout=NOTICE_SECONDS)
        return address

    def _terminate(self, handle: RayWorker) -> None:
        if not self._lost:
            self._check_head(now=True)
            self._ray.kill(handle.actor)  # also one that died: it may only be out of reach

    def _check_head(self, *, now: bool = False) -> None:
        """Wait for the head node; raise an error if it does not answer for some time, as any call of Ray would hang.

        Args:
            now: whether to check even if the last time was a moment ago.
        """
        if self._head is None or (not now and time.monotonic() - self._head_checked < _HEAD_POLL_SECONDS):
            return
        host, _, port = self._head.rpartition(":")
        end = time.monotonic() + HEAD_SECONDS
        while True:
            try:
                socket.create_connection((host.strip("[]"), int(port)), _HEAD_POLL_SECONDS).close()
                break
            except OSError as error:
                if time.monotonic() > end:
                    self._lost = True
                    raise TfsmError(f"the head node of the Ray cluster at {self._head} is gone: {error}") from error
                time.sleep(_POLL_SECONDS)
        self._head_checked = time.monotonic()

    def _shut_down(self) -> None:
        """End all workers, and Ray itself if it was started here."""
        for worker in () if self._lost else self._workers:  # the cluster ends the workers of a driver that is gone
            self._ray.kill(worker.actor)
        self._connection.close()

    def _notify_if_late(self) -> None:
        if self._has_notified:
            return
        late = sum(not worker.ready and time.monotonic() - worker.since > NOTICE_SECONDS for worker in self._workers)
        if late:
            self._has_notified = True
            free, total = (self._count_cpus(what) for what in ("available_resources", "cluster_resources"))
            self._notify(
                f"waiting for {late} of {self.size} workers to start: each needs {self._cpus} CPU, and Ray has "
                f"{free:g} of {total:g} free"
            )

    def _count_cpus(self, what: str) -> float:
        return float(getattr(self._ray, what)().get("CPU", 0))


def describe_actor_death(text: str) -> str:
    r"""Shorten Ray's description of an actor's death.

    >>> describe_actor_death("The actor died.\n\tpid: 7\n\tip: 10.0.0.3\nThe node was terminated: lost. More of it.")
    'The node was terminated: lost (process 7 on 10.0.0.3)'
    >>> describe_actor_death("The actor 2a0f is unavailable: RpcError: Socket closed")
    'its node does not answer'
    >>> describe_actor_death("Task was killed due to the node running low on memory.\n...out of memory issue: https")
    'memory ran out on its node'
    """
    process, address = (re.search(rf"^\s*{name}: (\S+)$", text, re.MULTILINE) for name in ("pid", "ip"))
    location = f" (process {process[1]} on {address[1]})" if process and address else ""
    if "OOM" in text or "out of memory" in text.lower():
        return f"memory ran out on its node{location}"
    if "is unavailable: " in text or "is temporarily unavailable" in text:
        return f"its node does not answer{location}"
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["it is gone"]
    reason = lines[-1].rpartition("Worker exit detail: ")[2]
    if "connection error code" in reason:  # all that Ray knows of a process that vanished
        return f"its process ended, as it does when it crashes or when memory runs out{location}"
    return f"{reason.partition('. ')[0].removesuffix('.')}{location}"
