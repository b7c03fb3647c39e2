"""Host loop: chunk, narrow, log, checkpoint."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from tfsm.errors import TfsmError
from tfsm.evolution.checkpoint import Checkpoint, CheckpointWriter, read_tables, restore_tables
from tfsm.evolution.engine import Engine
from tfsm.evolution.observers import RunResult
from tfsm.evolution.reporter import Reporter
from tfsm.interfaces import Observer

CALL_SECONDS = 0.5
"""A call should last about this long: short enough to feel alive, long enough to cost nothing."""


class StepScheduler:
    """Learns the speed of the step at each width.

    Args:
        widths: the widths that a batch may have, falling.
    """

    def __init__(self, widths: tuple[int, ...]) -> None:
        self._widths = widths
        self._current = widths[0]
        self._seconds: dict[tuple[bool, int], float] = {}
        self._compile: dict[tuple[bool, int], float] = {}

    @property
    def compile_seconds(self) -> float:
        """What the first calls of their kinds took, nearly all of it compiling."""
        return sum(self._compile.values())

    def steps(self, key: tuple[bool, int], most: int) -> int:
        """Return how many steps the next call may take; the first call of a kind takes one, and pays for compiling."""
        if key not in self._compile:
            return 1
        if key not in self._seconds:
            return min(most, 8)
        return max(1, min(most, int(CALL_SECONDS / max(self._seconds[key], 1e-6))))

    def learn(self, key: tuple[bool, int], steps: int, seconds: float) -> None:
        """Remember how long a call took."""
        if key not in self._compile:
            self._compile[key] = seconds
        else:
            self._seconds[key] = seconds / steps

    def width(self, active: int, spent: int, left: int) -> int:
        """Return the width for so many active runs: narrower only if that saves more time than compiling takes.

        Runs may be solved any moment; the best guess is that they go on for as long as they have gone on so far.
        """
        candidates = [width for width in self._widths if width >= active]
        narrowest = min(candidates)
        if active > self._current:
            self._current = narrowest
        known = self._seconds.get((False, self._current))
        if narrowest < self._current and known is not None:
            saved = min(spent, left) * known * (1.0 - narrowest / self._current)
            compiled = (False, narrowest) in self._compile
            if compiled or saved > 2.0 * self._compile[(False, self._current)]:
                self._current = narrowest
        return self._current


@dataclass(frozen=True)
class LogIntervals:
    """The regular ends of a run's logging intervals; it has another one where it ends.

    >>> intervals = LogIntervals(every=20, initial_population=40)
    >>> [number for number in range(0, 101, 10) if number in intervals]
    [60, 80, 100]
    >>> list(intervals.until(85))
    [60, 80]
    """

    every: int
    """Evaluations between two of them."""
    initial_population: int
    """How many first individuals there are: up to these nobody has had a child."""

    def __contains__(self, evaluations: int) -> bool:
        return evaluations % self.every == 0 and evaluations > self.initial_population

    def until(self, evaluations: int) -> range:
        """Return those up to so many evaluations."""
        return range((self.initial_population // self.every + 1) * self.every, evaluations + 1, self.every)


class LockstepLoop:
    """Evolves runs, as many in lock step as the engine's plan allows.

    Args:
        engine: the compiled step.
        seed: the experiment's seed, for the record.
        runs: the numbers of the runs, or how many there are, counted from 0.
        evaluations: the most evaluations of one run, the initial population included.
        log_every: evaluations between two logged intervals.
        observers: the observers to notify.
        stop: asked between two calls of the compiled step; True ends all runs early, with everything kept.
        checkpoints: who is given what is worth keeping.
        saved: where groups of these runs stood when they were left; the others start from the beginning.
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
        stop: Callable[[], bool] = lambda: False,
        checkpoints: CheckpointWriter | None = None,
        saved: Sequence[Checkpoint] = (),
    ) -> None:
        self._engine, self._runs = engine, range(runs) if isinstance(runs, int) else runs
        self._budget, self._log_every = evaluations, log_every
        self._stop, self._checkpoints = stop, checkpoints
        self._pace = StepScheduler(engine.plan.widths())
        self._reporter = Reporter(engine, seed=seed, log_every=log_every, observers=observers)
        if any(group.async_runs for group in saved):
            raise TfsmError("these runs were not in step when they were left, and cannot go on in lock step")
        self._groups = _groups(self._runs, saved, engine.plan.runs)
        self._results = [result for group in self._groups for result in group.results]
        self.interrupted = False
        self.evaluated = 0
        """Evaluations that were made here, by all runs together."""

    @property
    def compile_seconds(self) -> float:
        """Time spent compiling so far."""
        return self._pace.compile_seconds + self._reporter.compile_seconds

    def run(self) -> list[RunResult]:
        """Evolve, and return how each run ended."""
        for _ in self.steps():
            pass
        return self._results

    def steps(self) -> Iterator[None]:
        """Evolve; each time the host wakes it may do something else meanwhile."""
        self._tell(range(0), "compiling")
        for group in self._groups:
            if self.interrupted:
                break
            yield from self._group(group)

    def _group(self, group: Checkpoint) -> Iterator[None]:
        engine, state, reporter = self._engine, self._engine.state, self._reporter
        first, spent = group.first, group.evaluations_used
        active = [run - first for run in group.active_runs]
        engine.reset(first)
        reporter.first = first
        reporter.reported_champions |= group.reported_champions
        if spent:
            restore_tables(state, group.tables, active)
        reporter.report_start(group.active_runs)
        population = min(engine.selector.initial_population, self._budget)
        while active:
            starting = spent < population
            if spent == population:
                engine.start(active)
            if spent < self._budget:
                try:
                    spent += self._call(active, spent, population if starting else self._budget, starting)
                except Exception:
                    self._rescue(group, active)
                    raise
            self.interrupted = self.interrupted or self._stop()
            solved = state.solved.numpy()
            ending = [lane for lane in active if solved[lane] and engine.stop_when_solved]
            left = [lane for lane in active if lane not in ending]
            regular = spent in LogIntervals(self._log_every, population)
            if regular or ending:
                reporter.report_interval(active if regular else ending)
            self._results += [reporter.report_end(lane) for lane in ending]
            active = left
            over = spent >= self._budget or self.interrupted
            if over or not left or self._is_due(spent):
                # Before the end of whoever has no solution: he may go on some day, and then as if there had been none.
                self._keep(group, spent, left, last=not self.interrupted and (over or not left))
            if over and left:
                if not regular:
                    reporter.report_interval(left)
                self._results += [reporter.report_end(lane) for lane in left]
                active = []
            self._tell(group.runs, "initial population" if starting else "evolving")
            yield

    def _call(self, active: list[int], spent: int, budget: int, starting: bool) -> int:
        """Run some steps of the active lanes, and return how many."""
        width = self._pace.width(len(active), spent, self._budget - spent)
        # A batch has a fixed width; idle lanes fill it up.
        lanes = tf.constant((active + active[:1] * width)[:width], tf.int32)
        function = self._engine.begin if starting else self._engine.advance
        key = (starting, width)
        bound = budget if starting else min(budget, (spent // self._log_every + 1) * self._log_every)
        if self._checkpoints is not None:
            bound = min(bound, self._checkpoints.bound(spent))
        steps = self._pace.steps(key, bound - spent)
        began = time.perf_counter()
        function(tf.constant(steps), lanes, tf.constant(len(active)), tf.constant(budget))
        done = int(self._engine.state.evaluations.numpy()[active].sum())  # which waits for the result
        self._pace.learn(key, steps, time.perf_counter() - began)
        self.evaluated += done - spent * len(active)
        return steps

    def _is_due(self, spent: int) -> bool:
        return self._checkpoints is not None and self._checkpoints.is_due(spent)

    def _rescue(self, group: Checkpoint, active: list[int]) -> None:
        """Keep what there is where the domain failed in the midst of a call: all that was evaluated before."""
        if not self._engine.failure_policy.failed:
            return
        state, reporter = self._engine.state, self._reporter
        solved = state.solved.numpy()
        ending = [lane for lane in active if solved[lane] and self._engine.stop_when_solved]
        if ending:
            reporter.report_interval(ending)
            self._results += [reporter.report_end(lane) for lane in ending]
        going = [lane for lane in active if lane not in ending]
        spent = int(state.evaluations.numpy()[going].min()) if going else 0
        if spent:
            self._keep(group, spent, going)
            self._results += [
                reporter.report_end(lane) for lane in going if np.isfinite(state.best_fitness.numpy()[lane])
            ]

    def _keep(self, group: Checkpoint, spent: int, lanes: list[int], *, last: bool = False) -> None:
        """Let somebody keep where a group stands, with these lanes going on."""
        if self._checkpoints is None:
            return
        own = group.runs
        self._checkpoints.keep(
            Checkpoint(
                first=group.first,
                count=group.count,
                evaluations_used=spent,
                results=tuple(result for result in self._results if result.run in own),
                reported_champions={run: told for run, told in self._reporter.reported_champions.items() if run in own},
                tables=read_tables(self._engine.state, lanes),
            ),
            last=last,
        )

    def _tell(self, runs: range, phase: str) -> None:
        self._reporter.report_progress(runs, self._results, len(self._runs), self._budget, phase)


def _groups(runs: range, saved: Sequence[Checkpoint], width: int) -> list[Checkpoint]:
    """Return the groups to evolve one after another: those that were left, then new ones, none wider than `width`."""
    known = [group.part(chunk) for group in saved for chunk in _chunks(group.runs, width)]
    left = {run for group in saved for run in group.runs}
    new: list[Checkpoint] = []
    for run in runs:
        if run in left:
            continue
        if new and new[-1].runs.stop == run and new[-1].count < width:
            new[-1] = Checkpoint(new[-1].first, new[-1].count + 1, 0)
        else:
            new.append(Checkpoint(run, 1, 0))
    return sorted([*known, *new], key=lambda group: group.first)


def _chunks(runs: range, width: int) -> list[range]:
    return [runs[start : start + width] for start in range(0, len(runs), width)]
