"""Safe mutations as an EvoTorch operator: a recurrent network learns to remember its first input.

    pip install 'tfsm[evotorch]'
    python examples/evotorch_safe_mutation.py --generations 30 --seed 1

The operator `tfsm.integrations.evotorch.SafeMutation` mutates a whole `SolutionBatch` by one call, in EvoTorch's
`GeneticAlgorithm`. Its own `GaussianMutation` is run for comparison; for both, the best of three intensities is
reported. See docs/guides/your-loop.md.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable

import keras
import numpy as np
import torch
from evotorch import Problem, SolutionBatch
from evotorch.algorithms import GeneticAlgorithm
from evotorch.operators import CopyingOperator, GaussianMutation

import tfsm
from tfsm.integrations.evotorch import SafeMutation

TIMES, SEQUENCES, POPULATION = 16, 64, 24


class FirstInputProblem(Problem):
    """Return at the end of a sequence the sign of its first value.

    Args:
        model: the network to optimize.
        sequences: `[N, T, 1]`
        seed: random seed.
    """

    def __init__(self, model: keras.Model, sequences: np.ndarray, seed: int) -> None:
        self._model, self._sequences = model, sequences
        self._targets = np.sign(sequences[:, 0])
        size = tfsm.flatten(model).size
        super().__init__("max", solution_length=size, initial_bounds=(-1, 1), dtype=torch.float32, seed=seed)

    def _fill(self, values: torch.Tensor) -> None:
        seed = int(self.make_randint((), n=2**62, dtype=torch.int64))
        values[:] = torch.from_numpy(tfsm.functional.initial(self._model, len(values), seed))

    def _evaluate_batch(self, solutions: SolutionBatch) -> None:
        answers = tfsm.functional.outputs(self._model, solutions.values.numpy(), self._sequences)  # [B, N, 1]
        solutions.set_evals(torch.from_numpy(-np.square(answers - self._targets).mean(axis=(1, 2))))


def evolve(
    model: keras.Model, mutation: Callable[[Problem, np.ndarray], CopyingOperator], generations: int, seed: int
) -> float:
    """Return the lowest mean squared error."""
    sequences = np.random.default_rng(seed).standard_normal((SEQUENCES, TIMES, 1)).astype(np.float32)
    problem = FirstInputProblem(model, sequences, seed)
    # Parents compete with children, and are not evaluated again.
    searcher = GeneticAlgorithm(
        problem, operators=[mutation(problem, sequences)], popsize=POPULATION, elitist=True, re_evaluate=False
    )
    searcher.run(generations)
    return -float(searcher.status["best_eval"])


def main(arguments: list[str] | None = None) -> None:
    """Evolve with both operators, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--generations", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    logging.getLogger("evotorch").setLevel(logging.WARNING)
    keras.utils.set_random_seed(options.seed)
    model = keras.Sequential([keras.Input((TIMES, 1)), keras.layers.SimpleRNN(6), keras.layers.Dense(1, "tanh")])
    operators: dict[str, Callable[[float], Callable[[Problem, np.ndarray], CopyingOperator]]] = {
        "GaussianMutation": lambda i: lambda problem, seen: GaussianMutation(problem, stdev=i),
        "SafeMutation": lambda i: (
            lambda problem, seen: SafeMutation(problem, model=model, experience=seen, intensity=i)
        ),
    }
    for name, operator in operators.items():
        results = {i: evolve(model, operator(i), options.generations, options.seed) for i in (0.03, 0.1, 0.3)}
        best = min(results, key=results.__getitem__)
        print(f"{name}, intensity {best:g}: mean squared error {results[best]:.4f} (guessing gives 1)")


if __name__ == "__main__":
    main()
