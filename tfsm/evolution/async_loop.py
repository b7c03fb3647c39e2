"""The asynchronous loop: `ask` for children, `tell` their results in whatever order they arrive.

Children travel alone, or in batches with `--offspring`. A parent is chosen when a child is asked for, in the population
as it is then. The slot that the child may take is chosen when its result arrives, in the population as it is then. With
one batch in flight at a time this is the lock step, bit for bit.

Reporting the end of an interval and of a run starts a new interval. A run that later gets more evaluations continues
from before that, as if there had been no end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tfsm.errors import TfsmError
from tfsm.evolution.async_worker import ChildBatcher, ChildRequest, ChildResult
from tfsm.evolution.batches import LogIntervals
from tfsm.evolution.checkpoint import AsyncRunState, Checkpoint
from tfsm.evolution.engine import Engine
from tfsm.evolution.event_log import Event, EventKind, EventReplay
from tfsm.evolution.in_flight import InFlightTracker, Key
from tfsm.evolution.observers import RunResult
from tfsm.evolution.reporter import Reporter
from tfsm.evolution.state import LazyTable, State
from tfsm.interfaces import Failures, Observer

PROGRESS_SECONDS = 0.5
"""Time between two progress reports."""

_TALLIES = "tallies."


@dataclass(frozen=True)
class BeforeRunEnd:
    """What reporting the end of a run changes, as it was before."""

    run_state: AsyncRunState
    reported_champion: tuple[bool, float] | None
    """What was last reported of its champion; None if nothing was."""
    tables: Mapping[str, np.ndarray[Any, Any]]
    """The run's rows of the tables that changed: what was counted since the last logged interval. All tables if the
    last batch was cut off by the budget: with a larger one it is complete, and made again."""

    @classmethod
    def capture(
        cls,
        state: State,
        lane: int,
        run_state: AsyncRunState,
        champion: tuple[bool, float] | None,
        *,
        everything: bool = False,
    ) -> BeforeRunEnd:
        """Remember a run whose end is about to be reported."""
        changed = {name: table for name, table in state.tables().items() if everything or name.startswith(_TALLIES)}
        return cls(run_state, champion, {name: table.gather_nd([[lane]]).numpy()[0] for name, table in changed.items()})


def _restore_rows(tables: Mapping[str, LazyTable], ends: Sequence[BeforeRunEnd | None]) -> dict[str, LazyTable]:
    """Return tables `[L, ...]` with the rows of ended runs as they were before their end was reported."""

    def restore(name: str, table: LazyTable) -> LazyTable:
        def row(index: int) -> np.ndarray[Any, Any]:
            end = ends[index]
            return table.row(index) if end is None or name not in end.tables else end.tables[name]

        return replace(table, row=row)

    return {name: restore(name, table) for name, table in tables.items()}


class AsyncLoop:
    """Evolves runs child by child: `ask` for requests, `tell` the results.

    Args:
        engine: the populations; it must have room for all runs, and must not keep sensitivities.
        seed: the experiment's seed, for the record.
        runs: the numbers of the runs, or how many there are, counted from 0.
        evaluations: maximum evaluations per run, including the initial population.
        log_every: evaluations between two logged intervals of a run.
        observers: notified of progress, intervals and ends.
        events: called with every event, in order.
        replay: events of an earlier log, which are repeated in this order; after them, events occur as they come.
        failures: whether an individual that could not be made ends everything with an error, or counts as broken.
        saved: checkpoints to continue from; runs without one start from the beginning.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        seed: int,
        runs: int | range,
        evaluations: int,
        log_every: int,
        observers: Sequence[Observer] = (),
        events: Callable[[Event], None] = lambda event: None,
        replay: Sequence[Event] = (),
        failures: Failures = "stop",
        saved: Sequence[Checkpoint] = (),
    ) -> None:
        self._runs = range(runs) if isinstance(runs, int) else runs
        _check(engine, self._runs, saved, replay)
        self._engine, self._budget = engine, evaluations
        self._failures, self._log_event = failures, events
        initial_population = min(engine.selector.initial_population, evaluations)
        batches = replace(engine.batches, initial_population=initial_population)
        self._tracker = InFlightTracker(self._runs, batches=batches, budget=evaluations)
        self._intervals = LogIntervals(log_every, batches)
        self._batcher = ChildBatcher(engine, self._runs.start, initial_population)
        # Runs are logged one by one: probes of all the others would be made for nothing.
        self._reporter = Reporter(
            engine, seed=seed, log_every=log_every, observers=observers, width=self._batcher.min_width
        )
        self._reporter.first_run = self._runs.start
        self._started: set[int] = set()
        self._before_end: dict[int, BeforeRunEnd] = {}
        self._replay = EventReplay(replay) if replay else None
        self._progress_at = float("-inf")
        self.results: list[RunResult] = []
        """How the ended runs ended."""
        self.interrupted = False
        """Whether the runs were ended early."""
        self.event_count = 0
        """Number of events so far."""
        engine.reset(self._runs.start)
        ended = {result.run for checkpoint in saved for result in checkpoint.results}
        self._reporter.report_start(run for run in self._runs if run not in ended)
        for checkpoint in saved:
            self._restore(checkpoint)
        self._report_progress()

    @property
    def ended(self) -> bool:
        """Whether all runs have ended."""
        return not self._tracker.active_runs

    @property
    def evaluations_used(self) -> int:
        """Evaluations of the active run that has the most."""
        return max((self._tracker.runs[run].evaluated for run in self._tracker.active_runs), default=self._budget)

    @property
    def replayed(self) -> bool:
        """Whether all events to replay have been repeated."""
        return self._replay is None

    @property
    def compile_seconds(self) -> float:
        """Time spent compiling so far."""
        return self._batcher.compile_seconds + self._reporter.compile_seconds

    def ask(self, count: int) -> list[ChildRequest]:
        """Return the next batches to make, at most `count`; fewer where no more can be started now.

        A replay may tell results here that were held until now, and so come to its end.
        """
        requests: list[ChildRequest] = []
        while len(requests) < count:
            self._advance_replay()
            chosen = self._choose(count - len(requests))
            if not chosen:
                break
            asked = self._dispatch([key for key, *_ in chosen], [size for _, size, _ in chosen])
            requests += [request for request, (*_, needed) in zip(asked, chosen, strict=True) if needed]
        self._advance_replay()
        return requests

    def tell(self, *results: ChildResult) -> None:
        """Record results, one after another; those that are not in flight (any more) are dropped."""
        if self._replay is None:
            self._tell(results)
            return
        for result in results:
            if self._tracker.is_in_flight(*result.key):
                self._replay.hold(result)
        self._advance_replay()

    def tell_failure(self, request: ChildRequest, message: str) -> None:
        """Record that a batch could not be made, and why."""
        if not self.is_waiting_for(request):
            return
        what = f"run {request.run}: individual {request.number} could not be made: {message}"
        if self._failures == "stop":
            raise TfsmError(what)
        if self._replay is not None:
            raise TfsmError(f"{what}; it was made when the log was written, so the log cannot be replayed")
        self._tell_broken(*request.key)

    def broken(self, request: ChildRequest) -> ChildResult:
        """Return the result of individuals that could not be made."""
        return self._batcher.broken(request.run, request.number, request.count)

    def is_waiting_for(self, request: ChildRequest) -> bool:
        """Return whether a batch is in flight: its run may have ended, or its result may have come already."""
        return self._tracker.is_in_flight(*request.key)

    def finish_early(self) -> None:
        """Log and end all runs; individuals in flight are forgotten."""
        self.interrupted = True
        for run in self._tracker.active_runs:
            self._report(run, ends=True)
        self._report_progress()

    def checkpoint(self) -> Checkpoint:
        """Return the state of all runs, valid until the next call; individuals in flight will be dispatched again."""
        # A run that has only used up its budget may get more evaluations later.
        active = sorted({*self._tracker.active_runs, *self._before_end})
        ends = [self._before_end.get(run) for run in active]
        champions = dict(self._reporter.reported_champions)
        for run, end in self._before_end.items():
            champions.pop(run, None)
            champions |= {} if end.reported_champion is None else {run: end.reported_champion}
        return Checkpoint(
            first_run=self._runs.start,
            count=len(self._runs),
            evaluations_used=self.evaluations_used,
            results=tuple(result for result in self.results if result.run not in self._before_end),
            reported_champions=champions,
            tables=_restore_rows(self._engine.state.read_tables([self._lane(run) for run in active]), ends),
            async_runs={
                run: self._tracker.snapshot(run) if end is None else end.run_state
                for run, end in zip(active, ends, strict=True)
            },
            event_count=self.event_count,
        )

    def _restore(self, checkpoint: Checkpoint) -> None:
        state, active = self._engine.state, checkpoint.active_runs
        if checkpoint.evaluations_used or checkpoint.async_runs:
            state.restore_tables(checkpoint.tables, [self._lane(run) for run in active])
        evaluations = state.evaluations.numpy()
        for run in active:
            run_state = checkpoint.async_runs.get(run, AsyncRunState())
            self._tracker.restore(run, int(evaluations[self._lane(run)]), run_state)
        for result in checkpoint.results:
            self._tracker.end(result.run)
        self.results += checkpoint.results
        self._reporter.reported_champions |= checkpoint.reported_champions
        self.event_count = max(self.event_count, checkpoint.event_count)
        solved = state.solved.numpy()
        for run in active:
            is_solved = solved[self._lane(run)] and self._engine.stop_when_solved
            if is_solved or self._tracker.runs[run].evaluated >= self._budget:
                self._report(run, ends=True)

    # --- Ask

    def _choose(self, count: int) -> list[tuple[Key, int, bool]]:
        """Choose batches to dispatch without telling anything in between: key, size, and whether it has to be made."""
        chosen: list[tuple[Key, int, bool]] = []
        while sum(needed for *_, needed in chosen) < count and (key := self._next()) is not None:
            try:
                size = self._tracker.dispatch(*key, None if self._replay is None else self._replay.most)
            except ValueError as error:
                assert self._replay is not None
                raise TfsmError(f"{self._replay.position} does not fit these runs: {error}") from None
            chosen.append((key, size, self._replay is None or self._replay.dispatch()))
        return chosen

    def _next(self) -> Key | None:
        if self._replay is None:
            return self._tracker.next()
        event = self._replay.next
        return event.key if event is not None and event.kind == ">" else None

    def _dispatch(self, keys: list[Key], counts: list[int]) -> list[ChildRequest]:
        with_children = {run for run, number in keys if number >= self._tracker.initial_population}
        for run in sorted(with_children - self._started):
            # A run from a checkpoint has its baseline already, and another population than it had at its start.
            if self._tracker.runs[run].evaluated == self._tracker.initial_population:
                self._engine.start([self._lane(run)])
            self._started.add(run)
        for run, number in keys:
            self._note(">", run, number)
        return self._batcher.ask(keys, counts)

    def _advance_replay(self) -> None:
        """Repeat events as far as possible by now, up to the next one that dispatches."""
        replay = self._replay
        if replay is None:
            return
        while (event := replay.next) is not None and event.kind != ">":
            if not self._tracker.is_in_flight(*event.key):
                raise TfsmError(f"{replay.position} does not fit these runs: no such individual is in flight")
            if event.kind == "!":
                self._tell_broken(*replay.take_broken())
            elif (result := replay.take_result()) is not None:
                self._tell([result])
            else:
                return
        if replay.next is None:
            self._tracker.mark_lost(replay.idle)
            self._replay = None

    # --- Tell

    def _tell(self, results: Iterable[ChildResult], *, broken: bool = False) -> None:
        """Record results, as many at once as cannot make a difference."""
        batch: dict[int, ChildResult] = {}
        stops = self._engine.stop_when_solved

        def flush() -> None:
            self._batcher.tell(batch.values())
            batch.clear()

        for result in results:
            kinds = {other.number >= self._tracker.initial_population for other in batch.values()}
            if result.run in batch or kinds == {result.number < self._tracker.initial_population}:
                flush()
            if not self._tracker.is_in_flight(*result.key):
                continue
            if self._tracker.is_cut(*result.key):
                flush()
                self._remember(result.run, everything=True)
            batch[result.run] = result
            solves = stops and bool(result.solves.any())
            # What follows a solution in its batch does not count.
            count = int(result.solves.argmax()) + 1 if solves else result.count
            evaluated = self._tracker.tell(*result.key, count=count, failed=result.failed)
            self._note("!" if broken else "<", *result.key)
            ends = solves or evaluated >= self._budget
            if not ends:
                self._before_end.pop(result.run, None)
            if ends or evaluated in self._intervals:
                flush()
                self._report(result.run, ends=ends)
        flush()
        if time.monotonic() > self._progress_at + PROGRESS_SECONDS or self.ended:
            self._report_progress()

    def _tell_broken(self, run: int, number: int) -> None:
        count = len(self._tracker.numbers(run, number))
        self._tell([self._batcher.broken(run, number, count)], broken=True)

    # --- Report

    def _report(self, run: int, *, ends: bool) -> None:
        lane, regular = self._lane(run), self._tracker.runs[run].evaluated in self._intervals
        if regular:
            self._log(run)
        if not ends:
            return
        if self._engine.stop_when_solved and self._engine.state.solved.numpy()[lane]:
            self._before_end.pop(run, None)
        elif run not in self._before_end:
            # This interval ends with the run only if the run never gets more evaluations.
            self._remember(run)
        if not regular:
            self._log(run)
        self.results.append(self._reporter.report_end(lane))
        self._tracker.end(run)
        self._batcher.forget(run)
        if self._replay is not None:
            self._replay.forget(run)

    def _remember(self, run: int, *, everything: bool = False) -> None:
        """Remember a run as it is before its end is reported; everything where even the last batch is undone."""
        champion = self._reporter.reported_champions.get(run)
        self._before_end[run] = BeforeRunEnd.capture(
            self._engine.state, self._lane(run), self._tracker.snapshot(run), champion, everything=everything
        )

    def _log(self, run: int) -> None:
        lane = self._lane(run)
        self._reporter.report_interval([lane], {lane: self._tracker.end_interval(run)})

    def _report_progress(self) -> None:
        self._progress_at = time.monotonic()
        tracker = self._tracker
        starting = any(tracker.runs[run].evaluated < tracker.initial_population for run in tracker.active_runs)
        phase = "initial population" if starting else "evolving"
        self._reporter.report_progress(self._runs, self.results, len(self._runs), self._budget, phase)

    def _note(self, kind: EventKind, run: int, number: int) -> None:
        self.event_count += 1
        self._log_event(Event(kind, run, number))

    def _lane(self, run: int) -> int:
        return run - self._runs.start


def _check(engine: Engine, runs: range, saved: Sequence[Checkpoint], replay: Sequence[Event]) -> None:
    if engine.reuses_sensitivities:
        raise TfsmError("children that are made by workers cannot reuse sensitivities: set engine.reuse=false")
    if len(runs) > engine.plan.runs:
        raise TfsmError(f"there is room for {engine.plan.runs} of the {len(runs)} runs: raise engine.memory")
    for checkpoint in saved:
        if not {*checkpoint.runs} <= {*runs}:
            raise TfsmError(f"the checkpoint is of runs {_name(checkpoint.runs)}, expected runs {_name(runs)}")
    if saved and replay:
        raise TfsmError("a log is replayed from its beginning, not from a checkpoint")


def _name(runs: range) -> str:
    return f"{runs.start} to {runs.stop - 1}"
