from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers as kl

from tests.mutations.cases import GRADIENT, operator
from tfsm.evolution.variation import mutated
from tfsm.kernels.random import root_seed
from tfsm.models.network import Network

EXPERIENCES = 3
"""No multiple of any vector width: a compiler may round differently in what is left over at the end of an array."""
ALL = ("control", "sm-r", *GRADIENT)
MODELS: dict[str, tuple[tuple[int, ...], Callable[[], list[Any]]]] = {
    "dense": ((3,), lambda: [kl.Dense(6, "tanh"), kl.Dense(2, "softmax")]),
    "simple-rnn": ((4, 1), lambda: [kl.SimpleRNN(5, return_sequences=True), kl.SimpleRNN(5), kl.Dense(2)]),
    "many outputs": ((3,), lambda: [kl.Dense(4, "tanh"), kl.Dense(11, "sigmoid")]),
    "long": ((17, 2), lambda: [kl.SimpleRNN(2)]),
    "conv2d": ((6, 6, 1), lambda: [kl.Conv2D(2, 3, activation="tanh"), kl.Flatten(), kl.Dense(2)]),
    "conv-lstm2d": ((3, 9, 9, 1), lambda: [kl.ConvLSTM2D(3, 3), kl.Flatten(), kl.Dense(2)]),
    "normalized": ((3,), lambda: [kl.Dense(4), kl.LayerNormalization(), kl.Dense(2, "tanh")]),
    "mapped": ((6, 2), lambda: [kl.DepthwiseConv1D(3), kl.Flatten(), kl.Dense(2, "tanh")]),
}
COMPILED = [*(("dense", mutation) for mutation in ALL), ("many outputs", "sm-g-sum"), ("many outputs", "sm-g-abs")]

SAME_TO_THE_BIT = [("simple-rnn", "sm-g-abs"), ("conv-lstm2d", "sm-g-sum"), ("conv-lstm2d", "sm-g-abs")]


def network_of(name: str) -> tuple[Network, np.ndarray]:
    shape, layers = MODELS[name]
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input(shape), *layers()])
    return Network(model), np.random.default_rng(1).standard_normal((20, 6, *shape)).astype(np.float32)


def drawn(network: Network, lanes: int) -> tuple[tf.Tensor, tf.Tensor]:
    genomes = network.genome + 0.3 * np.random.default_rng(2).standard_normal((lanes, network.size))
    return tf.constant(genomes, tf.float32), tf.stack([root_seed(100 + i) for i in range(lanes)])


def mutate(name: str, network: Network, **how: Any) -> Callable[..., tf.Tensor]:
    part, intensity = (
        operator(name, experiences=EXPERIENCES) if name != "control" else operator(name),
        tf.constant(0.02),
    )
    return tf.function(lambda g, x, s: mutated(part, network, g, x, intensity, s).genome, **how)


@pytest.mark.parametrize("mutation", ALL[1:])
@pytest.mark.parametrize("name", MODELS)
def test_a_child_is_the_same_eager_and_traced_alone_and_among_others(name: str, mutation: str) -> None:
    network, inputs = network_of(name)
    genomes, seeds = drawn(network, 3)
    traced = mutate(mutation, network)(genomes, tf.constant(inputs[:3]), seeds).numpy()
    eager = mutate(mutation, network).python_function
    alone = eager(genomes[1:2], tf.constant(inputs[1:2]), seeds[1:2]).numpy()
    assert np.isfinite(traced).all()
    assert (traced != genomes.numpy()).mean() > 0.9
    # The line search stops where it is near enough, so that the last bit may decide on a step more.
    rtol, atol = (2e-2, 2e-3) if mutation == "sm-r" else (1e-3, 1e-5)
    np.testing.assert_allclose(alone[0], traced[1], rtol=rtol, atol=atol)


@pytest.mark.parametrize(("name", "mutation"), COMPILED)
def test_a_compiled_child_is_the_traced_one(name: str, mutation: str) -> None:
    network, inputs = network_of(name)
    genomes, seeds = drawn(network, 3)
    traced = mutate(mutation, network)(genomes, tf.constant(inputs[:3]), seeds)
    compiled = mutate(mutation, network, jit_compile=True)(genomes, tf.constant(inputs[:3]), seeds)
    rtol, atol = (2e-2, 2e-3) if mutation == "sm-r" else (1e-3, 1e-5)
    np.testing.assert_allclose(compiled, traced, rtol=rtol, atol=atol)


@pytest.mark.parametrize(("name", "mutation"), [*COMPILED[: len(ALL)], *SAME_TO_THE_BIT])
def test_compiled_children_are_the_same_to_the_bit_whoever_shares_the_batch(name: str, mutation: str) -> None:
    network, inputs = network_of(name)
    genomes, seeds = drawn(network, 20)
    compiled = mutate(mutation, network, jit_compile=True)
    together = compiled(genomes, tf.constant(inputs), seeds).numpy()
    two = compiled(genomes[4:6], tf.constant(inputs[4:6]), seeds[4:6]).numpy()
    np.testing.assert_array_equal(two, together[4:6])
    shuffled = compiled(genomes[::-1], tf.constant(inputs[::-1]), seeds[::-1]).numpy()
    np.testing.assert_array_equal(shuffled[::-1], together)


@pytest.mark.parametrize("mutation", ALL)
def test_a_shared_experience_gives_the_child_that_a_repeated_one_gives(mutation: str) -> None:
    network, inputs = network_of("dense")
    genomes, seeds = drawn(network, 3)
    call = mutate(mutation, network).python_function
    shared = call(genomes, tf.constant(inputs[:1]), seeds)
    repeated = call(genomes, tf.constant(np.repeat(inputs[:1], 3, axis=0)), seeds)
    rtol, atol = (2e-2, 2e-3) if mutation == "sm-r" else (1e-3, 1e-5)
    np.testing.assert_allclose(shared, repeated, rtol=rtol, atol=atol)
