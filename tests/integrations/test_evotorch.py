"""The operator in EvoTorch's own algorithm."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'tfsm[evotorch]'")
pytest.importorskip("evotorch", reason="evotorch is not installed: pip install 'tfsm[evotorch]'")

import torch
from evotorch import Problem
from evotorch.algorithms import GeneticAlgorithm

import tfsm
from tests.integrations.networks import SEEN, make_network
from tfsm.errors import TfsmError
from tfsm.integrations.evotorch import SafeMutation

pytestmark = pytest.mark.filterwarnings("ignore")  # of these libraries
MODEL = make_network()
SIZE = tfsm.flatten(MODEL).size


def make_problem(size: int = SIZE, **options: Any) -> Problem:
    def compute_norm(values: Any) -> Any:
        return -values.square().sum(dim=-1)

    return Problem("max", compute_norm, vectorized=True, solution_length=size, initial_bounds=(-1, 1), **options)


def test_children_have_the_divergence_and_parents_stay() -> None:
    problem = make_problem(seed=1)
    batch = problem.generate_batch(4)
    before = batch.values.clone()
    children = SafeMutation(problem, model=MODEL, experience=SEEN, divergence=0.02)(batch)
    assert torch.equal(batch.values, before)
    moved = tfsm.functional.divergence(MODEL, before.numpy(), children.values.numpy(), SEEN)
    np.testing.assert_allclose(moved, 0.02, rtol=0.06)


def test_the_seed_of_the_problem_determines_everything() -> None:
    found = []
    for seed in (1, 1, 2):
        problem = make_problem(seed=seed)
        operator = SafeMutation(problem, model=MODEL, experience=lambda: SEEN, mutation="sm-r", intensity=0.1)
        searcher = GeneticAlgorithm(problem, operators=[operator], popsize=6, elitist=True, re_evaluate=False)
        searcher.run(3)
        found.append(float(searcher.status["best_eval"]))
    assert found[0] == found[1] != found[2]


def test_bounds_are_respected() -> None:
    problem = make_problem(seed=1, bounds=(-0.2, 0.2))
    children = SafeMutation(problem, model=MODEL, experience=SEEN, intensity=5.0, mutation="control")(
        problem.generate_batch(4)
    )
    assert children.values.abs().max() <= 0.2


def test_a_problem_of_other_genomes_is_refused() -> None:
    with pytest.raises(TfsmError, match=f"^the problem's solution_length is 4, but the model has {SIZE} weights$"):
        SafeMutation(make_problem(4), model=MODEL, experience=SEEN)
