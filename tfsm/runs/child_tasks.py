"""Children as tasks: what a worker does, and how the children of an experiment are dispatched to workers."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tfsm.errors import TfsmError
from tfsm.evolution.async_loop import AsyncLoop
from tfsm.evolution.async_worker import ChildRequest, ChildResult, ChildWorker, join_results
from tfsm.evolution.engine import Engine
from tfsm.evolution.evaluation import WARM_UP, FailurePolicy
from tfsm.evolution.event_log import Event, EventLog
from tfsm.parallel.pool import Message, Pool
from tfsm.parallel.worker import Failure, WorkerContext
from tfsm.runs.build import RunRecipe, prepare
from tfsm.runs.directory import WriteError, explain_write_errors
from tfsm.runs.records import ORDER
from tfsm.runs.result import to_user_error
from tfsm.runs.session import Session
from tfsm.utils.files import back_up

ATTEMPTS: Final = 3
"""How often an individual is tried whose worker dies, fails or takes too long."""
WAIT_SECONDS: Final = 0.25


@dataclass(frozen=True)
class ChildTask:
    """Makes one batch of individuals in a worker; yields once, when it starts, and returns a `ChildResult`."""

    experiment: str
    """The experiment that it belongs to."""
    request: ChildRequest
    recipe: RunRecipe | None = None
    """For a worker that has not made anything for this experiment yet."""

    def __call__(self, context: WorkerContext) -> Generator[Any, None, ChildResult]:
        """Make it."""
        workers: dict[str, ChildWorker] = context.cache.setdefault("child_workers", {})
        if self.experiment not in workers:
            if self.recipe is None:
                raise TfsmError("a worker was given a request of an experiment that it does not know")
            workers.clear()  # frees the memory of the experiment before
            recipe = self.recipe.for_runs(1)
            prepared = prepare(recipe.plugins(), recipe.settings, model=recipe.model)
            # The dispatcher watches the clock, and decides what happens to an individual that fails.
            prepared.evaluator.failure_policy = FailurePolicy()
            workers[self.experiment] = ChildWorker(prepared.variation(), prepared.batches.size)
        yield "started"
        try:
            return workers[self.experiment].make(self.request)
        except Exception as error:
            if (user_error := to_user_error(error)) is not error:
                raise user_error from error
            raise


@dataclass
class _Assignment:
    """What a worker makes, and since when."""

    request: ChildRequest
    whole: ChildRequest
    """The batch that it is of: itself, unless its individuals are made one by one after a failure."""
    is_first: bool
    """Whether it is the first of its kind for this worker, which compiles something for it."""
    since: float = field(default_factory=time.monotonic)


class ChildDispatcher:
    """Evolves an experiment child by child: asks the loop for requests, sends them to workers, and tells the results.

    Args:
        pool: the workers.
        engine: the populations.
        session: where results are kept, and who is notified.
        recipe: what workers need to know.
        replay: events to repeat in the same order.
        notify: called with messages for the user.
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
        saved = session.load_checkpoints()
        # Results will arrive in another order, so what came after the checkpoint will not happen again.
        ended = {result.run for checkpoint in saved for result in checkpoint.results}
        evaluations = {run: count for checkpoint in saved for run, count in checkpoint.evaluations_by_run.items()}
        session.rewind({run: evaluations.get(run, 0) for run in range(settings.runs) if run not in ended})
        self._log = self._open_log({run: checkpoint.event_count for checkpoint in saved for run in checkpoint.runs})
        on_disk = [(checkpoint.runs, checkpoint.event_count) for checkpoint in saved]
        if self._log is not None:
            saved = [replace(checkpoint, event_count=self._log.count) for checkpoint in saved]
        self.loop = AsyncLoop(
            engine,
            seed=settings.seed,
            runs=settings.runs,
            evaluations=settings.evaluations,
            log_every=settings.log_every,
            observers=session.observers,
            events=self._log_event,
            replay=replay,
            failures="broken",
            saved=saved,
        )
        if (
            session.checkpoints is not None
            and session.checkpoints.has_files
            and (on_disk != [(range(settings.runs), self.loop.event_count)])
        ):
            self._save(replace_others=True)  # the files on the disk would not fit what comes now
        self._assignments: dict[int, _Assignment] = {}
        self._prepared_workers: set[int] = set()
        self._warm: set[tuple[int, bool]] = set()
        self._to_retry: deque[tuple[ChildRequest, ChildRequest]] = deque()
        """What is made again, and the batch that it is of."""
        self._parts: dict[tuple[int, int], dict[int, ChildResult]] = {}
        """By batch, the results of its individuals that are made one by one."""
        self._attempts: dict[tuple[int, int], int] = {}
        self.evaluated = 0
        """Individuals that were evaluated here."""

    def run(self, stop: Callable[[], bool]) -> None:
        """Evolve until all runs have ended, or `stop` returns True; everything is saved."""
        try:
            while not self.loop.ended:
                self._dispatch()
                if stop():
                    self._save()
                    self.loop.finish_early()
                    break
                messages, now = self._pool.wait(WAIT_SECONDS), time.monotonic()
                self._receive(messages)
                self._check_timeouts(now)
                if self._is_due():
                    self._save()
            else:
                self._save(last=True)
        except WriteError:
            raise  # in the middle of a report: only the last checkpoint is right
        except TfsmError:
            self._save()
            self.loop.finish_early()
            raise
        finally:
            for worker in self._assignments:
                self._pool.kill(worker)
            if self._log is not None:
                with suppress(OSError):  # what a checkpoint relies on is on the disk by now
                    self._log.close()

    # --- The event log

    def _open_log(self, keep: Mapping[int, int]) -> EventLog | None:
        if self._session.directory is None:
            return None
        file = self._session.directory / ORDER
        try:
            return EventLog(file, keep)
        except TfsmError as error:
            backup = f"; the file is kept as {back_up(file, 'damaged').name}" if file.is_file() else ""
            self._notify(f"warning: {error}: this run can no longer be replayed{backup}")
            return None

    def _log_event(self, event: Event) -> None:
        if self._log is not None and self._session.directory is not None:
            with explain_write_errors(self._session.directory):
                self._log(event)

    # --- Ask: requests to workers

    def _dispatch(self) -> None:
        workers = range(self._pool.size)
        idle = [worker for worker in workers if worker not in self._assignments and self._pool.is_ready(worker)]
        while idle and self._to_retry:
            request, whole = self._to_retry.popleft()
            if self.loop.is_waiting_for(whole):
                self._submit(idle.pop(0), request, whole)
        for worker, request in zip(idle, self.loop.ask(len(idle)), strict=False):
            self._submit(worker, request, request)

    def _submit(self, worker: int, request: ChildRequest, whole: ChildRequest) -> None:
        is_prepared, kind = worker in self._prepared_workers, (worker, bool(request.parents))
        experiment = self._session.about["experiment"]
        self._pool.submit(worker, ChildTask(experiment, request, None if is_prepared else self._recipe))
        # Initial individuals and children are compiled separately.
        self._assignments[worker] = _Assignment(request, whole, is_first=kind not in self._warm)
        self._prepared_workers.add(worker)
        self._warm.add(kind)

    def _forget_worker(self, worker: int) -> None:
        """Note that a worker was replaced, or may not know the experiment."""
        self._prepared_workers.discard(worker)
        self._warm -= {(worker, True), (worker, False)}

    # --- Tell: results from workers

    def _receive(self, messages: Sequence[Message]) -> None:
        results: list[ChildResult] = []
        for worker, kind, content in messages:
            if kind in ("died", "failed"):  # perhaps before it had all that it needs
                self._forget_worker(worker)
            if worker not in self._assignments:
                continue
            if kind == "event":
                self._assignments[worker].since = time.monotonic()
                continue
            assignment = self._assignments.pop(worker)
            if kind == "done":
                results += self._complete(assignment, content)
            elif kind == "died":
                self._retry(assignment, f"a worker died: {content}")
            else:
                self._tell(results)
                self._handle_failure(assignment, content)
        self._tell(results)

    def _complete(self, assignment: _Assignment, result: ChildResult) -> list[ChildResult]:
        """Return the result of the batch, if this was the last one of its individuals."""
        whole = assignment.whole
        if assignment.request is whole:
            return [result]
        parts = self._parts.setdefault(whole.key, {})
        parts[result.number] = result
        if len(parts) < whole.count:
            return []
        del self._parts[whole.key]
        return [join_results([parts[number] for number in sorted(parts)])]

    def _tell(self, results: list[ChildResult]) -> None:
        ended = len(self.loop.results)
        self.loop.tell(*results)
        self.evaluated += sum(result.count for result in results)
        results.clear()
        if len(self.loop.results) > ended and not self.loop.ended:
            self._save()  # without it, a resumed run would end again, and differently

    def _handle_failure(self, assignment: _Assignment, failure: Failure) -> None:
        if self._session.settings.failures == "stop" and self.loop.is_waiting_for(assignment.whole):
            raise TfsmError(failure.message if failure.is_user_error else f"a worker failed: {failure.message}")
        self._retry(assignment, failure.message)

    def _retry(self, assignment: _Assignment, reason: str) -> None:
        request, whole = assignment.request, assignment.whole
        if not self.loop.is_waiting_for(whole):
            return  # its run has ended in the meantime
        if request.count > 1:
            # It is unknown which of them failed: each is made once more, alone.
            last = request.number + request.count - 1
            self._notify(
                f"warning: {reason}; run {request.run}'s individuals {request.number} to {last} are made again"
            )
            self._to_retry += [(each, whole) for each in request.split()]
            self._attempts |= {(request.run, request.number + i): 1 for i in range(request.count)}
            return
        self._attempts[request.key] = self._attempts.get(request.key, 0) + 1
        if self._attempts[request.key] < ATTEMPTS:
            self._notify(f"warning: {reason}; run {request.run}'s individual {request.number} is made again")
            self._to_retry.append((request, whole))
            return
        self._notify(f"warning: {reason}; run {request.run}'s individual {request.number} counts as broken")
        if request is whole:
            self.loop.tell_failure(request, reason)
            self.evaluated += 1
        else:
            self._tell(self._complete(assignment, self.loop.broken(request)))

    def _check_timeouts(self, now: float) -> None:
        """Kill workers that take too long, as of `now`: when messages were last received, so that none is waiting."""
        limit = self._session.settings.evaluation_timeout
        if limit is None:
            return
        for worker, assignment in list(self._assignments.items()):
            # Where one call evaluates them all, it has the time of all.
            if now - assignment.since > limit * assignment.request.count + WARM_UP * assignment.is_first:
                self._pool.kill(worker)
                self._forget_worker(worker)
                del self._assignments[worker]
                self._retry(assignment, f"an evaluation took longer than {limit:g} seconds")

    # --- Checkpoints

    def _is_due(self) -> bool:
        checkpoints = self._session.checkpoints
        return checkpoints is not None and checkpoints.is_due(self.loop.evaluations_used)

    def _save(self, *, last: bool = False, replace_others: bool = False) -> None:
        if self._session.checkpoints is None:
            return
        if self._log is not None and self._session.directory is not None:
            with explain_write_errors(self._session.directory):
                self._log.flush()
        self._session.checkpoints.save(self.loop.checkpoint(), last=last, replace_others=replace_others)
