"""A single child as a task."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tfsm.errors import TfsmError
from tfsm.evolution.async_loop import AsyncLoop
from tfsm.evolution.async_worker import ChildRequest, ChildResult, ChildWorker
from tfsm.evolution.engine import Engine
from tfsm.evolution.evaluation import WARM_UP
from tfsm.evolution.event_log import Event, EventLog
from tfsm.parallel.pool import Failure, Message, Pool, WorkerContext
from tfsm.runs.build import RunRecipe, prepare
from tfsm.runs.directory import WriteError, explain_write_errors
from tfsm.runs.records import ORDER
from tfsm.runs.result import to_user_error
from tfsm.runs.session import Session
from tfsm.utils.atomic import back_up


@dataclass(frozen=True)
class ChildTask:
    """Makes one individual; yields once, when it begins, and returns what was bred."""

    experiment: str
    """Which one it is for."""
    order: ChildRequest
    recipe: RunRecipe | None = None
    """For a worker that has not made anything for this experiment yet."""

    def __call__(self, context: WorkerContext) -> Generator[Any, None, ChildResult]:
        """Make it, in a worker."""
        nurseries: dict[str, ChildWorker] = context.cache.setdefault("nurseries", {})
        if self.experiment not in nurseries:
            if self.recipe is None:
                raise TfsmError("a worker was given an order, and does not know of which experiment")
            nurseries.clear()  # the memory of the one before
            recipe = self.recipe.for_runs(1)
            prepared = prepare(recipe.plugins(), recipe.settings, model=recipe.model)
            nurseries[self.experiment] = ChildWorker(prepared.variation())
        yield "begun"
        try:
            return nurseries[self.experiment].make(self.order)
        except Exception as error:
            if (explain_write_errors := to_user_error(error)) is not error:
                raise explain_write_errors from error
            raise


ATTEMPTS: Final = 3
"""How often an individual is tried whose worker dies, or takes too long."""
LOOK_SECONDS: Final = 0.25


@dataclass
class _Assignment:
    """A worker's order, and since when it is at it."""

    order: ChildRequest
    slow: bool
    since: float = field(default_factory=time.monotonic)


