"""Reports runs to observers: turns the engine's state into metrics, champions and results."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import tensorflow as tf

from tfsm.evolution.admission import TALLIES
from tfsm.evolution.divergence import probe_count
from tfsm.evolution.engine import Engine
from tfsm.evolution.observers import Champion, Interval, PopulationSnapshot, Progress, RunResult
from tfsm.interfaces import Observer
from tfsm.models.genome import Section, find_sections
from tfsm.utils.files import to_json

QUANTILES = (0.05, 0.5, 0.95)
"""Of a layer's sensitivities."""


def quartiles(values: np.ndarray) -> list[float]:
    """Return minimum, quartiles and maximum of 4 n + 1 values, each of them one of the values.

    NaN counts as greater than any number.

    >>> quartiles(np.array([8.0, np.nan, 2.0, 4.0, 6.0]))
    [2.0, 4.0, 6.0, 8.0, nan]
    """
    selected: list[float] = np.sort(values)[:: (len(values) - 1) // 4].tolist()
    return selected


def spread(sections: Sequence[Section], values: np.ndarray) -> dict[str, list[float]]:
    """Return the `QUANTILES` of values `[P]`, per layer."""
    with np.errstate(invalid="ignore"):  # interpolation between infinities gives NaN, as it should
        return {section.name: np.quantile(section.of(values), QUANTILES).tolist() for section in sections}


class Reporter:
    """Reports the state of lanes to observers; lane 0 is the run `first_run`.

    Args:
        engine: the engine whose state is reported.
        seed: the experiment's seed, for the results.
        log_every: evaluations between two logged intervals.
        observers: the observers.
        width: maximum number of lanes that are logged at once; None: all lanes.
    """

    def __init__(
        self, engine: Engine, *, seed: int, log_every: int, observers: Sequence[Observer], width: int | None = None
    ) -> None:
        self._engine, self._seed, self._observers = engine, seed, observers
        self._width = width or engine.widths[0]
        self._sections = find_sections(engine.network.model)
        self._probes = tf.constant(probe_count(log_every))
        self.first_run = 0
        """The run in lane 0."""
        self.reported_champions: dict[int, tuple[bool, float]] = {}
        """The last reported champion of each run: whether it solves the task, and its fitness."""
        self._validated: dict[int, tuple[np.ndarray, dict[str, float]]] = {}
        """The last champion of each lane that was measured on validation data, and the result."""
        self._evaluations: dict[int, int] = {}
        """Evaluations of the runs that ended here."""
        self.compile_seconds = 0.0
        """Time of the first call of the probe, nearly all of it compiling."""

    def report_start(self, runs: Iterable[int]) -> None:
        """Report runs that are about to start or resume."""
        for run in runs:
            for observer in self._observers:
                observer.on_run_start(run)

    def report_progress(self, runs: range, results: Sequence[RunResult], number: int, budget: int, phase: str) -> None:
        """Report the state of all runs together.

        Args:
            runs: the runs that have lanes now.
            results: the runs that have ended.
            number: number of all runs.
            budget: maximum evaluations per run.
            phase: `compiling`, `initial population` or `evolving`.
        """
        state = self._engine.state
        ended = {result.run for result in results}
        active = [run - runs.start for run in runs if run not in ended]
        # Not the evaluations to the solution: a run may have continued after it.
        done = sum(self._evaluations.get(result.run, result.evaluations) for result in results)
        best = [result.best_fitness for result in results] + [float(state.best_fitness.numpy()[i]) for i in active]
        progress = Progress(
            runs=number,
            finished=len(results),
            solved=sum(result.solved for result in results),
            evaluations=done + (int(state.evaluations.numpy()[active].sum()) if active else 0),
            budget=done + budget * (number - len(results)),
            best_fitness=max(best, default=float("-inf")),
            phase=phase,
        )
        for observer in self._observers:
            observer.on_progress(progress)

    def report_interval(self, lanes: list[int], more: Mapping[int, Mapping[str, Any]] = MappingProxyType({})) -> None:
        """Report the interval of these lanes that ends here; their next interval begins.

        Args:
            lanes: the lanes.
            more: additional metrics by lane.
        """
        state = self._engine.state
        divergence, sensitivity = self._probe(lanes)
        tallies = {name: tally.numpy() for name, tally in state.tallies.items()}
        fitness, evaluations, behavior = state.fitness.numpy(), state.evaluations.numpy(), state.behavior.numpy()
        best = state.best_fitness.numpy()
        intervals = []
        for place, lane in enumerate(lanes):
            healthy = fitness[lane][np.isfinite(fitness[lane])]
            children = tallies["children"][lane]
            shares = {name: tally[lane] / children if children else None for name, tally in tallies.items()}
            del shares["children"]
            line = {
                "run": self.first_run + lane,
                "evaluations": evaluations[lane],
                "best_fitness": best[lane],
                "mean_fitness": healthy.mean() if healthy.size else None,
                "divergence": divergence[place].mean(),
                "divergence_quantiles": quartiles(divergence[place]),
                **{name: shares.pop(name) for name in TALLIES[1:]},
            }
            cells = self._cells(lane)
            if cells is not None:
                line["coverage"] = healthy.size / np.isfinite(cells).all(axis=1).sum()
            if sensitivity.size:
                line["sensitivity"] = spread(self._sections, sensitivity[place])
            line |= self._validate_champion(lane)
            line |= {name: share for name, share in shares.items() if name not in line}
            intervals.append(
                Interval(
                    run=self.first_run + lane,
                    evaluations=int(evaluations[lane]),
                    metrics=to_json({**line, **more.get(lane, {})}),
                    sensitivity=sensitivity[place] if sensitivity.size else None,
                    population=self._snapshot(lane, behavior[lane], fitness[lane], cells)
                    if behavior.shape[0]
                    else None,
                    champion=self._new_champion(lane),
                )
            )
        state.clear_tallies(lanes)
        for interval in intervals:
            for observer in self._observers:
                observer.on_interval(interval)

    def report_end(self, lane: int) -> RunResult:
        """Report how a run ended."""
        state = self._engine.state
        solved = bool(state.solved.numpy()[lane])
        self._evaluations[self.first_run + lane] = int(state.evaluations.numpy()[lane])
        result = RunResult(
            run=self.first_run + lane,
            seed=self._seed,
            solved=solved,
            evaluations=int((state.solved_at if solved else state.evaluations).numpy()[lane]),
            best_fitness=float(state.best_fitness.numpy()[lane]),
            champion_fitness=float(state.champion_fitness.numpy()[lane]),
            champion=state.champion.gather_nd([[lane]]).numpy()[0],
        )
        for observer in self._observers:
            observer.on_run_end(result)
        return result

    def _snapshot(
        self, lane: int, behavior: np.ndarray, fitness: np.ndarray, cells: np.ndarray | None
    ) -> PopulationSnapshot:
        names = tuple(getattr(self._engine.domain, "behavior_names", ()))
        if cells is not None:  # slots may be empty
            behavior = np.where(np.isfinite(fitness)[:, None], behavior, np.nan)
        evaluations = int(self._engine.state.evaluations.numpy()[lane])
        return PopulationSnapshot(self.first_run + lane, evaluations, behavior, fitness, names, cells)

    def _cells(self, lane: int) -> np.ndarray | None:
        return self._engine.selector.cell_centers(
            tf.nest.map_structure(lambda v: v[lane].numpy(), self._engine.state.selection_state)
        )

    def _probe(self, lanes: list[int]) -> tuple[np.ndarray, np.ndarray]:
        padded = tf.constant((lanes + lanes[:1] * self._width)[: self._width], tf.int32)
        traces, began = self._engine.probe.traces, time.perf_counter()
        divergence, sensitivity = (result.numpy() for result in self._engine.probe(padded, self._probes))
        if self._engine.probe.traces > traces:
            self.compile_seconds += time.perf_counter() - began
        return divergence, sensitivity

    def _validate_champion(self, lane: int) -> dict[str, float]:
        """Return how a run's champion does on validation data; it is measured once."""
        evaluate = self._engine.variation.evaluate
        if not evaluate.validates:
            return {}
        genome = self._engine.state.champion.gather_nd([[lane]]).numpy()[0]
        last = self._validated.get(lane)
        if last is None or not np.array_equal(last[0], genome):
            self._validated[lane] = last = (genome, evaluate.validate(genome))
        return last[1]

    def _new_champion(self, lane: int) -> Champion | None:
        """Return the champion of a run if it is another than the last one that was reported."""
        state = self._engine.state
        run = self.first_run + lane
        standing = bool(state.solved.numpy()[lane]), float(state.champion_fitness.numpy()[lane])
        if standing <= self.reported_champions.get(run, (False, float("-inf"))):
            return None
        self.reported_champions[run] = standing
        return Champion(standing[1], state.champion.gather_nd([[lane]]).numpy()[0])
