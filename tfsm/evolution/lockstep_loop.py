"""The lock-step loop: calls the engine's compiled step, logs intervals, writes checkpoints, and narrows the batch.

The host wakes up about twice per second. Runs evolve in groups, one after another, each as wide as the plan allows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from tfsm.errors import TfsmError
from tfsm.evolution.batches import LogIntervals
from tfsm.evolution.checkpoint import Checkpoint, CheckpointWriter, split_into_ranges
from tfsm.evolution.engine import Engine
from tfsm.evolution.observers import RunResult
from tfsm.evolution.reporter import Reporter
from tfsm.interfaces import Observer

CALL_SECONDS = 0.5
"""A call should last about this long: short enough to feel responsive, long enough to cost nothing."""


class StepScheduler:
    """Learns the speed of the step at each width, and decides on steps per call and on the width.

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
        """Time of the first call of each kind, nearly all of it compiling."""
        return sum(self._compile.values())

    def steps(self, key: tuple[bool, int], limit: int) -> int:
        """Return how many steps the next call may take; the first call of a kind takes one, and pays for compiling."""
        if key not in self._compile:
            return 1
        if key not in self._seconds:
            return min(limit, 8)
        return max(1, min(limit, int(CALL_SECONDS / max(self._seconds[key], 1e-6))))

    def learn(self, key: tuple[bool, int], steps: int, seconds: float) -> None:
        """Remember how long a call took."""
        if key not in self._compile:
            self._compile[key] = seconds
        else:
            self._seconds[key] = seconds / steps

    def width(self, active: int, used: int, left: int) -> int:
        """Return the width for that many active runs: narrower only if that saves more time than compiling takes.

        Runs may be solved at any moment; the best guess is that they last as long again as they have lasted so far.

        Args:
            active: number of active runs.
            used: steps so far.
            left: steps that are left.
        """
        narrowest = min(width for width in self._widths if width >= active)
        if active > self._current:
            self._current = narrowest
        known = self._seconds.get((False, self._current))
        if narrowest < self._current and known is not None:
            saved = min(used, left) * known * (1.0 - narrowest / self._current)
            compiled = (False, narrowest) in self._compile
            if compiled or saved > 2.0 * self._compile[(False, self._current)]:
                self._current = narrowest
        return self._current


