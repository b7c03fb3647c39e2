"""PyGAD: `pygad.GA` on a Keras model through `pygad.kerasga`, as in its documentation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pygad
import pygad.kerasga
import tensorflow as tf

from benchmarks.libraries.problem import (
    BITS,
    DEVIATION,
    ODD,
    POPULATION,
    TINY,
    LibraryBenchmarks,
    TimedCall,
    draw_genomes,
)

ABOUT = "pygad.GA (best half are parents, Gaussian mutation, no crossover), fitness by pygad.kerasga.predict"
FAST = "the same GA; the fitness function calls model.set_weights and a tf.function of the model instead"


def build_model() -> keras.Model:
    layers = keras.layers
    recurrent = [layers.SimpleRNN(20, return_sequences=True), layers.SimpleRNN(20)]
    return keras.Sequential([keras.Input((4, 1)), *recurrent, layers.Dense(2, activation="softmax")])


def mutate(offspring: np.ndarray, ga: Any) -> np.ndarray:
    return offspring + DEVIATION * np.random.standard_normal(offspring.shape)  # noqa: NPY002  (PyGAD seeds this one)


def compute_log_likelihood(probabilities: np.ndarray) -> float:
    return float(np.log(np.maximum(probabilities[np.arange(16), ODD], TINY)).mean())


def make_benchmarks(quick: bool) -> LibraryBenchmarks:
    population = 50 if quick else POPULATION  # the time per individual does not depend on their number
    network, sequences = build_model(), BITS[..., None]
    compiled = tf.function(lambda x: network(x, training=False))

    def documented(ga: Any, solution: np.ndarray, index: Any) -> float:
        return compute_log_likelihood(pygad.kerasga.predict(model=network, solution=solution, data=sequences))

    def tuned(ga: Any, solution: np.ndarray, index: Any) -> float:
        network.set_weights(pygad.kerasga.model_weights_as_matrix(network, solution))
        return compute_log_likelihood(compiled(sequences).numpy())

    tuned(None, draw_genomes(1)[0], 0)  # compile
    return LibraryBenchmarks(
        lambda genomes: np.array([documented(None, genome, 0) for genome in genomes]),
        {
            "PyGAD": TimedCall(*make_generation(documented, population), ABOUT, heavy=True),
            "PyGAD, compiled model": TimedCall(*make_generation(tuned, population), FAST, heavy=True),
        },
    )


def make_generation(
    fitness: Callable[[Any, np.ndarray, Any], float], population: int
) -> tuple[Callable[[], object], int]:
    """Return a call that evaluates a population and its next generation, and the number of its evaluations."""
    algorithm = {
        "num_generations": 1,
        "num_parents_mating": population // 2,
        "initial_population": draw_genomes(population),
        "crossover_type": None,
        "mutation_type": mutate,
        "keep_elitism": 1,
        "suppress_warnings": True,
        "random_seed": 0,
    }
    evaluations: list[int] = []

    def count(ga: Any, solution: np.ndarray, index: Any) -> float:
        evaluations.append(1)
        return float(solution[0])

    # PyGAD remembers the fitness of the best, so its evaluations are counted in a run with a trivial fitness.
    pygad.GA(fitness_func=count, **algorithm).run()
    return lambda: pygad.GA(fitness_func=fitness, **algorithm).run(), len(evaluations)
