"""Truncation selection, against plain lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.selections.populations import (
    apply_admission,
    build_scheme,
    make_candidate,
    make_context,
    make_population,
    seeds,
)
from tfsm.abilities import Candidate
from tfsm.errors import TfsmError


class Plain:
    """Generations as plain lists: the best T of a generation are the parents of the next."""

    def __init__(self, first: list[float], parents: int, elites: int) -> None:
        self.number, self.parents, self.elites = len(first), parents, elites
        self.breeders = self.best(first)
        self.young: list[float] = []

    def best(self, fitness: list[float]) -> list[float]:
        return sorted((f for f in fitness if np.isfinite(f)), reverse=True)[: self.parents]

    def born(self, fitness: float) -> None:
        self.young.append(fitness)
        if len(self.young) == self.number - self.parents:
            self.breeders = self.best(self.young + self.breeders[: self.elites])
            self.young = []


@pytest.mark.sample(3)
@pytest.mark.parametrize(("parents", "elites"), [(3, 1), (1, 1), (4, 2), (5, 5)])
def test_generations_agree_with_plain_lists(parents: int, elites: int) -> None:
    random = np.random.default_rng(parents)
    part: Any = build_scheme("truncation", parents=parents, elites=elites)
    population = make_population(part, np.full((1, 9), -np.inf))
    first = random.standard_normal(9).astype(np.float32).tolist()
    for i, fitness in enumerate(first):
        candidate = make_candidate([fitness], slot=i)
        population = apply_admission(population, candidate, part.admit(population, candidate, seeds(1)))
    twin = Plain(first, parents, elites)
    for number in range(40):
        choice = part.select(population, seeds(1, number))
        breeding = population.fitness.numpy()[0, population.state["parents"].numpy()[0]]
        known = int(population.state["breeders"][0])
        np.testing.assert_allclose(np.sort(breeding[:known])[::-1], twin.breeders, rtol=1e-6)
        assert population.fitness.numpy()[0, int(choice.parent[0])] in breeding[:known]
        fitness = -np.inf if number % 7 == 3 else float(np.float32(random.standard_normal()))  # some are broken
        candidate = make_candidate([fitness], slot=int(choice.replaced[0]))
        population = apply_admission(population, candidate, part.admit(population, candidate, seeds(1)))
        twin.born(fitness)


def test_a_generation_at_once_is_the_same_as_one_by_one() -> None:
    """Also where some children are broken, some do not count, and one of two populations completes its generation."""
    part: Any = build_scheme("truncation", parents=3)
    population = make_population(part, np.zeros((2, 9)))
    population = population._replace(state={**population.state, "size": tf.constant([4, 6])})
    random = np.random.default_rng(1)
    fitness = random.standard_normal((5, 2)).astype(np.float32)
    fitness[1, 0] = fitness[3, 1] = -np.inf
    counted = np.ones((5, 2), bool)
    counted[2, 0] = counted[4, 1] = False
    behavior, cases = tf.zeros([5, 2, 2]), tf.zeros([5, 2, 0])
    candidates = Candidate(tf.constant(fitness), behavior, cases, tf.zeros([5, 2], tf.int32))
    together = part.admit_generation(population, candidates, tf.constant(counted))
    for turn in range(5):
        slot = part.select(population, seeds(2, turn)).replaced.numpy()
        candidate = make_candidate(fitness[turn], slot=slot)
        admission = part.admit(population, candidate, seeds(2))
        np.testing.assert_array_equal(together.slot.numpy()[turn][counted[turn]], slot[counted[turn]])
        kept = tf.nest.map_structure(
            lambda new, old, live=counted[turn]: tf.stack([(new if live[b] else old)[b] for b in range(2)]),
            admission.state,
            population.state,
        )
        accepted = tf.constant(admission.accepted.numpy() & counted[turn])
        admission = admission._replace(accepted=accepted, state=kept)
        population = apply_admission(population, candidate, admission)
    tf.nest.map_structure(np.testing.assert_array_equal, together.state, population.state)
    assert int(population.state["born"][0]) == 0, "the first population has completed its generation"
    assert int(population.state["born"][1]) == 4


def test_a_generation_of_broken_children_leaves_the_elites() -> None:
    part = build_scheme("truncation", parents=2)
    population = make_population(part, np.full((1, 4), -np.inf))
    for i in range(4):
        candidate = make_candidate([float(i)], slot=i)
        population = apply_admission(population, candidate, part.admit(population, candidate, seeds(1)))
    for _ in range(2):
        choice = part.select(population, seeds(1))
        candidate = make_candidate([-np.inf], slot=int(choice.replaced[0]))
        population = apply_admission(population, candidate, part.admit(population, candidate, seeds(1)))
    assert int(population.state["breeders"][0]) == 1
    for number in range(20):
        assert float(population.fitness[0, int(part.select(population, seeds(1, number)).parent[0])]) == 3.0


@pytest.mark.slow
def test_all_parents_are_equally_likely() -> None:
    lanes = 600
    part = build_scheme("truncation", parents=3)
    population = make_population(part, np.full((lanes, 5), -np.inf))
    for i in range(5):
        candidate = make_candidate(np.full(lanes, float(i)), slot=i)
        population = apply_admission(population, candidate, part.admit(population, candidate, seeds(lanes)))
    shares = np.bincount(part.select(population, seeds(lanes)).parent.numpy(), minlength=5) / lanes
    np.testing.assert_allclose(shares, [0, 0, 1 / 3, 1 / 3, 1 / 3], atol=5 * np.sqrt(0.25 / lanes))


@pytest.mark.parametrize(("population", "parents", "elites"), [(5, 5, 1), (5, 2, 3)])
def test_inconsistent_sizes_are_rejected(population: int, parents: int, elites: int) -> None:
    with pytest.raises(TfsmError, match=f"a population of {population}, {parents} parents and {elites} elites"):
        build_scheme("truncation", parents=parents, elites=elites).init(make_context(population))
