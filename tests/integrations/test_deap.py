"""The operators in DEAP's own toolbox and algorithms."""

from __future__ import annotations

import array
import random
from typing import Any

import numpy as np
import pytest

pytest.importorskip("deap", reason="deap is not installed: pip install 'tfsm[deap]'")

from deap import algorithms, base, tools

import tfsm
from tests.integrations.networks import SEEN, make_network
from tfsm.errors import TfsmError
from tfsm.integrations.deap import init_genome, mut_safe, mutate_all, var_safe

MODEL = make_network()
SIZE = tfsm.flatten(MODEL).size


class Closeness(base.Fitness):  # type: ignore[misc]
    weights = (1.0,)


class Individual(list):  # type: ignore[type-arg]
    """A genome as DEAP's tutorials define it."""

    experience: Any = None

    def __init__(self, *values: Any) -> None:
        super().__init__(*values)
        self.fitness = Closeness()


def compute_divergence(parent: Any, child: Any, seen: np.ndarray) -> float:
    pair = np.array([parent, child], np.float32)
    return float(tfsm.functional.divergence(MODEL, pair[0], pair[1], seen))


@pytest.mark.parametrize("kind", [Individual, np.array, lambda values: array.array("d", values)])
def test_an_individual_is_mutated_in_place_by_the_divergence(kind: Any) -> None:
    random.seed(1)
    individual = kind(tfsm.functional.initial(MODEL, 1, seed=2)[0].tolist())
    parent = list(individual)
    (child,) = mut_safe(individual, MODEL, SEEN, divergence=0.02)
    assert child is individual
    assert compute_divergence(parent, child, SEEN) == pytest.approx(0.02, rel=0.06)


def test_the_random_numbers_are_those_of_the_module_random() -> None:
    children = []
    for seed in (1, 1, 2):
        random.seed(seed)
        individual = init_genome(Individual, MODEL)
        children.append(list(mut_safe(individual, MODEL, SEEN, intensity=0.1)[0]))
    assert children[0] == children[1] != children[2]


def test_all_children_are_made_at_once_each_on_its_own_experience() -> None:
    random.seed(1)
    population = [init_genome(Individual, MODEL) for _ in range(3)]
    for scale, individual in enumerate(population, start=1):
        individual.experience, individual.fitness.values = scale * SEEN, (0.5,)
    toolbox = base.Toolbox()
    before = [list(individual) for individual in population]
    children = var_safe(population, toolbox, MODEL, divergence=0.02)
    assert [list(individual) for individual in population] == before
    for parent, child in zip(population, children, strict=True):
        assert compute_divergence(parent, child, parent.experience) == pytest.approx(0.02, rel=0.06)
        assert parent.fitness.valid
        assert not child.fitness.valid
    assert var_safe([], toolbox, MODEL) == []


def test_an_individual_without_experience_is_an_error_and_stays_as_it_is() -> None:
    individual = init_genome(Individual, MODEL)
    before = list(individual)
    with pytest.raises(TfsmError, match=r"^an individual has no attribute 'experience'"):
        mutate_all([individual], MODEL)
    assert list(individual) == before


def test_an_algorithm_of_deap_improves_with_it() -> None:
    random.seed(1)
    target = np.sin(SEEN.sum(axis=1))
    toolbox = base.Toolbox()
    toolbox.register("individual", init_genome, Individual, MODEL)
    toolbox.register("population", tools.initRepeat, list, toolbox.individual)
    toolbox.register("mate", lambda one, other: (one, other))
    toolbox.register("mutate", mut_safe, model=MODEL, experience=SEEN, mutation="sm-g-abs", divergence="10%")
    toolbox.register("select", tools.selBest)

    def evaluate(individual: Individual) -> tuple[float]:
        outputs = tfsm.functional.outputs(MODEL, np.array(individual), SEEN)[:, 0]
        return (-float(np.square(outputs - target).mean()),)

    toolbox.register("evaluate", evaluate)
    population = toolbox.population(n=6)
    first = max(evaluate(individual) for individual in population)
    hall = tools.HallOfFame(1)
    algorithms.eaMuPlusLambda(population, toolbox, 6, 6, 0.0, 1.0, 10, halloffame=hall, verbose=False)
    assert hall[0].fitness.values > first
