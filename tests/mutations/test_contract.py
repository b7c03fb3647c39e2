"""Operators written for one genome are mapped over a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers as kl

from tfsm.evolution.variation import as_child, mutate_batch
from tfsm.interfaces import Child
from tfsm.kernels.experience import sample_experiences
from tfsm.kernels.line_search import line_search
from tfsm.kernels.random import gaussian, split
from tfsm.kernels.sensitivity import (
    abs_sensitivity,
    divergence,
    guard_sensitivity,
    hessian_vector_product,
    sum_sensitivity,
)
from tfsm.models.network import Network
from tfsm.testing.check_mutations import genomes, seeds


@dataclass(frozen=True)
class Shaped:
    """An operator for one genome that uses every kernel with gradients."""

    batched: ClassVar[bool] = False

    def __call__(self, network: Any, parent: Any, experience: Any, intensity: Any, seed: Any) -> Any:
        assert parent.shape.rank == 1
        assert seed.shape == (2,)
        noise_seed, sample_seed = split(seed, 2)
        seen = sample_experiences(experience, 3, sample_seed)
        noise = intensity * gaussian(noise_seed, network.size, network.dtype)
        s = sum_sensitivity(network, parent, seen) + abs_sensitivity(network, parent, seen)
        return parent + noise / guard_sensitivity(
            s + tf.abs(hessian_vector_product(network, parent, seen, noise)), 1.0, 0.1
        )


@dataclass(frozen=True)
class Searching:
    """An operator for one genome that searches along a line."""

    def __call__(self, network: Any, parent: Any, experience: Any, intensity: Any, seed: Any) -> Child:
        direction = gaussian(seed, network.size, network.dtype)
        before = network.rows(parent, experience)

        def measure(magnitude: Any) -> Any:
            return divergence(before, network.rows(parent + magnitude * direction, experience))

        found = line_search(measure, intensity, tf.sqrt(intensity), tolerance=0.01, max_steps=8)
        return Child(parent + found.magnitude * direction, {"steps": tf.cast(found.steps, tf.float32)})


@pytest.mark.parametrize(
    ("operator", "kind", "lanes"),
    [
        (Shaped, "dense", 1),
        pytest.param(Shaped, "rnn", 3, marks=pytest.mark.slow),
        pytest.param(Shaped, "mapped", 3, marks=pytest.mark.slow),
        (Searching, "dense", 3),
    ],
)
def test_an_operator_for_one_genome_is_mapped_over_many(operator: Any, kind: str, lanes: int) -> None:
    middle = {"dense": [], "rnn": [kl.SimpleRNN(3)], "mapped": [kl.LayerNormalization()]}[kind]
    shape = (3, 2) if kind == "rnn" else (3,)
    network = Network(keras.Sequential([keras.Input(shape), *middle, kl.Dense(2, "tanh")]))
    parents, seed, intensity = genomes(network, 3), seeds(3), tf.constant(0.02)
    inputs = tf.constant(np.random.default_rng(3).standard_normal((lanes, 5, *shape)), tf.float32)
    together = mutate_batch(operator(), network, parents, inputs, intensity, seed)
    for b in range(3):
        alone = as_child(operator()(network, parents[b], inputs[min(b, lanes - 1)], intensity, seed[b]))
        np.testing.assert_allclose(together.genome[b], alone.genome, rtol=1e-3, atol=1e-5)
        assert (together.genome[b] != parents[b]).numpy().all()
        assert set(together.diagnostics) == set(alone.diagnostics)
        for name, value in together.diagnostics.items():
            assert float(value[b]) == float(alone.diagnostics[name])
