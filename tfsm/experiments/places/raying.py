"""Workers that are actors of Ray, on this machine or on many."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self, cast

from tfsm.errors import TfsmError
from tfsm.experiments.places.actor import Actor, unwrapped, wrapped
from tfsm.experiments.places.channel import unpack
from tfsm.experiments.places.connecting import join
from tfsm.experiments.places.packing import pack_task
from tfsm.experiments.places.task import Kind, Message, Task
from tfsm.experiments.places.threads import COUNTS, cores, environment
from tfsm.experiments.places.words import death_of_actor

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
        environ = environment((size or cores()) if here else cores(), threads)
        variables = {name: environ[name] for name in COUNTS}
        if here:
            variables["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)
        self._cpus = 1 if here else threads or 1
        self._joined = join(address, size or cores())
        self._ray = self._joined.ray
        self.size = size or (cores() if here else max(1, int(self._ray_cpus("cluster_resources")) // self._cpus))
        self._attempts = [0] * self.size
        self._remote = self._ray.remote(Actor).options(
            num_cpus=self._cpus, max_restarts=0, max_concurrency=4, runtime_env={"env_vars": variables}
        )
        self._hands = [self._started(number) for number in range(self.size)]

    def begun(self, worker: int) -> bool:
        """Say whether a worker is there; one for which a cluster has no room may never be."""
        return self._hands[worker].ready

    def submit(self, worker: int, task: Task) -> None:
        """Give a task to a worker that has none."""
        hand = self._hands[worker]
        if hand.busy or self._closed:
            raise ValueError(f"worker {worker} {'is closed' if self._closed else 'has a task'}")
        parcel = wrapped(pack_task(task), self._joined.is_client)
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
            self._replace(hand, death_of_actor(str(error)))
            return
        hand.coming = hand.actor.hear.remote()
        for kind, parcel in told:
            if kind == "ready":
                hand.ready, self._attempts[hand.number] = True, 0
                continue
            try:
                content = unpack(unwrapped(parcel))
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
