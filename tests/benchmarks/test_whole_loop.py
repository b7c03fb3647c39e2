"""The plain loops and the other libraries compute what tfsm computes."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.libraries.problem import WEIGHTS, draw_genomes, reference_fitness
from benchmarks.plain_loops import NumpyPopulation, find_magnitude


@pytest.mark.parametrize("curve", [lambda m: 3 * m**2, lambda m: np.tanh(m**2), lambda m: m**2 / (1 + 50 * m)])
def test_the_plain_search_finds_the_magnitude(curve: object) -> None:
    assert curve(find_magnitude(curve, 0.3, 0.01)) == pytest.approx(0.3, rel=0.01)


def test_the_plain_tournament_selects_good_parents_and_replaces_bad_ones() -> None:
    population = NumpyPopulation(np.arange(8.0)[:, None], np.arange(8.0), "tournament")
    parents: list[float] = []
    for _ in range(50):
        population.advance(lambda parent: (parents.append(float(parent[0])), (parent, 100.0))[1])
    assert min(parents) >= 4.0  # the best of five out of eight is never one of the worst four
    assert population.fitness.min() > 0.0


def test_the_plain_hill_climber_keeps_the_better() -> None:
    population = NumpyPopulation(np.zeros((1, 1)), np.array([1.0]), "hill-climber")
    population.advance(lambda parent: (parent + 1.0, 0.5))
    assert population.genomes[0, 0] == 0.0
    population.advance(lambda parent: (parent + 2.0, 1.5))
    assert population.genomes[0, 0] == 2.0


def test_the_reference_fitness_is_that_of_tfsm() -> None:
    import tensorflow as tf

    from tfsm.models.network import Network
    from tfsm_domains.parity.parity import Parity

    genomes = draw_genomes(4)
    assert genomes.shape == (4, WEIGHTS)
    fitness = Parity().evaluate(Network(Parity().network()), tf.constant(genomes), tf.zeros([4, 2], tf.int32)).fitness
    np.testing.assert_allclose(fitness, reference_fitness(genomes), rtol=1e-5)


def test_a_plain_loop_that_computes_something_else_is_refused() -> None:
    from benchmarks.engines import build_endless_engine, resolve_settings, start_engine
    from benchmarks.whole_loop import build_plain_loops, check_agreement

    donor = start_engine(build_endless_engine(resolve_settings("simple-easy", "sm-g-abs", 2)))
    loops = build_plain_loops(resolve_settings("simple-easy", "sm-g-abs", 1), donor)
    assert max(check_agreement("simple-easy", "sm-g-abs", donor, loops).values()) < 1e-5
    wrong = loops["eager"]
    wrong.fitness = lambda genome: 0.5  # type: ignore[method-assign]
    with pytest.raises(AssertionError, match="eager: fitness differs"):
        check_agreement("simple-easy", "sm-g-abs", donor, {"eager": wrong})
