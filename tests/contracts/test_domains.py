from __future__ import annotations

import importlib.util

import numpy as np
import pytest
import tensorflow as tf

from tests.contracts.parts import entries, genomes_for, network_of, no_global_randomness, part, seeds
from tfsm.contracts import Evaluation
from tfsm.kernels.frames import dense
from tfsm.models.network import Network
from tfsm.registry import Entry

NEEDS = {"ple": "ple"}
"""Modules without which a domain has no network; `tests/domains/ple` holds it to these contracts on a stand-in."""


def marks(name: str) -> list[pytest.MarkDecorator]:
    module = NEEDS.get(name)
    missing = module is not None and importlib.util.find_spec(module) is None
    return [pytest.mark.skipif(missing, reason=f"{module} is not installed")]


EVERY = [pytest.param(entry, id=entry.name, marks=marks(entry.name)) for entry in entries("domain")]
B = 3


def evaluated(entry: Entry, genomes: tf.Tensor, seed: tf.Tensor) -> Evaluation:
    domain = part(entry)
    if getattr(domain, "compiled", True):
        return domain.evaluate(network_of(entry), genomes, seed)
    return domain.evaluate(network_of(entry), genomes.numpy(), seed.numpy())


@pytest.mark.parametrize("entry", EVERY)
def test_an_evaluation_has_the_shapes_of_the_contract(entry: Entry) -> None:
    found = evaluated(entry, genomes_for(network_of(entry), B), seeds(B))
    assert isinstance(found, Evaluation)
    assert np.shape(found.fitness) == np.shape(found.solved) == (B,)
    assert np.asarray(found.solved).dtype == bool
    assert np.ndim(found.behavior) == 2
    assert np.shape(found.behavior)[0] == B
    assert np.isfinite(found.fitness).all()
    assert np.isfinite(found.behavior).all()
    for leaf in tf.nest.flatten(found.experience):
        assert np.shape(leaf)[0] == B


@pytest.mark.parametrize("entry", EVERY)
def test_a_batch_is_evaluated_as_one_after_another(entry: Entry) -> None:
    genomes, seed = genomes_for(network_of(entry), B), seeds(B)
    together = evaluated(entry, genomes, seed)
    for b in range(B):
        alone = evaluated(entry, genomes[b : b + 1], seed[b : b + 1])
        for mine, theirs in zip(tf.nest.flatten(alone), tf.nest.flatten(together), strict=True):
            np.testing.assert_allclose(np.asarray(mine)[0], np.asarray(theirs)[b], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("entry", EVERY)
def test_the_same_seed_gives_the_same_evaluation(entry: Entry) -> None:
    genomes = genomes_for(network_of(entry), B)
    first, second = (evaluated(entry, genomes, seeds(B)) for _ in range(2))
    for mine, theirs in zip(tf.nest.flatten(first), tf.nest.flatten(second), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("entry", EVERY)
def test_a_broken_genome_has_no_finite_fitness_and_solves_nothing(entry: Entry, bad: float) -> None:
    network = network_of(entry)
    genomes = genomes_for(network, B).numpy()
    genomes[1] = bad
    found = evaluated(entry, tf.constant(genomes), seeds(B))
    if np.isnan(bad):
        assert not np.isfinite(np.asarray(found.fitness)[1])
    assert not np.asarray(found.solved)[1]
    assert np.isfinite(np.asarray(found.fitness)[[0, 2]]).all()


@pytest.mark.parametrize("entry", EVERY)
def test_what_is_observed_can_be_shown_to_the_network(entry: Entry) -> None:
    network, domain = network_of(entry), part(entry)
    genomes = genomes_for(network, B)
    found = evaluated(entry, genomes, seeds(B))
    seen = domain.observe(tf.nest.map_structure(tf.convert_to_tensor, found.experience))
    for leaf, wanted in zip(tf.nest.flatten(dense(seen)), network.model.inputs, strict=True):
        assert leaf.shape[0] in (1, B)
        assert all(want in (None, have) for want, have in zip(wanted.shape[1:], leaf.shape[2:], strict=True))
        assert np.isfinite(leaf).all()
    rows = network.rows(genomes, seen)
    assert rows.shape[0] == B
    assert np.isfinite(rows).all()


@pytest.mark.parametrize("entry", EVERY)
def test_no_global_generator_is_touched(entry: Entry) -> None:
    genomes = genomes_for(network_of(entry), B)
    with no_global_randomness():
        evaluated(entry, genomes, seeds(B))


@pytest.mark.parametrize("entry", EVERY)
def test_a_default_network_is_built_and_is_another_one_each_time(entry: Entry) -> None:
    first, second = part(entry).network(), part(entry).network()
    assert first is not second
    assert first.built
    assert Network(first).size == Network(second).size


@pytest.mark.parametrize("entry", EVERY)
def test_genomes_do_not_all_fare_alike(entry: Entry) -> None:
    found = evaluated(entry, genomes_for(network_of(entry), 8), seeds(8))
    assert len(np.unique(np.round(np.asarray(found.fitness), 6))) > 1
