"""Ask/tell driver for single children.

Telling how an interval and a run ended begins a new interval. Somebody who later gets more evaluations goes on from
before that, as if there had been no end.

A parent is chosen when a child is handed out, in the population as it is then; who is replaced is chosen when the child
arrives, in the population as it is then. With one child on its way at a time this is the lock step, bit for bit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import tensorflow as tf

from tfsm.errors import TfsmError
from tfsm.evolution.async_worker import ChildRequest, ChildResult, Individual
from tfsm.evolution.checkpoint import AsyncRunState, Checkpoint, LazyTable, read_tables, restore_tables
from tfsm.evolution.compile_plan import TracedFunction
from tfsm.evolution.engine import Engine
from tfsm.evolution.event_log import Event, EventKind, EventReplay
from tfsm.evolution.lockstep_loop import LogIntervals
from tfsm.evolution.observers import RunResult
from tfsm.evolution.reporter import Reporter
from tfsm.evolution.state import State
from tfsm.evolution.variation import Match
from tfsm.interfaces import Failures, Observer, Tensor


class ChildExchange:
    """The engine's populations, for individuals that come and go one by one.

    Args:
        engine: whose populations.
        first: the run in lane 0.
        initial_population: how many first individuals each run has.
    """

    def __init__(self, engine: Engine, first: int, initial_population: int) -> None:
        self._engine, self._first, self._initial_population = engine, first, initial_population
        self._in_flight: dict[tuple[int, int], tuple[np.float32, np.float32]] = {}
        """Strength and parent's fitness of the children that are on their way."""
        self._diagnostics = engine.diagnostics
        self.narrow = min(2, engine.plan.width)
        """The narrowest batch. The least width may be less, but a batch of one is summed in another order."""
        self.compile_seconds = 0.0
        """What first calls took, nearly all of it compiling."""

    def ask(self, chosen: Sequence[tuple[int, int]]) -> list[ChildRequest]:
        """Return orders for these runs and numbers, all by the populations as they are now."""
        children = [who for who in chosen if who[1] >= self._initial_population]
        step = self._engine.plan.width
        found = (
            order for start in range(0, len(children), step) for order in self._ask_parents(children[start:][:step])
        )
        return [
            next(found) if number >= self._initial_population else ChildRequest(run, number) for run, number in chosen
        ]

    def tell(self, batch: Collection[ChildResult]) -> None:
        """Settle individuals of different runs, all of them first ones or all of them children."""
        if not batch:
            return
        some = list(batch)
        who = self._who([(bred.run, bred.number) for bred in some])
        genomes = self._filled([bred.genome for bred in some])
        found = [self._filled(leaves) for leaves in zip(*(bred.found for bred in some), strict=True)]
        if some[0].number < self._initial_population:
            self._timed(self._engine.tell_initial, who, genomes, *found)
            return
        told = [
            (
                *self._in_flight.pop((bred.run, bred.number)),
                bred.moved,
                *(bred.diagnostics[name] for name in self._diagnostics),
            )
            for bred in some
        ]
        columns = tf.constant(np.array(self._fill(told), np.float32).T)
        self._timed(self._engine.tell, who, columns, genomes, *found)

    def broken(self, run: int, number: int) -> ChildResult:
        """Return somebody who could not be made: it has no fitness, and did nothing."""
        variation = self._engine.variation
        blank = tf.nest.map_structure(lambda s: np.zeros(s.shape, s.dtype.as_numpy_dtype), variation.template)
        found = blank._replace(fitness=np.full_like(blank.fitness, np.nan))
        genome = np.zeros([variation.network.size], variation.network.dtype.as_numpy_dtype)
        return ChildResult(run, number, genome, tuple(tf.nest.flatten(found)), dict.fromkeys(self._diagnostics, 0.0))

    def forget(self, run: int) -> None:
        """Forget whoever is on the way for a run."""
        self._in_flight = {who: kept for who, kept in self._in_flight.items() if who[0] != run}

    def _ask_parents(self, chosen: Sequence[tuple[int, int]]) -> Iterable[ChildRequest]:
        found = self._timed(self._engine.match, self._who(chosen))
        match: Match = tf.nest.map_structure(lambda x: x.numpy(), found)
        experience, *mates = (tf.nest.flatten(seen) for seen in (match.experience, *match.mates))
        for i, (run, number) in enumerate(chosen):
            self._in_flight[run, number] = match.intensity_scale[i], match.parent_fitness[i]
            yield ChildRequest(
                run,
                number,
                Individual(match.parents[i], tuple(leaf[i] for leaf in experience)),
                Individual(match.mates[0][i], tuple(leaf[i] for leaf in mates[1])) if mates else None,
                float(match.intensity_scale[i]),
            )

    def _width(self, count: int) -> int:
        """Return the lanes of a batch: two widths are compiled, for what comes alone and for many at once."""
        return self.narrow if count <= self.narrow else self._engine.plan.width

    def _who(self, chosen: Sequence[tuple[int, int]]) -> Tensor:
        """Return lanes, numbers, and which of them count: `[3, W]`."""
        rows = self._fill([(run - self._first, number, 1) for run, number in chosen])
        who = np.array(rows, np.int32).T
        who[2, len(chosen) :] = 0
        return tf.constant(who)

    def _filled(self, leaves: Sequence[Any]) -> Tensor:
        return tf.constant(np.stack(self._fill(leaves)))

    def _fill(self, some: Sequence[Any]) -> list[Any]:
        """Fill a batch up with its first one."""
        return [*some, *[some[0]] * (self._width(len(some)) - len(some))]

    def _timed(self, function: TracedFunction, *tensors: Tensor) -> Any:
        traces, began = function.traces, time.perf_counter()
        found = function(*tensors)
        if function.traces > traces:
            self.compile_seconds += time.perf_counter() - began
        return found