class LockstepLoop:
    """Evolves runs, as many in lock step as the engine's plan allows.

    Args:
        engine: the compiled step.
        seed: the experiment's seed, for the record.
        runs: the numbers of the runs, or how many there are, counted from 0.
        evaluations: maximum evaluations per run, including the initial population.
        log_every: evaluations between two logged intervals.
        observers: the observers to notify.
        stop: called between two calls of the compiled step; True ends all runs early, with everything saved.
        checkpoints: saves checkpoints.
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
        stop: Callable[[], bool] = lambda: False,
        checkpoints: CheckpointWriter | None = None,
        saved: Sequence[Checkpoint] = (),
    ) -> None:
        self._engine, self._runs = engine, range(runs) if isinstance(runs, int) else runs
        self._budget, self._batches = evaluations, engine.batches
        self._intervals = LogIntervals(log_every, engine.batches)
        self._stop, self._checkpoints = stop, checkpoints
        self._scheduler = StepScheduler(engine.widths)
        self._reporter = Reporter(engine, seed=seed, log_every=log_every, observers=observers)
        if any(checkpoint.async_runs for checkpoint in saved):
            raise TfsmError("these runs were evolved child by child, and cannot be resumed in lock step")
        self._groups = _divide(self._runs, saved, engine.plan.runs)
        self._results = [result for group in self._groups for result in group.results]
        self.interrupted = False
        self.evaluated = 0
        """Evaluations that were made here, of all runs together."""

    @property
    def compile_seconds(self) -> float:
        """Time spent compiling so far."""
        return self._scheduler.compile_seconds + self._reporter.compile_seconds

    def run(self) -> list[RunResult]:
        """Evolve, and return how each run ended."""
        for _ in self.steps():
            pass
        return self._results

    def steps(self) -> Iterator[None]:
        """Evolve; yields each time the host wakes up, so that it can do something else in between."""
        self._report_progress(range(0), "compiling")
        for group in self._groups:
            if self.interrupted:
                break
            yield from self._evolve_group(group)

    def _evolve_group(self, group: Checkpoint) -> Iterator[None]:
        engine, state, reporter = self._engine, self._engine.state, self._reporter
        first_run, used = group.first_run, group.evaluations_used
        active = [run - first_run for run in group.active_runs]
        engine.reset(first_run)
        reporter.first_run = first_run
        reporter.reported_champions |= group.reported_champions
        if used:
            state.restore_tables(group.tables, active)
        reporter.report_start(group.active_runs)
        initial_population = min(engine.selector.initial_population, self._budget)
        while active:
            starting = used < initial_population
            if used == initial_population:
                engine.start(active)
            cut = not starting and used == self._batches.cut(self._budget) < self._budget
            if cut:
                # With a larger budget the batch will be complete, so that a resumed run has to make it again.
                self._save(group, used, active, last=True)
            if used < self._budget:
                try:
                    used = self._call(active, used, initial_population if starting else self._budget, starting)
                except Exception:
                    self._rescue(group, active)
                    raise
            self.interrupted = self.interrupted or self._stop()
            ending, active_before = self._solved_lanes(active), active
            active = [lane for lane in active if lane not in ending]
            regular = used in self._intervals
            if regular or ending:
                reporter.report_interval(active_before if regular else ending)
            self._results += [reporter.report_end(lane) for lane in ending]
            over = used >= self._budget or self.interrupted
            if not active or (not cut and (over or self._is_due(used))):
                # Checkpoint unsolved runs before reporting their end, so that they can be extended.
                self._save(group, used, active, last=not self.interrupted and (over or not active))
            if over and active:
                if not regular:
                    reporter.report_interval(active)
                self._results += [reporter.report_end(lane) for lane in active]
                active = []
            self._report_progress(group.runs, "initial population" if starting else "evolving")
            yield

    def _call(self, active: list[int], used: int, budget: int, starting: bool) -> int:
        """Run some steps of the active lanes, and return how many evaluations are used then."""
        batches = self._batches
        width = self._scheduler.width(len(active), used // batches.size, (self._budget - used) // batches.size)
        # A batch has a fixed width; idle lanes fill it up.
        lanes = tf.constant((active + active[:1] * width)[:width], tf.int32)
        function = self._engine.initialize if starting else self._engine.step
        key = (starting, width)
        bound = budget if starting else min(budget, self._intervals.after(used))
        if self._checkpoints is not None:
            bound = min(bound, self._checkpoints.next_check(used))
        if starting or batches.generation is not None:
            budget = bound  # where a batch may end anywhere
        else:
            complete = batches.cut(budget)
            bound = batches.advance(used, batches.count(used, bound), complete) if used < complete else budget
        steps = self._scheduler.steps(key, batches.count(used, bound))
        began = time.perf_counter()
        function(tf.constant(steps), lanes, tf.constant(len(active)), tf.constant(budget))
        evaluations = int(self._engine.state.evaluations.numpy()[active].sum())  # which waits for the result
        self._scheduler.learn(key, steps, time.perf_counter() - began)
        self.evaluated += evaluations - used * len(active)
        return batches.advance(used, steps, bound)

    def _solved_lanes(self, active: list[int]) -> list[int]:
        """Return the lanes whose run ends because it is solved."""
        solved = self._engine.state.solved.numpy()
        return [lane for lane in active if solved[lane] and self._engine.stop_when_solved]

    def _is_due(self, used: int) -> bool:
        return self._checkpoints is not None and self._checkpoints.is_due(used)

    def _rescue(self, group: Checkpoint, active: list[int]) -> None:
        """Save all that was evaluated before the domain failed in the middle of a call."""
        if not self._engine.failure_policy.failed:
            return
        state, reporter = self._engine.state, self._reporter
        ending = self._solved_lanes(active)
        if ending:
            reporter.report_interval(ending)
            self._results += [reporter.report_end(lane) for lane in ending]
        left = [lane for lane in active if lane not in ending]
        used = int(state.evaluations.numpy()[left].min()) if left else 0
        if used:
            self._save(group, used, left)
            best = state.best_fitness.numpy()
            self._results += [reporter.report_end(lane) for lane in left if np.isfinite(best[lane])]

    def _save(self, group: Checkpoint, used: int, active: list[int], *, last: bool = False) -> None:
        """Save a checkpoint of a group with these active lanes."""
        if self._checkpoints is None:
            return
        runs, champions = group.runs, self._reporter.reported_champions
        self._checkpoints.save(
            Checkpoint(
                first_run=group.first_run,
                count=group.count,
                evaluations_used=used,
                results=tuple(result for result in self._results if result.run in runs),
                reported_champions={run: champion for run, champion in champions.items() if run in runs},
                tables=self._engine.state.read_tables(active),
            ),
            last=last,
        )

    def _report_progress(self, runs: range, phase: str) -> None:
        self._reporter.report_progress(runs, self._results, len(self._runs), self._budget, phase)


def _divide(runs: range, saved: Sequence[Checkpoint], width: int) -> list[Checkpoint]:
    """Return the groups to evolve one after another, saved ones and new ones, none wider than `width`."""
    known = [checkpoint.select(part) for checkpoint in saved for part in split_into_ranges(checkpoint.runs, width)]
    saved_runs = {run for checkpoint in saved for run in checkpoint.runs}
    new = split_into_ranges((run for run in runs if run not in saved_runs), width)
    return sorted([*known, *(Checkpoint(part.start, len(part), 0) for part in new)], key=lambda group: group.first_run)
