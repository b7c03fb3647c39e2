"""Safe mutations as a DEAP operator: a deep network learns parity in DEAP's own loop.

    pip install 'tfsm[deap]'
    python examples/deap_safe_mutation.py --generations 100 --seed 1

The operator is `tfsm.integrations.deap.mut_safe`, registered in a toolbox like any other: one call per individual,
compiled once. DEAP's own `mutGaussian` is run for comparison; for both, the best of three intensities is reported. See
docs/guides/your-loop.md.
"""

from __future__ import annotations

import argparse
import itertools
import random
from functools import partial
from typing import Any

import keras
import numpy as np
from deap import algorithms, base, creator, tools

import tfsm
from tfsm.integrations.deap import mut_safe

BITS, LAYERS, UNITS = 4, 5, 8
INPUTS = np.array(list(itertools.product([-1.0, 1.0], repeat=BITS)), np.float32)  # [16, 4]
TARGETS = INPUTS.prod(axis=1)


class Individual(np.ndarray):  # type: ignore[type-arg]
    """A genome with a fitness, as DEAP requires it."""

    fitness: base.Fitness

    def __deepcopy__(self, memo: dict[int, Any]) -> Individual:
        return individual(np.array(self), self.fitness)


def individual(genome: np.ndarray, fitness: base.Fitness | None = None) -> Individual:
    """Return a genome `[P]` as an individual."""
    result = genome.view(Individual)
    result.fitness = creator.Closeness(() if fitness is None else fitness.values)
    return result


def network() -> keras.Model:
    """Return a network that is deeper than necessary, so that noise in the first layers is amplified."""
    hidden = [keras.layers.Dense(UNITS, "tanh") for _ in range(LAYERS)]
    return keras.Sequential([keras.Input((BITS,)), *hidden, keras.layers.Dense(1, "tanh")])


def evolve(model: keras.Model, mutate: Any, generations: int, seed: int, population: int = 24) -> tuple[float, int]:
    """Return the best fitness (0 is perfect), and how many of the 16 inputs are classified correctly."""
    random.seed(seed)
    toolbox = base.Toolbox()
    toolbox.register("mate", lambda one, other: (one, other))
    toolbox.register("mutate", mutate)
    toolbox.register("select", tools.selBest)

    def evaluate(group: list[Individual]) -> list[tuple[float]]:
        answers = tfsm.functional.outputs(model, np.stack(group), INPUTS)[..., 0]  # [B, 16]
        return [(float(closeness),) for closeness in -np.square(answers - TARGETS).mean(axis=1)]

    # DEAP evaluates by toolbox.map(toolbox.evaluate, individuals): all of them at once.
    toolbox.register("evaluate", evaluate)
    toolbox.register("map", lambda function, group: function(list(group)))
    start = [individual(genome) for genome in tfsm.functional.initial(model, population, seed)]
    hall = tools.HallOfFame(1, similar=np.array_equal)
    algorithms.eaMuPlusLambda(
        start, toolbox, population, population, cxpb=0.0, mutpb=1.0, ngen=generations, halloffame=hall, verbose=False
    )
    answers = tfsm.functional.outputs(model, np.array(hall[0]), INPUTS)[:, 0]
    return hall[0].fitness.values[0], int((np.sign(answers) == TARGETS).sum())


def main(arguments: list[str] | None = None) -> None:
    """Evolve with both operators, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--generations", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    if not hasattr(creator, "Closeness"):
        creator.create("Closeness", base.Fitness, weights=(1.0,))
    keras.utils.set_random_seed(options.seed)
    model = network()

    def noise(deviation: float) -> Any:
        return lambda one: tools.mutGaussian(one, mu=0.0, sigma=deviation, indpb=1.0)

    def safe(intensity: float) -> Any:
        return partial(mut_safe, model=model, experience=INPUTS, mutation="sm-g-abs", intensity=intensity)

    operators = {"mutGaussian": noise, "sm-g-abs": safe}
    for name, operator in operators.items():
        results = {i: evolve(model, operator(i), options.generations, options.seed) for i in (0.01, 0.03, 0.1)}
        best = max(results, key=results.__getitem__)
        error, right = -results[best][0], results[best][1]
        print(f"{name}, intensity {best:g}: {right} of {len(INPUTS)} right, mean squared error {error:.4f}")


if __name__ == "__main__":
    main()