_TALLIES = "tallies."


@dataclass(frozen=True)
class BeforeRunEnd:
    """What telling the end of a run changes, as it was before."""

    async_run: AsyncRunState
    reported_champion: tuple[bool, float] | None
    """What was last told of its champion; None if nothing was."""
    tallies: Mapping[str, np.ndarray[Any, Any]]
    """What was counted since the last line of the log, by the names of the tables."""


def capture_before_end(
    state: State, lane: int, async_runs: AsyncRunState, standing: tuple[bool, float] | None
) -> BeforeRunEnd:
    """Remember a run whose end will be told now."""
    tallies = {name: table.numpy()[lane] for name, table in state.tables().items() if name.startswith(_TALLIES)}
    return BeforeRunEnd(async_runs, standing, tallies)


def restore_tallies(tables: Mapping[str, LazyTable], places: Sequence[BeforeRunEnd | None]) -> dict[str, LazyTable]:
    """Return tables `[L, ...]` in which the lanes of such runs have what was counted before their end was told."""

    def mended(name: str, rows: LazyTable) -> LazyTable:
        def row(place: int) -> np.ndarray[Any, Any]:
            own = places[place]
            return rows.row(place) if own is None else own.tallies[name]

        return replace(rows, row=row)

    return {name: mended(name, rows) if name.startswith(_TALLIES) else rows for name, rows in tables.items()}


@dataclass
class RunTracker:
    """One run's."""

    evaluated: int = 0
    """How many were settled."""
    fresh: int = 0
    """The lowest number that was never handed out."""
    lost: set[int] = field(default_factory=set)
    """Numbers that were handed out, and have to be again."""
    in_flight: dict[int, int] = field(default_factory=dict)
    """How many were settled when those were handed out who are on their way, by number."""
    ended: bool = False
    children: int = 0
    """Settled in this logging interval; so are the following."""
    staleness_sum: int = 0
    staleness_max: int = 0
    failed: int = 0