class ChildDispatcher:
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
        recipe: RunRecipe,
        *,
        replay: Sequence[Event] = (),
        notify: Callable[[str], None],
    ) -> None:
        settings = session.settings
        self._pool, self._session, self._recipe, self._notify = pool, session, recipe, notify
        saved = session.saved()
        # In another order other things will happen than those that came after the checkpoint.
        ended = {result.run for group in saved for result in group.results}
        begun = {run: count for group in saved for run, count in group.evaluated.items()}
        session.forget({run: begun.get(run, 0) for run in range(settings.runs) if run not in ended})
        self._log = self._opened_log({run: group.events for group in saved for run in group.runs})
        as_it_was = [(group.runs, group.events) for group in saved]
        if self._log is not None:
            saved = [replace(group, events=self._log.count) for group in saved]
        self.steady = AsyncLoop(
            engine,
            seed=settings.seed,
            runs=settings.runs,
            evaluations=settings.evaluations,
            log_every=settings.log_every,
            observers=session.observers,
            events=self._note,
            replay=replay,
            failures="broken",
            saved=saved,
        )
        if (
            session.checkpoints is not None
            and session.checkpoints.present
            and (as_it_was != [(range(settings.runs), self.steady.events)])
        ):
            self._keep(instead=True)  # what is there would not fit what comes now
        self._busy: dict[int, _Assignment] = {}
        self._taught: set[int] = set()
        self._warm: set[tuple[int, bool]] = set()
        self._lost: deque[ChildRequest] = deque()
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
                messages, now = self._pool.wait(LOOK_SECONDS), time.monotonic()
                self._hear(messages)
                self._look_at_the_clock(now)
                if self._is_due():
                    self._keep()
            else:
                self._keep(last=True)
        except WriteError:
            raise  # in the midst of telling something: only the last checkpoint is right
        except TfsmError:
            self._keep()
            self.steady.finish_early()
            raise
        finally:
            for worker in self._busy:
                self._pool.kill(worker)
            if self._log is not None:
                with suppress(OSError):  # whatever a checkpoint counts on is on the disk by now
                    self._log.close()

    def _opened_log(self, keep: Mapping[int, int]) -> EventLog | None:
        if self._session.directory is None:
            return None
        file = self._session.directory / ORDER
        try:
            return EventLog(file, keep)
        except TfsmError as error:
            aside = f", and is kept as {back_up(file, 'damaged').name}" if file.is_file() else ""
            self._notify(f"warning: {error}: the order cannot be replayed from it any more{aside}")
            return None

    def _note(self, event: Event) -> None:
        if self._log is not None and self._session.directory is not None:
            with explain_write_errors(self._session.directory):
                self._log(event)

    def _hand_out(self) -> None:
        idle = [worker for worker in range(self._pool.size) if worker not in self._busy and self._pool.is_ready(worker)]
        while idle and self._lost:
            order = self._lost.popleft()
            if self.steady.is_waiting_for(order):
                self._submit(idle.pop(0), order)
        for worker, order in zip(idle, self.steady.ask(len(idle)), strict=False):
            self._submit(worker, order)

    def _submit(self, worker: int, order: ChildRequest) -> None:
        taught, kind = worker in self._taught, (worker, order.parent is None)
        experiment = self._session.about["experiment"]
        self._pool.submit(worker, ChildTask(experiment, order, None if taught else self._recipe))
        # First individuals and children are compiled apart.
        self._busy[worker] = _Assignment(order, slow=kind not in self._warm)
        self._taught.add(worker)
        self._warm.add(kind)

    def _unlearn(self, worker: int) -> None:
        """Hear that there is another worker in the place of one that knew what it is about, or that it may not."""
        self._taught.discard(worker)
        self._warm -= {(worker, True), (worker, False)}

    def _hear(self, messages: Sequence[Message]) -> None:
        arrived: list[ChildResult] = []
        for worker, kind, content in messages:
            if kind in ("died", "failed"):  # which may have been before it had all that it needs
                self._unlearn(worker)
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

    def _settle(self, arrived: list[ChildResult]) -> None:
        ended = len(self.steady.results)
        self.steady.tell(*arrived)
        self.evaluated += len(arrived)
        arrived.clear()
        if len(self.steady.results) > ended and not self.steady.ended:
            self._keep()  # without it, how the run ended would be found out again, and come out otherwise

    def _failed(self, order: ChildRequest, failure: Failure) -> None:
        if self._session.settings.failures == "stop" and self.steady.is_waiting_for(order):
            raise TfsmError(failure.message if failure.is_user_error else f"a worker failed: {failure.message}")
        self._try_again(order, failure.message)

    def _try_again(self, order: ChildRequest, why: str) -> None:
        if not self.steady.is_waiting_for(order):
            return  # its run has ended meanwhile
        key = order.run, order.number
        self._attempts[key] = self._attempts.get(key, 0) + 1
        if self._attempts[key] >= ATTEMPTS:
            self._give_up(order, why)
        else:
            self._notify(f"warning: {why}; run {order.run}'s individual {order.number} is made again")
            self._lost.append(order)

    def _give_up(self, order: ChildRequest, why: str) -> None:
        self._notify(f"warning: {why}; run {order.run}'s individual {order.number} counts as broken")
        self.steady.failed(order, why)
        self.evaluated += 1

    def _look_at_the_clock(self, now: float) -> None:
        """End what takes too long, as of when everybody was listened to: who was done by then has said so."""
        limit = self._session.settings.evaluation_timeout
        if limit is None:
            return
        for worker, busy in list(self._busy.items()):
            if now - busy.since > limit + WARM_UP * busy.slow:
                self._pool.kill(worker)
                self._unlearn(worker)
                del self._busy[worker]
                self._try_again(busy.order, f"an evaluation took longer than {limit:g} seconds")

    def _is_due(self) -> bool:
        keeper = self._session.checkpoints
        return keeper is not None and keeper.is_due(self.steady.evaluations_used)

    def _keep(self, *, last: bool = False, instead: bool = False) -> None:
        if self._session.checkpoints is None:
            return
        if self._log is not None and self._session.directory is not None:
            with explain_write_errors(self._session.directory):
                self._log.flush()
        self._session.checkpoints.keep(self.steady.saved(), last=last, instead=instead)
