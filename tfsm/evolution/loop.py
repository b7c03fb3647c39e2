"""The host's side of evolution: wake, look, log, and let the compiled step go on."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from tfsm.errors import TfsmError
from tfsm.evolution.engine import Engine
from tfsm.evolution.metrics import plain, quartiles, spread
from tfsm.evolution.pace import Pace
from tfsm.evolution.probing import probes
from tfsm.evolution.records import Observer, Progress, RunResult, Snapshot
from tfsm.evolution.state import TALLIES
from tfsm.models.sections import sections


class Loop:
    """Evolves `runs` runs, as many in lock step as the engine's plan allows.

    Args:
        engine: the compiled step.
        seed: the experiment's seed, for the record.
        runs: how many runs.
        evaluations: the most evaluations of one run, the initial population included.
        log_every: evaluations between two logged intervals.
        observers: who is told.
        stop: asked between two calls of the compiled step; True ends all runs early, with everything kept.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        seed: int,
        runs: int,
        evaluations: int,
        log_every: int,
        observers: Sequence[Observer] = (),
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self._engine, self._seed, self._runs = engine, seed, runs
        self._budget, self._log_every = evaluations, log_every
        self._observers, self._stop = observers, stop
        self._pace = Pace(engine.plan.widths())
        self._sections = sections(engine.network.model)
        self._probes = tf.constant(probes(log_every))
        self._standing: dict[int, tuple[bool, float]] = {}
        self._results: list[RunResult] = []
        self.interrupted = False

    @property
    def compile_seconds(self) -> float:
        """Time spent compiling so far."""
        return self._pace.compile_seconds

    def run(self) -> list[RunResult]:
        """Evolve, and return how each run ended."""
        self._tell(0, 0, "compiling")
        width = self._engine.plan.runs
        for first in range(0, self._runs, width):
            if self.interrupted:
                break
            self._group(first, min(width, self._runs - first))
        return self._results

    def _group(self, first: int, count: int) -> None:
        engine, state = self._engine, self._engine.state
        engine.reset(first)
        ended: set[int] = set()
        population = min(engine.selector.beginners, self._budget)
        spent = 0
        while len(ended) < count:
            starting = spent < population
            if spent == population:
                self._check_healthy(first, count)
                state.set_baseline()
            active = [lane for lane in range(count) if lane not in ended]
            bound = population if starting else min(self._budget, (spent // self._log_every + 1) * self._log_every)
            spent += self._call(active, bound - spent, population if starting else self._budget, starting)
            solved = state.solved.numpy()
            self.interrupted = self.interrupted or self._stop()
            done = spent >= self._budget or self.interrupted
            ending = [lane for lane in active if (solved[lane] and engine.stop_when_solved) or done]
            logging = active if spent % self._log_every == 0 and spent > population else ending
            if logging:
                self._log(first, logging)
                self._tell_best(first, logging)
            for lane in ending:
                self._end(first, lane)
            ended.update(ending)
            self._tell(first, count, "initial population" if starting else "evolving")

    def _call(self, active: list[int], steps: int, budget: int, starting: bool) -> int:
        """Run some steps of the active lanes, and return how many."""
        state = self._engine.state
        spent = int(state.evaluations.numpy()[active].min())
        width = self._pace.width(len(active), spent, self._budget - spent)
        # A batch has a fixed width; idle lanes fill it up.
        lanes = tf.constant((active + active[:1] * width)[:width], tf.int32)
        function = self._engine.begin if starting else self._engine.advance
        key = (starting, width)
        steps = self._pace.steps(key, steps)
        began = time.perf_counter()
        function(tf.constant(steps), lanes, tf.constant(len(active)), tf.constant(budget))
        state.evaluations.numpy()  # wait for the result
        self._pace.learn(key, steps, time.perf_counter() - began)
        return steps

    def _log(self, first: int, lanes: list[int]) -> None:
        state = self._engine.state
        divergence, sensitivity = self._probe(lanes)
        tallies = {name: tally.numpy() for name, tally in state.tallies.items()}
        fitness, evaluations = state.fitness.numpy(), state.evaluations.numpy()
        best = state.best_fitness.numpy()
        metrics = []
        for place, lane in enumerate(lanes):
            healthy = fitness[lane][np.isfinite(fitness[lane])]
            children = tallies["children"][lane]
            shares = {name: tally[lane] / children if children else None for name, tally in tallies.items()}
            del shares["children"]
            line = {
                "run": first + lane,
                "evaluations": evaluations[lane],
                "best_fitness": best[lane],
                "mean_fitness": healthy.mean() if healthy.size else None,
                "divergence": divergence[place].mean(),
                "divergence_quantiles": quartiles(divergence[place]),
                **{name: shares.pop(name) for name in TALLIES[1:]},
            }
            if (cells := self._cells(lane)) is not None:
                line["coverage"] = healthy.size / np.isfinite(cells).all(axis=1).sum()
            if sensitivity.size:
                line["sensitivity"] = spread(self._sections, sensitivity[place])
            metrics.append(plain({**line, **{name: share for name, share in shares.items() if name not in line}}))
        state.clear_tallies()
        for observer in self._observers:
            observer.interval(metrics)
            for place, lane in enumerate(lanes if sensitivity.size else ()):
                observer.sensitivity(first + lane, int(evaluations[lane]), sensitivity[place])
        if state.behavior.shape[0]:
            behavior = state.behavior.numpy()
            for lane in lanes:
                snapshot = self._snapshot(first, lane, behavior[lane], fitness[lane])
                for observer in self._observers:
                    observer.population(snapshot)

    def _snapshot(self, first: int, lane: int, behavior: np.ndarray, fitness: np.ndarray) -> Snapshot:
        names, cells = getattr(self._engine.domain, "behavior_names", ()), self._cells(lane)
        if cells is not None:  # places may be empty
            behavior = np.where(np.isfinite(fitness)[:, None], behavior, np.nan)
        done = int(self._engine.state.evaluations.numpy()[lane])
        return Snapshot(first + lane, done, behavior, fitness, tuple(names), cells)

    def _cells(self, lane: int) -> np.ndarray | None:
        return self._engine.selector.cells(tf.nest.map_structure(lambda v: v[lane].numpy(), self._engine.state.memory))

    def _probe(self, lanes: list[int]) -> tuple[np.ndarray, np.ndarray]:
        width = self._engine.plan.width
        padded = tf.constant((lanes + lanes[:1] * width)[:width], tf.int32)
        traces, began = self._engine.probe.traces, time.perf_counter()
        divergence, sensitivity = (found.numpy() for found in self._engine.probe(padded, self._probes))
        if self._engine.probe.traces > traces:
            self._pace.compiled(time.perf_counter() - began)
        return divergence, sensitivity

    def _tell_best(self, first: int, lanes: list[int]) -> None:
        """Tell of the runs whose champion is another than when it was last told of."""
        state = self._engine.state
        solved, fitness = state.solved.numpy(), state.champion_fitness.numpy()
        for lane in lanes:
            run, standing = first + lane, (bool(solved[lane]), float(fitness[lane]))
            if standing <= self._standing.get(run, (False, float("-inf"))):
                continue
            self._standing[run] = standing
            genome = state.champion.gather_nd([[lane]]).numpy()[0]
            for observer in self._observers:
                observer.best(run, int(state.evaluations.numpy()[lane]), standing[1], genome)

    def _end(self, first: int, lane: int) -> None:
        state = self._engine.state
        result = RunResult(
            run=first + lane,
            seed=self._seed,
            solved=bool(state.solved.numpy()[lane]),
            evaluations=int((state.solved_at if state.solved.numpy()[lane] else state.evaluations).numpy()[lane]),
            best_fitness=float(state.best_fitness.numpy()[lane]),
            champion_fitness=float(state.champion_fitness.numpy()[lane]),
            champion=state.champion.gather_nd([[lane]]).numpy()[0],
        )
        self._results.append(result)
        for observer in self._observers:
            if result.solved:
                observer.solved(result.run, result.evaluations)
            observer.finished(result)

    def _check_healthy(self, first: int, count: int) -> None:
        healthy = np.isfinite(self._engine.state.fitness.numpy()[:count]).any(axis=1)
        solved = self._engine.state.solved.numpy()[:count]
        for lane in np.flatnonzero(~healthy & ~solved):
            raise TfsmError(
                f"run {first + lane}: none of the {self._engine.selector.beginners} initial networks has a finite "
                "fitness; their outputs are NaN or infinite"
            )

    def _tell(self, first: int, count: int, phase: str) -> None:
        state = self._engine.state
        ended = sum(result.evaluations for result in self._results)
        going = [lane for lane in range(count) if first + lane >= 0 and not self._has_ended(first + lane)]
        spent = int(state.evaluations.numpy()[going].sum()) if going else 0
        best = [result.best_fitness for result in self._results] + [float(state.best_fitness.numpy()[i]) for i in going]
        progress = Progress(
            runs=self._runs,
            finished=len(self._results),
            solved=sum(result.solved for result in self._results),
            evaluations=ended + spent,
            budget=ended + self._budget * (self._runs - len(self._results)),
            best_fitness=max(best, default=float("-inf")),
            phase=phase,
        )
        for observer in self._observers:
            observer.progress(progress)

    def _has_ended(self, run: int) -> bool:
        return any(result.run == run for result in self._results)
