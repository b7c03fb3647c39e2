"""The driver of single individuals: holds the populations, and keeps all workers busy with orders."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tfsm.errors import TfsmError
from tfsm.evolution.engine import Engine
from tfsm.evolution.events import Event, EventLog
from tfsm.evolution.orders import Bred, Order
from tfsm.evolution.saving import Saved
from tfsm.evolution.steady import Steady
from tfsm.experiments.making import MakeTask
from tfsm.experiments.places.task import Failure, Message, Pool
from tfsm.experiments.recipe import Recipe
from tfsm.experiments.record import ORDER
from tfsm.experiments.session import Session
from tfsm.files import put_aside

ATTEMPTS: Final = 3
"""How often an individual is tried whose worker dies, or takes too long."""
WARM_UP: Final = 120.0
"""Seconds that a worker's first individual may take longer: there is something to compile."""
LOOK_SECONDS: Final = 0.25


@dataclass
class _Busy:
    """A worker's order, and since when it is at it."""

    order: Order
    slow: bool
    since: float = field(default_factory=time.monotonic)


class Steadily:
    """Evolves an experiment child by child.

    Args:
        pool: the workers.
        engine: the populations.
        session: where it is kept, and who is told.
        recipe: what workers need.
        replay: events to happen again in the same order.
        notify: told what the user should know.
    """

    def __init__(
        self,
        pool: Pool,
        engine: Engine,
        session: Session,
        recipe: Recipe,
        *,
        replay: Sequence[Event] = (),
        notify: Callable[[str], None],
    ) -> None:
        settings = session.settings
        self._pool, self._session, self._recipe, self._notify = pool, session, recipe, notify
        saved = session.saved()
        # In another order other things will happen than those that came after the checkpoint.
        ended = {result.run for group in saved for result in group.results}
        settled = {run: 0 for run in range(settings.runs) if run not in ended} | _settled(saved)
        session.forget(settled)
        self._log = self._opened_log(saved, [run for run, count in settled.items() if not count])
        if self._log is not None:
            saved = [replace(group, events=self._log.count) for group in saved]
        self.steady = Steady(
            engine,
            seed=settings.seed,
            runs=settings.runs,
            evaluations=settings.evaluations,
            log_every=settings.log_every,
            observers=session.observers,
            events=self._log or (lambda event: None),
            replay=replay,
            failures="broken",
            saved=saved,
        )
        if saved and [group.runs for group in saved] != [range(settings.runs)]:
            self._keep(instead=True)
        self._busy: dict[int, _Busy] = {}
        self._taught: set[int] = set()
        self._lost: deque[Order] = deque()
        self._attempts: dict[tuple[int, int], int] = {}
        self.evaluated = 0
        """Individuals that were settled here."""

    def run(self, stop: Callable[[], bool]) -> None:
        """Evolve until all runs have ended, or an end is asked for; all is kept."""
        try:
            while not self.steady.ended:
                self._hand_out()
                if stop():
                    self._keep()
                    self.steady.finish_early()
                    break
                self._hear(self._pool.wait(LOOK_SECONDS))
                self._look_at_the_clock()
                if self._is_due():
                    self._keep()
            else:
                self._keep(last=True)
        except TfsmError:
            self._keep()
            self.steady.finish_early()
            raise
        finally:
            for worker in self._busy:
                self._pool.kill(worker)
            if self._log is not None:
                self._log.close()

    def _opened_log(self, saved: Sequence[Saved], new: Sequence[int]) -> EventLog | None:
        if self._session.directory is None:
            return None
        file = self._session.directory / ORDER
        try:
            return EventLog(file, max((group.events for group in saved), default=0), without=new)
        except TfsmError as error:
            aside = f", and is kept as {put_aside(file, 'damaged').name}" if file.is_file() else ""
            self._notify(f"warning: {error}: the order cannot be replayed from it any more{aside}")
            return None

    def _hand_out(self) -> None:
        idle = [worker for worker in range(self._pool.size) if worker not in self._busy]
        while idle and self._lost:
            self._submit(idle.pop(0), self._lost.popleft())
        for worker, order in zip(idle, self.steady.orders(len(idle)), strict=False):
            self._submit(worker, order)

    def _submit(self, worker: int, order: Order) -> None:
        taught = worker in self._taught
        experiment = self._session.about["experiment"]
        self._pool.submit(worker, MakeTask(experiment, order, None if taught else self._recipe))
        self._busy[worker] = _Busy(order, slow=not taught)
        self._taught.add(worker)

    def _hear(self, messages: Sequence[Message]) -> None:
        arrived: list[Bred] = []
        for worker, kind, content in messages:
            if kind == "died":
                self._taught.discard(worker)
            if worker not in self._busy:
                continue
            if kind == "event":
                self._busy[worker].since = time.monotonic()
                continue
            order = self._busy.pop(worker).order
            if kind == "done":
                arrived.append(content)
            elif kind == "died":
                self._try_again(order, f"a worker died: {content}")
            else:
                self._settle(arrived)
                self._failed(order, content)
        self._settle(arrived)

    def _settle(self, arrived: list[Bred]) -> None:
        ended = len(self.steady.results)
        self.steady.settle(*arrived)
        self.evaluated += len(arrived)
        arrived.clear()
        if len(self.steady.results) > ended and not self.steady.ended:
            self._keep()  # without it, how the run ended would be found out again, and come out otherwise

    def _failed(self, order: Order, failure: Failure) -> None:
        if self._session.settings.failures == "stop":
            raise TfsmError(failure.text if failure.ours else f"a worker failed: {failure.text}")
        self._give_up(order, failure.text)

    def _try_again(self, order: Order, why: str) -> None:
        key = order.run, order.number
        self._attempts[key] = self._attempts.get(key, 0) + 1
        if self._attempts[key] >= ATTEMPTS:
            self._give_up(order, why)
        else:
            self._notify(f"warning: {why}; run {order.run}'s individual {order.number} is made again")
            self._lost.append(order)

    def _give_up(self, order: Order, why: str) -> None:
        self._notify(f"warning: {why}; run {order.run}'s individual {order.number} counts as broken")
        self.steady.failed(order, why)
        self.evaluated += 1

    def _look_at_the_clock(self) -> None:
        limit = self._session.settings.evaluation_timeout
        if limit is None:
            return
        now = time.monotonic()
        for worker, busy in list(self._busy.items()):
            if now - busy.since > limit + WARM_UP * busy.slow:
                self._pool.kill(worker)
                self._taught.discard(worker)
                del self._busy[worker]
                self._try_again(busy.order, f"an evaluation took longer than {limit:g} seconds")

    def _is_due(self) -> bool:
        keeper = self._session.checkpoints
        return keeper is not None and keeper.due(self.evaluated // self._session.settings.runs)

    def _keep(self, *, last: bool = False, instead: bool = False) -> None:
        if self._session.checkpoints is None:
            return
        if self._log is not None:
            self._log.flush()
        self._session.checkpoints.keep(self.steady.saved(), last=last, instead=instead)


def _settled(saved: Sequence[Saved]) -> dict[int, int]:
    """Return how many of each run that goes on were settled."""
    return {
        run: int(row)
        for group in saved
        for run, row in zip(group.going, group.tables.get("evaluations", ()), strict=True)
    }
