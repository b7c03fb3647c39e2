"""Convolutional LSTMs: every combination of options agrees with Keras, and its gradients are right."""

from __future__ import annotations

import itertools
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers as kl

from tests.models.plain import drawn, genomes_of, run
from tfsm.models.network import Network

B, N = 2, 3
OPTIONS = {
    f"{padding}, {placing}, {'' if bias else 'no '}bias, {'all' if sequences else 'last'}, T={times}"
    f"{', backwards' if backwards else ''}": {
        "padding": padding,
        **{"plain": {}, "strided": {"strides": (2, 1)}, "dilated": {"dilation_rate": (1, 2)}}[placing],
        "use_bias": bias,
        "return_sequences": sequences,
        "go_backwards": backwards,
        "times": times,
    }
    for padding, placing, (bias, sequences, backwards, times) in itertools.product(
        ("valid", "same"),
        ("plain", "strided", "dilated"),
        ((True, False, False, 3), (False, True, True, 3), (True, True, False, 5), (False, False, True, 6)),
    )
}
"""Lengths on both sides of where time is no longer unrolled."""


def make_model(dtype: str, *, times: int, **options: Any) -> keras.Model:
    layer = kl.ConvLSTM2D(2, (2, 3), dtype=dtype, **options)
    return keras.Sequential([keras.Input((times, 5, 6, 2), dtype=dtype), layer])


@pytest.mark.sample(9)
@pytest.mark.parametrize("name", OPTIONS)
def test_every_combination_agrees_with_keras(name: str) -> None:
    # In float64, so that rounding hides no error; `architectures` has the same layer in float32.
    model = make_model("float64", **OPTIONS[name])
    network, genomes = Network(model), genomes_of(model, B)
    assert network.program.native
    x = drawn(B, N, *model.input_shape[1:], dtype="float64")
    (found,) = network.call(tf.constant(genomes), tf.constant(x))
    for b, genome in enumerate(genomes):
        np.testing.assert_allclose(found[b], run(model, genome, [x[b]])[0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["same, strided, bias, all, T=5", "valid, dilated, no bias, last, T=6, backwards"])
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    model = make_model("float64", **OPTIONS[name])
    network, genomes = Network(model), tf.constant(genomes_of(model, 1))
    x = tf.constant(drawn(1, 2, *model.input_shape[1:], dtype="float64"))
    share = drawn(*network.rows(genomes, x).shape[1:], seed=3, dtype="float64")
    with tf.GradientTape() as tape:
        tape.watch(genomes)
        total = tf.reduce_sum(share * network.rows(genomes, x))
    steps = 1e-5 * np.concatenate([np.eye(network.size), -np.eye(network.size)])
    totals = tf.reduce_sum(share * network.rows(genomes + steps, x), axis=[1, 2]).numpy()
    expected = (totals[: network.size] - totals[network.size :]) / 2e-5
    np.testing.assert_allclose(tape.gradient(total, genomes)[0], expected, rtol=1e-6, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize(("times", "jit"), [(6, True), (4, False), (6, False)])
def test_two_layers_compile_and_genomes_are_independent_of_the_batch(times: int, jit: bool) -> None:
    model = keras.Sequential(
        [keras.Input((times, 4, 4, 1)), kl.ConvLSTM2D(2, 3, padding="same", return_sequences=True), kl.ConvLSTM2D(2, 3)]
    )
    network, genomes, x = Network(model), tf.constant(genomes_of(model, B)), tf.constant(drawn(B, N, times, 4, 4, 1))

    def summed(genomes: tf.Tensor, x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(genomes)
            rows = network.rows(genomes, x)
        return rows, tape.gradient(rows, genomes)

    compiled = tf.function(summed, jit_compile=jit, autograph=False)
    together = compiled(genomes, x)
    for b in range(B):
        for one, all_ in zip(summed(genomes[b : b + 1], x[b : b + 1]), together, strict=True):
            np.testing.assert_allclose(all_[b], one[0], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"data_format": "channels_first"}, "channels come first"),
        ({"return_state": True}, "it returns its state"),
    ],
)
def test_unsupported_options_are_named(options: dict[str, Any], why: str) -> None:
    x = keras.Input((3, 4, 4, 1))
    outputs = kl.ConvLSTM2D(1, 3, padding="same", **options)(x)
    model = keras.Model(x, outputs[0] if isinstance(outputs, list | tuple) else outputs)
    assert why in [plan.reason for plan in Network(model).program.layers]
