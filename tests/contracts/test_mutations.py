from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers as kl

from tests.contracts.parts import entries, genomes_for, no_global_randomness, part, seeds
from tfsm.contracts import Child
from tfsm.evolution.mapping import as_child, mutated
from tfsm.kernels.divergence import divergence
from tfsm.kernels.guards import bounded
from tfsm.kernels.line_search import search
from tfsm.kernels.noise import gaussian, split
from tfsm.kernels.sampling import sample_experiences
from tfsm.kernels.sensitivity import abs_sensitivity, hessian_product, sum_sensitivity
from tfsm.models.network import Network
from tfsm.registry import Entry

EVERY = [pytest.param(entry, id=entry.name) for entry in entries("mutation")]


@pytest.fixture(scope="module")
def network() -> Network:
    return Network(keras.Sequential([keras.Input((3,)), kl.Dense(4, "tanh"), kl.Dense(2, "sigmoid")]))


@pytest.fixture(scope="module")
def experience() -> tf.Tensor:
    return tf.constant(np.random.default_rng(3).standard_normal((2, 5, 3)), tf.float32)


def child(entry: Entry, network: Network, experience: tf.Tensor, intensity: float = 0.05, first: int = 0) -> Child:
    parents = genomes_for(network, 2)
    return mutated(part(entry), network, parents, experience, tf.constant(intensity), seeds(2, first))


@pytest.mark.parametrize("entry", EVERY)
def test_zero_intensity_returns_the_parent(entry: Entry, network: Network, experience: tf.Tensor) -> None:
    np.testing.assert_array_equal(child(entry, network, experience, 0.0).genome, genomes_for(network, 2))


@pytest.mark.parametrize("entry", EVERY)
def test_the_same_seed_gives_the_same_child(entry: Entry, network: Network, experience: tf.Tensor) -> None:
    first, second = (child(entry, network, experience).genome for _ in range(2))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("entry", EVERY)
def test_different_seeds_give_different_children(entry: Entry, network: Network, experience: tf.Tensor) -> None:
    drawn = [child(entry, network, experience, first=i).genome.numpy() for i in (0, 2)]
    changes = np.concatenate(drawn) - np.tile(genomes_for(network, 2), (2, 1))
    assert np.abs(changes).max(axis=1).min() > 0
    assert len({change.round(6).tobytes() for change in changes}) == 4


@pytest.mark.parametrize("entry", EVERY)
def test_children_have_their_parents_shape_and_type_and_are_finite(
    entry: Entry, network: Network, experience: tf.Tensor
) -> None:
    for intensity in (1e-6, 0.05, 10.0):
        found = child(entry, network, experience, intensity)
        assert found.genome.shape == (2, network.size)
        assert found.genome.dtype == network.dtype
        assert np.isfinite(found.genome).all()
        for value in found.diagnostics.values():
            assert value.shape == (2,)
            assert np.isfinite(value).all()


@pytest.mark.parametrize("entry", EVERY)
def test_degenerate_experience_leaves_children_finite(entry: Entry, network: Network) -> None:
    for seen in (tf.zeros([2, 1, 3]), tf.fill([2, 4, 3], 1e4), tf.fill([1, 4, 3], 1e-20)):
        assert np.isfinite(child(entry, network, seen).genome).all()


@pytest.mark.parametrize("entry", EVERY)
def test_no_global_generator_is_touched(entry: Entry, network: Network, experience: tf.Tensor) -> None:
    with no_global_randomness():
        child(entry, network, experience)


@pytest.mark.parametrize("entry", EVERY)
def test_intensity_is_a_tensor_that_a_trace_need_not_know(
    entry: Entry, network: Network, experience: tf.Tensor
) -> None:
    traced = tf.function(lambda i: mutated(part(entry), network, genomes_for(network, 2), experience, i, seeds(2)))
    for intensity in (0.0, 0.05):
        expected = child(entry, network, experience, intensity).genome
        np.testing.assert_allclose(traced(tf.constant(intensity)).genome, expected, rtol=2e-2, atol=2e-3)
    assert traced.experimental_get_tracing_count() == 1


@dataclass(frozen=True)
class Shaped:
    """An operator for one genome, out of every kernel that takes gradients."""

    batched: ClassVar[bool] = False

    def __call__(self, network: Any, parent: Any, experience: Any, intensity: Any, seed: Any) -> Any:
        assert parent.shape.rank == 1
        assert seed.shape == (2,)
        noise_seed, sample_seed = split(seed, 2)
        seen = sample_experiences(experience, 3, sample_seed)
        noise = intensity * gaussian(noise_seed, network.size, network.dtype)
        s = sum_sensitivity(network, parent, seen) + abs_sensitivity(network, parent, seen)
        return parent + noise / bounded(s + tf.abs(hessian_product(network, parent, seen, noise)), 1.0, 0.1)


@dataclass(frozen=True)
class Searching:
    """An operator for one genome that searches along a line."""

    def __call__(self, network: Any, parent: Any, experience: Any, intensity: Any, seed: Any) -> Child:
        direction = gaussian(seed, network.size, network.dtype)
        before = network.rows(parent, experience)

        def measure(magnitude: Any) -> Any:
            return divergence(before, network.rows(parent + magnitude * direction, experience))

        found = search(measure, intensity, tf.sqrt(intensity), tolerance=0.01, max_steps=8)
        return Child(parent + found.magnitude * direction, {"steps": tf.cast(found.steps, tf.float32)})


@pytest.mark.parametrize(
    ("operator", "kind", "lanes"),
    [(Shaped, "dense", 1), (Shaped, "rnn", 3), (Shaped, "mapped", 3), (Searching, "dense", 3)],
)
def test_an_operator_for_one_genome_is_mapped_over_many(operator: Any, kind: str, lanes: int) -> None:
    middle = {"dense": [], "rnn": [kl.SimpleRNN(3)], "mapped": [kl.LayerNormalization()]}[kind]
    shape = (3, 2) if kind == "rnn" else (3,)
    network = Network(keras.Sequential([keras.Input(shape), *middle, kl.Dense(2, "tanh")]))
    parents, seed, intensity = genomes_for(network, 3), seeds(3), tf.constant(0.02)
    inputs = tf.constant(np.random.default_rng(3).standard_normal((lanes, 5, *shape)), tf.float32)
    together = mutated(operator(), network, parents, inputs, intensity, seed)
    for b in range(3):
        alone = as_child(operator()(network, parents[b], inputs[min(b, lanes - 1)], intensity, seed[b]))
        np.testing.assert_allclose(together.genome[b], alone.genome, rtol=1e-3, atol=1e-5)
        assert (together.genome[b] != parents[b]).numpy().all()
        assert set(together.diagnostics) == set(alone.diagnostics)
        for name, value in together.diagnostics.items():
            assert float(value[b]) == float(alone.diagnostics[name])