class InFlightTracker:
    """Keeps the accounts of some runs.

    Args:
        runs: their numbers.
        initial_population: how many first individuals each of them has.
        budget: the most evaluations of one run.
    """

    def __init__(self, runs: Iterable[int], *, initial_population: int, budget: int) -> None:
        self.initial_population, self._budget = initial_population, budget
        self.accounts = {run: RunTracker() for run in runs}

    @property
    def active_runs(self) -> list[int]:
        """The runs that have not ended."""
        return [run for run, account in self.accounts.items() if not account.ended]

    def next(self) -> tuple[int, int] | None:
        """Return the run and number to hand out next; None: none now.

        In the run with the fewest on their way, so that few are stale; among those in the one that is least far, so
        that all runs go on alike.
        """
        open_ = {run: number for run, account in self.accounts.items() if (number := self._open(account)) is not None}
        if not open_:
            return None
        run = min(open_, key=lambda run: (len(self.accounts[run].in_flight), self.accounts[run].evaluated, run))
        return run, open_[run]

    def _open(self, account: RunTracker) -> int | None:
        if account.ended:
            return None
        if account.lost:
            return min(account.lost)
        # Children only once everybody is there whom they could have for a parent, as in lock step.
        bound = self.initial_population if account.evaluated < self.initial_population else self._budget
        return account.fresh if account.fresh < bound else None

    def dispatch(self, run: int, number: int) -> None:
        """Note that somebody is on the way; a `ValueError` says why this cannot be."""
        account = self.accounts.get(run)
        if account is None or account.ended:
            raise ValueError("there is no such run, or it has ended")
        again = number in account.lost or number in account.in_flight
        if not again and number != account.fresh:
            raise ValueError(f"the next number of this run is {account.fresh}")
        if number >= (self.initial_population if account.evaluated < self.initial_population else self._budget):
            raise ValueError(f"only {account.evaluated} of this run were settled")
        account.lost.discard(number)
        account.in_flight[number] = account.evaluated
        account.fresh = max(account.fresh, number + 1)

    def mark_lost(self, who: Collection[tuple[int, int]]) -> None:
        """Hand those out again who are on a way that leads nowhere."""
        for run, number in who:
            account = self.accounts[run]
            if account.in_flight.pop(number, None) is not None:
                account.lost.add(number)

    def is_in_flight(self, run: int, number: int) -> bool:
        """Say whether somebody is on the way."""
        account = self.accounts.get(run)
        return account is not None and number in account.in_flight

    def tell(self, run: int, number: int, *, failed: bool = False) -> int:
        """Note that somebody has arrived, and return how many were settled now."""
        account = self.accounts[run]
        stale = account.evaluated - account.in_flight.pop(number)
        account.evaluated += 1
        account.failed += failed
        if number >= self.initial_population:
            account.children += 1
            account.staleness_sum += stale
            account.staleness_max = max(account.staleness_max, stale)
        return account.evaluated

    def end(self, run: int) -> None:
        """Note that a run has ended; whoever is on the way for it is forgotten."""
        account = self.accounts[run]
        account.ended = True
        account.in_flight.clear()
        account.lost.clear()

    def interval(self, run: int) -> dict[str, Any]:
        """Return what the metrics say of a logging interval that ends here; the next one begins."""
        account = self.accounts[run]
        told = {
            "staleness": account.staleness_sum / account.children if account.children else None,
            "staleness_most": account.staleness_max if account.children else None,
            "failed": account.failed,
        }
        account.children = account.staleness_sum = account.staleness_max = account.failed = 0
        return told

    def snapshot(self, run: int) -> AsyncRunState:
        """Return what is worth keeping of a run."""
        account = self.accounts[run]
        away = tuple(sorted(account.lost | account.in_flight.keys()))
        return AsyncRunState(away, account.children, account.staleness_sum, account.staleness_max, account.failed)

    def restore(self, run: int, evaluated: int, kept: AsyncRunState) -> None:
        """Go on with a run of which so many were settled."""
        self.accounts[run] = RunTracker(
            evaluated=evaluated,
            fresh=evaluated + len(kept.in_flight),
            # A budget that is less than it was then has no use for later ones, and can be spent without them.
            lost={number for number in kept.in_flight if number < self._budget},
            children=kept.children,
            staleness_sum=kept.staleness_sum,
            staleness_max=kept.staleness_max,
            failed=kept.failed,
        )


