from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers as kl

from tests.models.architectures import CASES, N
from tests.models.plain import drawn, genomes_of
from tfsm.kernels.sensitivity import abs_sensitivity
from tfsm.models import weights
from tfsm.models.network import Network

# A stateful layer takes no copies, whole batches only; a staircase has no gradients to compare.
TAPPED = [
    name
    for name, case in CASES.items()
    if "m" not in case.ways and not (case.copied or case.stairs or case.exact or "stateful" in name)
]


class Copied:
    """The same network without per-example gradients: each experience gets a copy of its genome."""

    has_per_example_gradients = False

    def __init__(self, network: Network) -> None:
        self.rows, self.rows_per_example = network.rows, network.rows_per_example


def both(model: keras.Model, inputs: list[Any], lanes: int = 2) -> tuple[np.ndarray, np.ndarray]:
    network, genomes = Network(model), tf.constant(genomes_of(model, lanes))
    assert network.has_per_example_gradients
    tensors = [tf.constant(x) for x in inputs]
    return tuple(abs_sensitivity(way, genomes, tensors).numpy() for way in (network, Copied(network)))


@pytest.mark.sample(61)
@pytest.mark.parametrize("name", TAPPED)
def test_tapped_gradients_equal_those_of_copies(name: str) -> None:
    keras.utils.set_random_seed(2)
    model = CASES[name].build()
    while len(model.outputs) == 1 and len(model.outputs[0].shape) > 2:  # one row is enough, and quicker
        model = keras.Model(model.inputs, keras.ops.mean(model.outputs[0], axis=-2))
    # The second genome has another order of inputs.
    by_products, by_copies = both(model, [np.stack([x, x[::-1]]) for x in CASES[name].inputs])
    assert (by_copies > 0).mean() > 0.5
    np.testing.assert_allclose(by_products, by_copies, rtol=2e-4, atol=1e-6)


def test_shared_inputs_equal_repeated_ones() -> None:
    model, x = CASES["gru"].build(), CASES["gru"].inputs[0]
    alone = both(model, [x[None]])
    repeated = both(model, [np.stack([x, x])])
    for found in (alone[0], repeated[0]):
        np.testing.assert_allclose(found, repeated[1], rtol=2e-4, atol=1e-6)


def test_every_row_of_an_output_is_separate() -> None:
    model = keras.Sequential([keras.Input((5, 3)), kl.LSTM(3, return_sequences=True), kl.Conv1D(2, 2)])
    by_products, by_copies = both(model, [drawn(2, N, 5, 3)])
    np.testing.assert_allclose(by_products, by_copies, rtol=2e-4, atol=1e-6)


def test_positions_may_be_processed_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    model = keras.Sequential([keras.Input((5, 3)), kl.Conv1D(2, 2), kl.Flatten(), kl.Dense(1)])
    x = [drawn(2, N, 5, 3)]
    whole, _ = both(model, x)
    monkeypatch.setattr(weights, "CHUNK_BYTES", 1)
    pieces, _ = both(model, x)
    np.testing.assert_allclose(pieces, whole, rtol=1e-5)


def test_times_folded_into_the_examples_and_back_still_belong_to_one_experience() -> None:
    x = keras.Input((5, 3))
    each = kl.Dense(2, "tanh")(keras.ops.reshape(x, (-1, 3)))
    model = keras.Model(x, kl.Dense(1)(keras.ops.reshape(each, (-1, 10))))
    by_products, by_copies = both(model, [drawn(2, N, 5, 3)])
    np.testing.assert_allclose(by_products, by_copies, rtol=2e-4, atol=1e-6)


def test_layers_of_lower_precision_are_measured_too() -> None:
    model = keras.Sequential([keras.Input((3,)), kl.Dense(4, "tanh", dtype="mixed_float16"), kl.Dense(2)])
    by_products, by_copies = both(model, [drawn(2, N, 3)])
    np.testing.assert_allclose(by_products, by_copies, rtol=5e-2, atol=1e-3)


@pytest.mark.parametrize("name", ["einsum", "embedding", "depthwise", "subclassed", "a mask as an argument"])
def test_layers_without_per_example_gradients_are_copied(name: str) -> None:
    assert not Network(CASES[name].build()).has_per_example_gradients


def test_frozen_layers_need_no_per_example_gradients() -> None:
    model = keras.Sequential([keras.Input((3,)), kl.Dense(4), kl.BatchNormalization(), kl.Dense(2)])
    model.layers[1].trainable = False
    by_products, by_copies = both(model, [drawn(2, N, 3)])
    np.testing.assert_allclose(by_products, by_copies, rtol=2e-4, atol=1e-6)
