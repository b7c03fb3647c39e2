"""PyGAD: `pygad.GA` on a Keras model through `pygad.kerasga`, as its documentation does it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pygad
import pygad.kerasga
import tensorflow as tf

from benchmarks.rivals.problem import BITS, DEVIATION, ODD, POPULATION, TINY, Side, Sides, initial

ABOUT = "pygad.GA (best half are parents, Gaussian mutation, no crossover), fitness by pygad.kerasga.predict"
FAST = "the same GA; the fitness function calls model.set_weights and a tf.function of the model instead"


def model() -> keras.Model:
    layers = keras.layers
    recurrent = [layers.SimpleRNN(20, return_sequences=True), layers.SimpleRNN(20)]
    return keras.Sequential([keras.Input((4, 1)), *recurrent, layers.Dense(2, activation="softmax")])


def mutation(offspring: np.ndarray, ga: Any) -> np.ndarray:
    return offspring + DEVIATION * np.random.standard_normal(offspring.shape)  # noqa: NPY002  (PyGAD seeds this one)


def log_likelihood(probabilities: np.ndarray) -> float:
    return float(np.log(np.maximum(probabilities[np.arange(16), ODD], TINY)).mean())


def sides(quick: bool) -> Sides:
    population = 50 if quick else POPULATION  # it takes as long for each of them, whatever their number
    network, sequences = model(), BITS[..., None]
    compiled = tf.function(lambda x: network(x, training=False))

    def documented(ga: Any, solution: np.ndarray, index: Any) -> float:
        return log_likelihood(pygad.kerasga.predict(model=network, solution=solution, data=sequences))

    def tuned(ga: Any, solution: np.ndarray, index: Any) -> float:
        network.set_weights(pygad.kerasga.model_weights_as_matrix(network, solution))
        return log_likelihood(compiled(sequences).numpy())

    tuned(None, initial(1)[0], 0)  # compile
    return Sides(
        lambda genomes: np.array([documented(None, genome, 0) for genome in genomes]),
        {
            "PyGAD": Side(*generation(documented, population), ABOUT, heavy=True),
            "PyGAD, compiled model": Side(*generation(tuned, population), FAST, heavy=True),
        },
    )


def generation(fitness: Callable[[Any, np.ndarray, Any], float], population: int) -> tuple[Callable[[], object], int]:
    """Return a call that evaluates a population and one generation after it, and how many evaluations that makes."""
    algorithm = {
        "num_generations": 1,
        "num_parents_mating": population // 2,
        "initial_population": initial(population),
        "crossover_type": None,
        "mutation_type": mutation,
        "keep_elitism": 1,
        "suppress_warnings": True,
        "random_seed": 0,
    }
    counted: list[int] = []

    def free(ga: Any, solution: np.ndarray, index: Any) -> float:
        counted.append(1)
        return float(solution[0])

    # How often PyGAD evaluates is for it to say: it remembers the fitness of the best.
    pygad.GA(fitness_func=free, **algorithm).run()
    return lambda: pygad.GA(fitness_func=fitness, **algorithm).run(), len(counted)
