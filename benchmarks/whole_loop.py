"""Part (b): evaluations per second of the whole loop, compared with plain Keras loops of the same algorithm.

The plain loops are checked to compute what tfsm computes, and the cost of logging is measured for the control.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from benchmarks.cases import OPERATORS
from benchmarks.engines import build_endless_engine, copy_populations, make_stepper, resolve_settings, start_engine
from benchmarks.measure import (
    Effort,
    Failure,
    Quartiles,
    Timing,
    compute_rate,
    compute_ratio,
    interleave,
    require_timing,
    time_call,
)
from benchmarks.plain_loops import EagerLoop, GraphLoop, NumpyPopulation, build_task
from benchmarks.results import BenchmarkTable
from tfsm.evolution.engine import Engine
from tfsm.evolution.lockstep_loop import LockstepLoop
from tfsm.interfaces import Domain, Mutation, Observer, Tensor
from tfsm.models.network import Network
from tfsm.plugins import load_plugins
from tfsm.plugins.registry import build_part
from tfsm.settings import Settings

PlainLoop: TypeAlias = EagerLoop | GraphLoop

WIDEST = 20
DOMAINS = {"simple-washout": (WIDEST,), "parity": (1, 5, WIDEST), "hard-maze": (WIDEST,)}
"""One domain of each kind, with the numbers of runs. The other simple domains differ only in their data, and large
networks belong to parts (a) and (d). Compiling takes most of the time, so only one domain is measured at three widths.
"""
STEPS = 16
TARGETS = {"control": 16_000, "sm-g-sum": 6_000, "sm-g-so": 5_000, "sm-g-abs": 3_000, "sm-r": 2_500}
LOGGING_INTERVALS = 3
LOGGING_STEPS = 64
LOGGING_NOTE = "The loop and the bare engine take turns. Counted from the first interval, so without compiling."
AGREEMENT_GENOMES = 3
TOLERANCE = 1e-3
"""For float32 sums in different orders through a recurrent network."""
NOTES = [
    "Evaluations per second of all runs together (select, mutate, evaluate, replace) on one core, without compiling.",
    "'eager': model.set_weights, model(x) and GradientTape, one child at a time. 'tf.function': child and evaluation "
    "in one compiled call, one child at a time. Both have the same population, selection and operator.",
    "Targets for parity at 20 runs: 100 x eager, 5 x tf.function, and the rate in the column 'target'.",
]


def run(effort: Effort) -> list[BenchmarkTable]:
    table = BenchmarkTable("whole_loop", "(b) evaluations per second of the whole loop", notes=NOTES)
    agreement = BenchmarkTable("agreement", "(b) agreement of the plain loops with tfsm: largest relative difference")
    domains = {"parity": (WIDEST,)} if effort.quick else DOMAINS
    operators = ("control",) if effort.quick else OPERATORS
    for domain, widths in domains.items():
        donor = start_engine(build_endless_engine(resolve_settings(domain, "control", WIDEST)))
        for operator in operators:
            table.rows += measure_operator(domain, operator, widths, donor, effort, agreement)
            gc.collect()
    # Logging weighs more the faster the step is, so the control is the worst case.
    logging = [] if effort.quick else [measure_logging(("control",))]
    return [table, agreement, *logging]


def measure_operator(
    domain: str, operator: str, widths: tuple[int, ...], donor: Engine, effort: Effort, agreement: BenchmarkTable
) -> list[dict[str, object]]:
    candidates: dict[str, Callable[[], object]] = {}
    first_calls: dict[str, float] = {}
    for runs in widths:
        engine = copy_populations(build_endless_engine(resolve_settings(domain, operator, runs)), donor)
        candidates[str(runs)] = make_stepper(engine, STEPS)
        first_calls[str(runs)] = time_call(candidates[str(runs)])
        if engine.reuses_sensitivities and not effort.quick:
            # After a generation, the share of parents that already had a child no longer changes.
            time_call(candidates[str(runs)], -(-engine.state.population // STEPS))
    loops = build_plain_loops(resolve_settings(domain, operator, 1), donor)
    if loops:
        agreement.rows.append(
            {"domain": domain, "operator": operator, **check_agreement(domain, operator, donor, loops)}
        )
    candidates |= {name: make_plain_step(loop, donor, domain) for name, loop in loops.items()}
    results = interleave(candidates, effort)
    return [make_row(domain, operator, runs, results) | {"first call s": first_calls[str(runs)]} for runs in widths]


def make_row(domain: str, operator: str, runs: int, results: dict[str, Timing | Failure]) -> dict[str, object]:
    timing = require_timing(results, str(runs))
    work = float(runs * STEPS)
    speed = compute_rate(timing.seconds, work)
    row: dict[str, object] = {"domain": domain, "operator": operator, "runs": runs, "evaluations/s": speed}
    target = TARGETS.get(operator) if domain == "parity" and runs == WIDEST else None
    row |= {"target": target, "held": None if target is None else speed.median >= target}
    for name, minimum in (("eager", 100), ("tf.function", 5)):
        other = results.get(name)
        if isinstance(other, Timing):
            times: Quartiles = compute_ratio(other.seconds, timing.seconds, work)
            row |= {name: compute_rate(other.seconds, 1.0), f"x {name}": times}
            row[f">= {minimum}"] = times.median >= minimum if target is not None else None
        elif other is not None:
            row[name] = other.reason
    return row


def build_plain_loops(settings: Settings, donor: Engine) -> dict[str, PlainLoop]:
    """Return the plain loops for a domain, if there are any."""
    task = build_task(settings.domain)
    if task is None:
        return {}
    arguments = (task, settings.mutation, settings.intensity, settings.mutation_options)
    model = donor.network.model
    return {"eager": EagerLoop(model, *arguments), "tf.function": GraphLoop(model, *arguments)}


def make_plain_step(loop: PlainLoop, donor: Engine, domain: str) -> Callable[[], object]:
    """Return one step of a plain loop that starts from the population of run 0."""
    state = donor.state
    selection = resolve_settings(domain, "control", 1).selection
    population = NumpyPopulation(state.genomes[0].numpy(), state.fitness[0].numpy(), selection)
    return lambda: population.advance(loop.reproduce)


def check_agreement(domain: str, operator: str, engine: Engine, loops: Mapping[str, PlainLoop]) -> dict[str, float]:
    """Return the largest relative differences from tfsm; raise an error if they are too large to compare speeds."""
    plugins, settings = load_plugins(), resolve_settings(domain, operator, 1)
    part = build_part(plugins.domains[domain], settings.domain_options)
    mutation = build_part(plugins.mutations[operator], settings.mutation_options)
    genomes = engine.state.genomes[0, :AGREEMENT_GENOMES]  # [G, P]
    largest: dict[str, float] = {}
    for genome in tf.unstack(genomes):
        for quantity, difference in _compute_differences(
            part, mutation, settings, engine.network, genome, loops
        ).items():
            largest[quantity] = max(difference, largest.get(quantity, 0.0))
    for quantity, difference in largest.items():
        limit = settings.mutation_options["tolerance"] * 1.01 if quantity.endswith("divergence") else TOLERANCE
        if not difference <= limit:
            raise AssertionError(f"{domain}, {operator}, {quantity} differs from tfsm by {difference:.2g}")
    return largest


def _compute_differences(
    part: Domain,
    mutation: Mutation,
    settings: Settings,
    network: Network,
    genome: Tensor,
    loops: Mapping[str, PlainLoop],
) -> dict[str, float]:
    weights = genome.numpy()
    direction = np.random.default_rng(0).standard_normal(weights.size).astype(np.float32)
    direction /= np.linalg.norm(direction)
    fitness = np.array(part.evaluate(network, genome[None], tf.zeros([1, 2], tf.int32)).fitness[0])
    sensitivity = None
    if hasattr(mutation, "sensitivity"):
        sensitivity = mutation.sensitivity(network, genome[None], part.observe(()), tf.constant(direction[None]))[0]
    differences: dict[str, float] = {}
    for name, loop in loops.items():
        differences[f"{name}: fitness"] = _relative_difference(np.array(loop.fitness(weights)), fitness)
        if sensitivity is not None:
            differences[f"{name}: sensitivity"] = _relative_difference(
                loop.sensitivity(weights, direction), sensitivity.numpy()
            )
        if settings.mutation == "sm-r":
            differences[f"{name}: divergence"] = _relative_difference(
                _measure_divergence(loop, weights), np.array(settings.intensity)
            )
    return differences


def _measure_divergence(loop: PlainLoop, genome: np.ndarray) -> np.ndarray:
    """Return the divergence that a child of SM-R has."""
    child, _ = loop.reproduce(genome)
    moved = np.asarray(loop.outputs(genome)) - np.asarray(loop.outputs(child))
    return (moved**2).sum(axis=1).mean()


def _relative_difference(actual: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest difference relative to the largest value."""
    return float(np.abs(actual - expected).max() / max(np.abs(expected).max(), 1e-30))


