"""tfsm: its engine in lock step, and its parts in a generational algorithm like those of the other libraries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks.engines import build_endless_engine, make_stepper, resolve_settings, start_engine
from benchmarks.libraries.problem import DEVIATION, POPULATION, WEIGHTS, LibraryBenchmarks, TimedCall, draw_genomes
from tfsm.kernels.random import fold_in, gaussian, root_seed
from tfsm.models.network import Network
from tfsm.plugins import load_plugins
from tfsm.plugins.registry import build_part

GENERATIONS = 10
STEPS = 16
TRUNCATION = "`tfsm run` with truncation: population 250, a whole generation at once, {steps} generations per call"
LOCK_STEP = "steady state: {runs} runs at once, each with a population of 250, tournaments, one child at a time"
GENERATIONAL = (
    f"tfsm's operator and domain in a generational GA, {GENERATIONS} generations per call: best half are parents"
)


def make_benchmarks(quick: bool) -> LibraryBenchmarks:
    plugins = load_plugins()
    domain = build_part(plugins.domains["parity"], {})
    control = build_part(plugins.mutations["control"], {})
    network = Network(domain.network())
    seeds = fold_in(root_seed(0), tf.range(POPULATION))
    start = tf.constant(draw_genomes(POPULATION))

    def fitness(genomes: tf.Tensor) -> tf.Tensor:
        return domain.evaluate(network, genomes, seeds).fitness

    def generation(genomes: tf.Tensor, scores: tf.Tensor, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        best = tf.math.top_k(scores, POPULATION // 2, sorted=False).indices
        # Each parent has two children, so no more random numbers are drawn than in the other libraries.
        parents = tf.gather(genomes, tf.concat([best, best], axis=0))
        children = control(network, parents, (), tf.constant(DEVIATION), fold_in(seed, tf.range(POPULATION)))
        return children, fitness(children)

    @tf.function(jit_compile=True, autograph=False)
    def evolve(genomes: tf.Tensor, scores: tf.Tensor, seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        def body(i: tf.Tensor, genomes: tf.Tensor, scores: tf.Tensor) -> tuple[tf.Tensor, ...]:
            return i + 1, *generation(genomes, scores, fold_in(seed, i))

        return tf.while_loop(lambda i, *_: i < GENERATIONS, body, (tf.constant(0), genomes, scores))[1:]

    evaluate = tf.function(fitness, jit_compile=True, autograph=False)
    current: dict[str, Any] = {"genomes": start, "scores": evaluate(start), "call": 0}

    def advance() -> None:
        current["call"] += 1
        seed = fold_in(root_seed(1), current["call"])
        current["genomes"], current["scores"] = evolve(current["genomes"], current["scores"], seed)
        current["scores"].numpy()

    noise = tf.function(lambda seeds: gaussian(seeds, WEIGHTS), jit_compile=True, autograph=False)
    return LibraryBenchmarks(
        lambda genomes: _evaluate_padded(evaluate, genomes),
        {
            "tfsm, generational": TimedCall(advance, POPULATION * GENERATIONS, GENERATIONAL),
            "tfsm, truncation": make_truncation_call(),
            **{f"tfsm, {runs} runs": make_lockstep_call(runs) for runs in (() if quick else (20, POPULATION))},
        },
        {
            "tfsm: normal numbers": TimedCall(lambda: noise(seeds).numpy(), POPULATION),
            "tfsm: evaluation": TimedCall(lambda: evaluate(start).numpy(), POPULATION),
        },
    )


def make_truncation_call() -> TimedCall:
    engine = start_engine(build_endless_engine(resolve_settings("parity", "control", 1, selection="truncation")))
    about = TRUNCATION.format(steps=GENERATIONS)
    return TimedCall(make_stepper(engine, GENERATIONS), engine.batches.size * GENERATIONS, about)


def make_lockstep_call(runs: int) -> TimedCall:
    engine = start_engine(build_endless_engine(resolve_settings("parity", "control", runs)))
    return TimedCall(make_stepper(engine, STEPS), runs * STEPS, LOCK_STEP.format(runs=runs))


def _evaluate_padded(evaluate: Callable[[tf.Tensor], tf.Tensor], genomes: np.ndarray) -> np.ndarray:
    """Evaluate fewer genomes than the function is compiled for."""
    wide = np.concatenate([genomes, np.zeros((POPULATION - len(genomes), WEIGHTS), np.float32)])
    return evaluate(tf.constant(wide)).numpy()[: len(genomes)]
