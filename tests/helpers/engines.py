"""Build engines and run loops in one call, for tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.helpers.domains import Target
from tfsm.evolution.compile_plan import make_plan
from tfsm.evolution.engine import Engine
from tfsm.evolution.evaluation import Evaluator
from tfsm.evolution.initialization import Initializer
from tfsm.evolution.lockstep_loop import LockstepLoop
from tfsm.evolution.observers import Interval, RunResult
from tfsm.evolution.variation import Variation
from tfsm.interfaces import Observer
from tfsm.models.network import Network
from tfsm_plugins.mutations.gradient_free import Control
from tfsm_plugins.selections.steady_state import Tournament


class Recorder(Observer):
    """Records all events."""

    def __init__(self) -> None:
        self.metrics: list[dict[str, Any]] = []
        self.results: list[RunResult] = []
        self.seen: list[Any] = []
        self.champions: list[tuple[int, int, float, Any]] = []
        self.sensitivities: list[tuple[int, int, Any]] = []
        self.events: list[str] = []
        self.started: list[int] = []

    def on_progress(self, progress: Any) -> None:
        self.seen.append(progress)

    def on_interval(self, interval: Interval) -> None:
        self.metrics.append(interval.metrics)
        self.events.append(f"interval of {interval.run} at {interval.evaluations}")
        if interval.sensitivity is not None:
            self.sensitivities.append((interval.run, interval.evaluations, interval.sensitivity))
        if interval.champion is not None:
            champion = interval.champion
            self.champions.append((interval.run, interval.evaluations, champion.fitness, champion.genome))
            self.events.append(f"champion of {interval.run} at {interval.evaluations}")

    def on_run_start(self, run: int) -> None:
        self.started.append(run)

    def on_run_end(self, result: RunResult) -> None:
        self.results.append(result)
        self.events.append(f"end of {result.run} at {result.evaluations}")


def make_engine(
    domain: Any = None,
    mutation: Any = None,
    selection: Any = None,
    *,
    intensity: float = 0.1,
    population: int = 6,
    runs: int = 2,
    seed: int = 0,
    one_by_one: bool = False,
    adaptation: Any = None,
    stop_when_solved: bool = True,
    offspring: int | None = None,
    **plan: Any,
) -> Engine:
    """Return an engine for a small domain."""
    domain = domain or Target()
    network = Network(domain.network())
    chosen = replace(make_plan(network, runs=runs, population=population, **plan), one_by_one=one_by_one)
    variation = Variation(
        Evaluator(domain, network, jit=chosen.jit),
        mutation or Control(),
        intensity=intensity,
        initializer=Initializer("normal", 1.0),
        seed=seed,
        plan=chosen,
        adaptation=adaptation,
    )
    return Engine(
        variation,
        selection or Tournament(size=3),
        population=population,
        stop_when_solved=stop_when_solved,
        offspring=offspring,
    )


def evolve(
    engine: Engine,
    *,
    runs: int = 2,
    evaluations: int = 60,
    log_every: int = 20,
    seed: int = 0,
    stop: Callable[[], bool] = lambda: False,
) -> tuple[list[RunResult], Recorder]:
    """Run a loop to its end, and return the results by run and a recorder of all events."""
    recorder = Recorder()
    loop = LockstepLoop(
        engine, seed=seed, runs=runs, evaluations=evaluations, log_every=log_every, observers=[recorder], stop=stop
    )
    return sorted(loop.run(), key=lambda result: result.run), recorder
