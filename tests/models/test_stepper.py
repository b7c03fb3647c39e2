"""A recurrent network has the same outputs step by step as on whole sequences."""

from __future__ import annotations

from collections.abc import Callable

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers as kl

from tests.models.plain import drawn, genomes_of
from tests.models.test_program import pixels
from tfsm.errors import TfsmError
from tfsm.models.network import Network
from tfsm.models.rules.recurrent import DualBiasLSTMCell

T, B = 5, 3


def sequential(shape: tuple[int, ...], *layers: keras.layers.Layer) -> keras.Model:
    return keras.Sequential([keras.Input((T, *shape)), *layers])


def residual() -> keras.Model:
    x = keras.Input((T, 3))
    hidden = kl.Dense(3, "relu")(x)
    return keras.Model(x, kl.Dense(2)(kl.GRU(4, return_sequences=True)(kl.Add()([hidden, x]))))


MODELS: dict[str, Callable[[], keras.Model]] = {
    "simple rnn": lambda: sequential((3,), kl.SimpleRNN(4, return_sequences=True)),
    "two lstms": lambda: sequential((3,), *(kl.LSTM(4, return_sequences=True) for _ in range(2)), kl.Dense(2)),
    "gru and a sum": residual,
    "two biases": lambda: sequential((3,), kl.RNN(DualBiasLSTMCell(3), return_sequences=True)),
    "no memory": lambda: sequential((3,), kl.Dense(4, "tanh"), kl.Dropout(0.5), kl.Dense(2, "softmax")),
    "batch normalization": lambda: sequential(
        (3,), kl.BatchNormalization(moving_mean_initializer="ones"), kl.GRU(2, return_sequences=True)
    ),
    "pictures": lambda: pixels(T),
    "conv lstm": lambda: sequential(
        (5, 5, 1),
        kl.ConvLSTM2D(2, 3, return_sequences=True),
        kl.TimeDistributed(kl.Flatten()),
        kl.Dense(2),
    ),
}


@pytest.mark.sample(15)
@pytest.mark.parametrize("tabled", [False, True], ids=["seen", "table"])
@pytest.mark.parametrize("name", MODELS)
def test_steps_agree_with_the_whole_sequence(name: str, tabled: bool) -> None:
    model = MODELS[name]()
    network = Network(model)
    genomes = tf.constant(genomes_of(model, B))
    shape = model.input_shape[2:]
    table = drawn(4, *shape, dtype=network.dtype.name)
    index = np.random.default_rng(1).integers(0, 4, (B, T))
    whole = network.rows(genomes, tf.constant(table[index][:, None]))

    def steps() -> tf.Tensor:
        step = network.stepper(
            genomes, table=tf.constant(table) if tabled else None, observation=tf.TensorSpec(shape, network.dtype)
        )
        state, found = step.start, []
        for t in range(T):
            outputs, state = step(tf.constant(index[:, t] if tabled else table[index[:, t]]), state)
            found.append(outputs)
        return tf.stack(found, axis=1)

    np.testing.assert_allclose(tf.function(steps, autograph=False)(), whole, rtol=2e-5, atol=1e-6)


def test_small_batches_are_padded_with_copies() -> None:
    network = Network(pixels(T))
    genomes = tf.constant(genomes_of(network.model, 1))
    table = tf.constant(drawn(4, 6, 6, 1, dtype="float64"))
    step = network.stepper(genomes, table=table, min_lanes=2)
    outputs, _ = step(tf.constant([1, 1]), step.start)
    alone = network.stepper(genomes, table=table)
    assert step.lanes == 2
    np.testing.assert_allclose(outputs[0], outputs[1])
    np.testing.assert_allclose(outputs[0], alone(tf.constant([1]), alone.start)[0][0], rtol=1e-12)


@pytest.mark.parametrize(
    ("build", "why"),
    [
        (lambda: sequential((3,), kl.LSTM(4)), "not one vector per time"),
        (
            lambda: sequential((3,), kl.LSTM(4, return_sequences=True, go_backwards=True)),
            r"lstm\w* \(LSTM\) goes backwards in time",
        ),
        (lambda: sequential((3,), kl.Conv1D(2, 3, padding="causal")), "Conv1D.* may mix times.*TimeDistributed"),
        (
            lambda: sequential((3,), kl.Bidirectional(kl.LSTM(2, return_sequences=True))),
            "Bidirectional.* may mix times",
        ),
        (lambda: sequential((3,), kl.Softmax(axis=1)), "Softmax.* may mix times"),
        (lambda: sequential((3,), kl.BatchNormalization(axis=1)), "BatchNormalization.* may mix times"),
        (
            lambda: sequential((3,), kl.GRU(2, return_sequences=True, reset_after=False)),
            "no fast rule: reset_after=False",
        ),
        (
            lambda: keras.Model([a := keras.Input((T, 2)), b := keras.Input((T, 2))], kl.Dense(1)(kl.Add()([a, b]))),
            "it has 2 inputs and 1 outputs",
        ),
    ],
)
def test_a_network_that_cannot_run_step_by_step_is_refused_with_a_reason(
    build: Callable[[], keras.Model], why: str
) -> None:
    model = build()
    if not model.trainable_variables:
        model = keras.Sequential([keras.Input((T, 3)), kl.Dense(3), *model.layers])
    network = Network(model)
    with pytest.raises(TfsmError, match=f"cannot run step by step: .*{why}"):
        network.stepper(tf.constant(genomes_of(model, B)), observation=tf.TensorSpec(model.input_shape[2:]))