class AlternatingObserver(Observer):
    """Lets the loop and the bare engine take turns, and counts the evaluations and seconds of each.

    Args:
        engine: the engine of the loop.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine, self._bare = engine, make_stepper(engine, LOGGING_STEPS)
        self._start, self._start_evaluations = 0.0, 0
        self._intervals = 0
        self.used = {"loop": [0.0, 0.0], "engine": [0.0, 0.0]}

    def on_interval(self, interval: Any) -> None:
        """Count an interval of all runs. After the first one everything is compiled."""
        self._intervals += interval.run == 0

    def take_turn(self) -> bool:
        """Measure the bare engine, and return whether to stop. Called between two steps of the loop."""
        if self._intervals > 0 and self._start:
            self._count("loop", self._count_evaluations() - self._start_evaluations, time.perf_counter() - self._start)
        if self._intervals > 0:
            self._count("engine", LOGGING_STEPS * self._engine.state.runs, time_call(self._bare))
            self._start_evaluations, self._start = self._count_evaluations(), time.perf_counter()
        return self._intervals > LOGGING_INTERVALS

    def rate(self, name: str) -> float:
        """Return evaluations per second."""
        evaluations, seconds = self.used[name]
        return evaluations / seconds

    def _count(self, name: str, evaluations: int, seconds: float) -> None:
        self.used[name][0] += evaluations
        self.used[name][1] += seconds

    def _count_evaluations(self) -> int:
        return int(self._engine.state.evaluations.numpy().sum())


def measure_logging(operators: tuple[str, ...]) -> BenchmarkTable:
    """Measure 20 runs of parity as `tfsm run` runs them, with metrics and probes, in turns with the bare engine."""
    table = BenchmarkTable(
        "logged", "(b) parity, 20 runs, with metrics at every interval as in `tfsm run`", notes=[LOGGING_NOTE]
    )
    for operator in operators:
        settings = resolve_settings("parity", operator, 20)
        engine = build_endless_engine(settings)
        turns = AlternatingObserver(engine)
        loop = LockstepLoop(
            engine,
            seed=0,
            runs=20,
            evaluations=10**7,
            log_every=settings.log_every,
            observers=[turns],
            stop=turns.take_turn,
        )
        loop.run()
        table.rows.append(
            {
                "operator": operator,
                "with logging, evaluations/s": turns.rate("loop"),
                "engine alone": turns.rate("engine"),
                "share": turns.rate("loop") / turns.rate("engine"),
                "compiling s": loop.compile_seconds,
            }
        )
    return table