PROGRESS_SECONDS = 0.5
"""Between two times that observers hear where all runs stand."""


class AsyncLoop:
    """Hands out individuals to be made, and settles them in whatever order they arrive.

    Args:
        engine: the populations; there must be room for all runs, and sensitivities must not be kept.
        seed: the experiment's seed, for the record.
        runs: the numbers of the runs, or how many there are, counted from 0.
        evaluations: the most evaluations of one run, the initial population included.
        log_every: evaluations between two logged intervals of a run.
        observers: the observers to notify.
        events: called with every event, in order.
        replay: events of such a log: they happen again, in this order; what comes after them happens as it comes.
        failures: what becomes of individuals that could not be made: everything ends with an error, or they count as
            evaluated, and as broken.
        saved: where runs stood when they were left; the others begin.
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
        self._tracker = InFlightTracker(self._runs, initial_population=initial_population, budget=evaluations)
        self._intervals = LogIntervals(log_every, initial_population)
        self._exchange = ChildExchange(engine, self._runs.start, initial_population)
        # Runs are logged one by one: children of all others, made for the log only, would be made for nothing.
        self._reporter = Reporter(
            engine, seed=seed, log_every=log_every, observers=observers, width=self._exchange.narrow
        )
        self._reporter.first = self._runs.start
        self._started: set[int] = set()
        self._before_end: dict[int, BeforeRunEnd] = {}
        self._replay = EventReplay(replay) if replay else None
        self._reported_at = float("-inf")
        self.results: list[RunResult] = []
        """How those runs ended that have."""
        self.interrupted = False
        """Whether the runs were ended early."""
        self.events = 0
        """How many events there were so far."""
        engine.reset(self._runs.start)
        ended = {result.run for group in saved for result in group.results}
        self._reporter.report_start(run for run in self._runs if run not in ended)
        for group in saved:
            self._restore(group)
        self._report_progress()

    @property
    def ended(self) -> bool:
        """Whether all runs have ended."""
        return not self._tracker.active_runs

    @property
    def evaluations_used(self) -> int:
        """How many were settled of the run with the most, of those that have not ended."""
        return max((self._tracker.accounts[run].evaluated for run in self._tracker.active_runs), default=self._budget)

    @property
    def replayed(self) -> bool:
        """Whether all that was to be replayed has happened again."""
        return self._replay is None

    @property
    def compile_seconds(self) -> float:
        """Time spent compiling so far."""
        return self._exchange.compile_seconds + self._reporter.compile_seconds

    def ask(self, count: int) -> list[ChildRequest]:
        """Return the next individuals to be made, as many as that if there are so many now.

        A replay may settle somebody here who was held until now, and so come to its end.
        """
        found: list[ChildRequest] = []
        while len(found) < count:
            self._catch_up()
            chosen = self._choose(count - len(found))
            if not chosen:
                break
            made = self._dispatch([who for who, _ in chosen])
            found += [order for order, (_, wanted) in zip(made, chosen, strict=True) if wanted]
        self._catch_up()
        return found

    def tell(self, *bred: ChildResult) -> None:
        """Settle individuals, one after another; those whose run has ended, or who were settled before, are dropped."""
        if self._replay is None:
            self._tell_results(bred)
            return
        for one in bred:
            if self._tracker.is_in_flight(one.run, one.number):
                self._replay.hold(one)
        self._catch_up()

    def failed(self, order: ChildRequest, message: str) -> None:
        """Hear that an individual could not be made, and why."""
        if not self.is_waiting_for(order):
            return
        what = f"run {order.run}: individual {order.number} could not be made: {message}"
        if self._failures == "stop":
            raise TfsmError(what)
        if self._replay is not None:
            raise TfsmError(f"{what}; it could be when the log was written, which cannot be replayed like this")
        self._break(order.run, order.number)

    def is_waiting_for(self, order: ChildRequest) -> bool:
        """Say whether an individual is still wanted: its run may have ended, or it may have come another way."""
        return self._tracker.is_in_flight(order.run, order.number)

    def finish_early(self) -> None:
        """Log and end all runs; whoever is on the way is forgotten."""
        self.interrupted = True
        for run in self._tracker.active_runs:
            self._report(run, ends=True)
        self._report_progress()

    def saved(self) -> Checkpoint:
        """Return where all runs stand, valid until the next call; whoever is on the way will be handed out again."""
        # Whoever has only spent his evaluations may get more of them some day.
        going = sorted({*self._tracker.active_runs, *self._before_end})
        before = [self._before_end.get(run) for run in going]
        standing = dict(self._reporter.reported_champions)
        for run, own in self._before_end.items():
            standing.pop(run, None)
            standing |= {} if own.reported_champion is None else {run: own.reported_champion}
        return Checkpoint(
            first=self._runs.start,
            count=len(self._runs),
            evaluations_used=self.evaluations_used,
            results=tuple(result for result in self.results if result.run not in self._before_end),
            reported_champions=standing,
            tables=restore_tallies(read_tables(self._engine.state, [self._lane(run) for run in going]), before),
            async_runs={
                run: self._tracker.snapshot(run) if own is None else own.async_run
                for run, own in zip(going, before, strict=True)
            },
            events=self.events,
        )

    def _restore(self, saved: Checkpoint) -> None:
        if saved.evaluations_used or saved.async_runs:
            restore_tables(self._engine.state, saved.tables, [self._lane(run) for run in saved.active_runs])
        done = self._engine.state.evaluations.numpy()
        for run in saved.active_runs:
            self._tracker.restore(run, int(done[self._lane(run)]), saved.async_runs.get(run, AsyncRunState()))
        for result in saved.results:
            self._tracker.end(result.run)
        self.results += saved.results
        self._reporter.reported_champions |= saved.reported_champions
        self.events = max(self.events, saved.events)
        solved = self._engine.state.solved.numpy()
        for run in saved.active_runs:
            over = solved[self._lane(run)] and self._engine.stop_when_solved
            if over or self._tracker.accounts[run].evaluated >= self._budget:
                self._report(run, ends=True)

    def _choose(self, count: int) -> list[tuple[tuple[int, int], bool]]:
        """Choose whom to hand out without settling anybody meanwhile, and say who of them is wanted back."""
        chosen: list[tuple[tuple[int, int], bool]] = []
        while sum(wanted for _, wanted in chosen) < count and (who := self._next()) is not None:
            try:
                self._tracker.dispatch(*who)
            except ValueError as error:
                assert self._replay is not None
                raise TfsmError(f"{self._replay.where} does not fit these runs: {error}") from None
            chosen.append((who, self._replay is None or self._replay.dispatch()))
        return chosen

    def _next(self) -> tuple[int, int] | None:
        if self._replay is None:
            return self._tracker.next()
        event = self._replay.next
        return (event.run, event.number) if event is not None and event.kind == ">" else None

    def _catch_up(self) -> None:
        """Let happen again what can by now, up to the next one to be handed out."""
        replay = self._replay
        if replay is None:
            return
        while (event := replay.next) is not None and event.kind != ">":
            if not self._tracker.is_in_flight(event.run, event.number):
                raise TfsmError(f"{replay.where} does not fit these runs: nobody of that number is on the way")
            if event.kind == "!":
                self._break(*replay.broke())
            elif (bred := replay.arrived()) is not None:
                self._tell_results([bred])
            else:
                return
        if replay.next is None:
            self._tracker.mark_lost(replay.idle)
            self._replay = None

    def _dispatch(self, chosen: list[tuple[int, int]]) -> list[ChildRequest]:
        children = {run for run, number in chosen if number >= self._tracker.initial_population}
        for run in sorted(children - self._started):
            # Who was here before a checkpoint has its baseline already, and others in the population than it had then.
            if self._tracker.accounts[run].evaluated == self._tracker.initial_population:
                self._engine.start([self._lane(run)])
            self._started.add(run)
        for run, number in chosen:
            self._note(">", run, number)
        return self._exchange.ask(chosen)

    def _tell_results(self, bred: Iterable[ChildResult], *, failed: bool = False) -> None:
        """Settle individuals, as many at once as cannot make a difference."""
        batch: dict[int, ChildResult] = {}
        for one in bred:
            kinds = {other.number >= self._tracker.initial_population for other in batch.values()}
            if one.run in batch or kinds == {one.number < self._tracker.initial_population}:
                self._exchange.tell(batch.values())
                batch.clear()
            if not self._tracker.is_in_flight(one.run, one.number):
                continue
            batch[one.run] = one
            settled = self._tracker.tell(one.run, one.number, failed=failed)
            self._note("!" if failed else "<", one.run, one.number)
            ends = settled >= self._budget or (one.solves and self._engine.stop_when_solved)
            if ends or settled in self._intervals:
                self._exchange.tell(batch.values())
                batch.clear()
                self._report(one.run, ends=ends)
        self._exchange.tell(batch.values())
        if time.monotonic() > self._reported_at + PROGRESS_SECONDS or self.ended:
            self._report_progress()

    def _break(self, run: int, number: int) -> None:
        self._tell_results([self._exchange.broken(run, number)], failed=True)

    def _report(self, run: int, *, ends: bool) -> None:
        lane, regular = self._lane(run), self._tracker.accounts[run].evaluated in self._intervals
        if regular:
            self._log(run)
        if not ends:
            return
        if not (self._engine.stop_when_solved and self._engine.state.solved.numpy()[lane]):
            # An interval ends with the run only as long as there is nothing more of it.
            standing = self._reporter.reported_champions.get(run)
            self._before_end[run] = capture_before_end(self._engine.state, lane, self._tracker.snapshot(run), standing)
        if not regular:
            self._log(run)
        self.results.append(self._reporter.report_end(lane))
        self._tracker.end(run)
        self._exchange.forget(run)
        if self._replay is not None:
            self._replay.forget(run)

    def _log(self, run: int) -> None:
        lane = self._lane(run)
        self._reporter.report_interval([lane], {lane: self._tracker.interval(run)})

    def _note(self, kind: EventKind, run: int, number: int) -> None:
        self.events += 1
        self._log_event(Event(kind, run, number))

    def _lane(self, run: int) -> int:
        return run - self._runs.start

    def _report_progress(self) -> None:
        self._reported_at = time.monotonic()
        starting = any(
            self._tracker.accounts[run].evaluated < self._tracker.initial_population
            for run in self._tracker.active_runs
        )
        phase = "initial population" if starting else "evolving"
        self._reporter.report_progress(self._runs, self.results, len(self._runs), self._budget, phase)


def _check(engine: Engine, runs: range, saved: Sequence[Checkpoint], replay: Sequence[Event]) -> None:
    if engine.reuses:
        raise TfsmError(
            "whoever makes children far from the populations keeps no sensitivities: set engine.reuse=false"
        )
    if len(runs) > engine.plan.runs:
        raise TfsmError(f"there is room for {engine.plan.runs} of the {len(runs)} runs: raise engine.memory")
    for group in saved:
        if not {*group.runs} <= {*runs}:
            raise TfsmError(f"the runs {_named(group.runs)} were saved, and {_named(runs)} are to go on")
    if saved and replay:
        raise TfsmError("a log is replayed from its beginning, and not from a checkpoint")


def _named(runs: range) -> str:
    return f"{runs.start} to {runs.stop - 1}"
