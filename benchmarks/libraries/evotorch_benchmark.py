"""EvoTorch: GeneticAlgorithm with GaussianMutation, and a fitness vectorized over the population."""

from __future__ import annotations

import logging

import evotorch
import torch
from evotorch.algorithms import GeneticAlgorithm
from evotorch.neuroevolution.net import make_functional_module
from evotorch.operators import GaussianMutation
from torch import nn

from benchmarks.libraries.problem import (
    BITS,
    DEVIATION,
    ODD,
    POPULATION,
    SHAPES,
    TINY,
    WEIGHTS,
    LibraryBenchmarks,
    TimedCall,
    draw_genomes,
)

ABOUT = (
    "GeneticAlgorithm (parents and children compete, none is evaluated twice), fitness by functional module and vmap"
)


class Recurrent(nn.Module):
    """The network, with its parameters in genome order. The RNN of torch cannot be mapped over weights."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.ParameterList([torch.zeros(shape) for shape in SHAPES])

    def forward(self, sequences: torch.Tensor) -> torch.Tensor:
        """Return the probabilities `[16, 2]`."""
        w = self.weights
        # The products with the inputs are computed for all time steps at once.
        inputs = sequences[..., None] @ w[0] + w[2]
        first = second = torch.zeros(len(sequences), 20)
        for t in range(sequences.shape[1]):
            first = torch.tanh(inputs[:, t] + first @ w[1])
            second = torch.tanh(first @ w[3] + second @ w[4] + w[5])
        return torch.softmax(second @ w[6] + w[7], dim=-1)


def make_benchmarks(quick: bool) -> LibraryBenchmarks:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    logging.getLogger("evotorch").setLevel(logging.ERROR)
    network = make_functional_module(Recurrent(), disable_autograd_tracking=True)
    sequences, odd = torch.tensor(BITS), torch.tensor(ODD)

    def evaluate(genome: torch.Tensor) -> torch.Tensor:
        likelihood = network(genome, sequences)[torch.arange(16), odd]
        return torch.log(torch.clamp(likelihood, min=TINY)).mean()

    @torch.no_grad()
    def fitness(genomes: torch.Tensor) -> torch.Tensor:
        return torch.func.vmap(evaluate)(genomes)

    start = torch.tensor(draw_genomes(POPULATION))
    problem = evotorch.Problem(
        "max", evotorch.decorators.vectorized(fitness), solution_length=WEIGHTS, initial_bounds=(-1.0, 1.0), seed=0
    )
    mutation = GaussianMutation(problem, stdev=DEVIATION)
    algorithm = GeneticAlgorithm(problem, operators=[mutation], popsize=POPULATION, re_evaluate=False)
    algorithm.population.set_values(start)
    batch = algorithm.population
    return LibraryBenchmarks(
        lambda genomes: fitness(torch.tensor(genomes)).numpy(),
        {"EvoTorch": TimedCall(algorithm.step, POPULATION, ABOUT)},
        {
            "EvoTorch: normal numbers": TimedCall(lambda: torch.randn(POPULATION, WEIGHTS), POPULATION),
            "EvoTorch: mutation": TimedCall(lambda: mutation(batch), POPULATION),
            "EvoTorch: evaluation": TimedCall(lambda: fitness(start), POPULATION),
        },
    )
