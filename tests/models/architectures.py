"""Models of all kinds, with inputs for them and the way that each of their layers must take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers as kl

from tests.models.plain import drawn
from tfsm.models.layers import DualBiasLSTMCell

N = 4


@dataclass(frozen=True)
class Case:
    build: Callable[[], keras.Model]
    inputs: Sequence[np.ndarray]
    ways: str
    """The ways of the layers in order: n(ative), f(olded), m(apped)."""
    heavy: bool = False
    """Whether Keras takes seconds to map it, so that one way of giving inputs must do."""


def sequential(shape: tuple[int, ...], *made: Callable[[], keras.layers.Layer], ways: str, heavy: bool = False) -> Case:
    x = drawn(N, *shape)
    return Case(lambda: keras.Sequential([keras.Input(shape), *(make() for make in made)]), [x], ways, heavy)


def functional(*shapes: tuple[int, ...], ways: str) -> Callable[[Callable[..., Any]], Case]:
    """Make a case of a function from symbolic inputs to outputs."""

    def case(outputs: Callable[..., Any]) -> Case:
        def build() -> keras.Model:
            inputs = [keras.Input(shape) for shape in shapes]
            return keras.Model(inputs if len(inputs) > 1 else inputs[0], outputs(*inputs))

        return Case(build, [drawn(N, *shape, seed=i) for i, shape in enumerate(shapes)], ways)

    return case


@keras.saving.register_keras_serializable("tests")
class Subclassed(keras.Model):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.hidden, self.normal, self.out = kl.Dense(4, "tanh"), kl.BatchNormalization(), kl.Dense(2)

    def call(self, x: Any, training: bool = False) -> Any:
        hidden = self.normal(self.hidden(x), training=training)
        return self.out(hidden) * keras.ops.sum(x, axis=-1, keepdims=True)


class Doubled(keras.Sequential):
    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        return 2.0 * super().call(inputs, training=training, mask=mask)


def subclassed() -> keras.Model:
    model = Subclassed()
    model(np.zeros((1, 3), np.float32))
    return model


def frozen() -> keras.Model:
    model = keras.Sequential(
        [keras.Input((3,)), kl.Dense(4, "tanh"), kl.Dense(4), kl.BatchNormalization(), kl.Dense(2, "tanh")]
    )
    model.layers[1].trainable = model.layers[2].trainable = False
    return model


def half_frozen() -> keras.Model:
    model = keras.Sequential([keras.Input((5, 3)), kl.LSTM(4, return_sequences=True), kl.Conv1D(2, 2), kl.Dense(2)])
    for layer in (model.layers[0].cell, model.layers[1], model.layers[2]):
        layer.kernel.trainable = False
    return model


def half_frozen_images() -> keras.Model:
    model = keras.Sequential([keras.Input((3, 4, 4, 1)), kl.ConvLSTM2D(2, 3), kl.Flatten(), kl.Dense(2)])
    model.layers[0].cell.recurrent_kernel.trainable = False
    return model


def shared_weights(x: Any) -> Any:
    shared = kl.Dense(3, "tanh")
    return kl.Dense(2)(shared(shared(x)) + shared(2.0 * x))


def nested(x: Any) -> Any:
    inner_input = keras.Input((4,))
    inner = keras.Model(inner_input, kl.Dense(4, "tanh")(inner_input) + inner_input)
    head = keras.Sequential([keras.Input((4,)), kl.Dense(3, "relu"), keras.Sequential([kl.Dense(2)])])
    return head(inner(inner(kl.Dense(4)(x))))


def by_name() -> keras.Model:
    b, a = keras.Input((3,), name="b"), keras.Input((2,), name="a")
    return keras.Model({"b": b, "a": a}, kl.Dense(2)(kl.Concatenate()([kl.Dense(3)(b), a])))


def named_outputs(x: Any) -> Any:
    hidden = kl.Dense(4, "tanh")(x)
    return {"z": kl.Dense(1)(hidden), "a": kl.Dense(3, "softmax")(hidden)}


CASES: dict[str, Case] = {
    "dense": sequential((3,), lambda: kl.Dense(5, "tanh"), lambda: kl.Dense(2, "softmax", use_bias=False), ways="nn"),
    "dense on sequences": sequential((6, 3), lambda: kl.Dense(2, "selu"), ways="n"),
    "dropout": sequential((3,), lambda: kl.Dense(5), lambda: kl.Dropout(0.9), lambda: kl.Dense(2), ways="nfn"),
    "noise": sequential((3,), lambda: kl.Dense(5), lambda: kl.GaussianNoise(1.0), ways="nf"),
    "simple rnn": sequential((5, 3), lambda: kl.SimpleRNN(4), ways="n"),
    "simple rnn, long": sequential((19, 3), lambda: kl.SimpleRNN(4, return_sequences=True), ways="n"),
    "gru": sequential((5, 3), lambda: kl.GRU(4), ways="n"),
    "gru, reset before": sequential((5, 3), lambda: kl.GRU(4, reset_after=False), ways="m"),
    "gru without bias, long": sequential((20, 3), lambda: kl.GRU(4, use_bias=False), ways="n"),
    "lstm": sequential((5, 3), lambda: kl.LSTM(4), ways="n"),
    "lstm, long": sequential((17, 3), lambda: kl.LSTM(4), lambda: kl.Dense(2), ways="nn"),
    "lstm of 16": sequential((16, 2), lambda: kl.LSTM(2, return_sequences=True), lambda: kl.LSTM(2), ways="nn"),
    "lstm, other activations": sequential(
        (5, 3), lambda: kl.LSTM(4, "relu", "hard_sigmoid", unit_forget_bias=False), ways="n"
    ),
    "backwards": sequential((5, 3), lambda: kl.GRU(4, go_backwards=True, return_sequences=True), ways="n"),
    "backwards, long": sequential((18, 3), lambda: kl.LSTM(4, go_backwards=True), ways="n"),
    "any length": Case(lambda: keras.Sequential([keras.Input((None, 3)), kl.LSTM(3)]), [drawn(N, 7, 3)], "n"),
    "conv1d": sequential((9, 3), lambda: kl.Conv1D(4, 3, strides=2, activation="relu"), ways="n"),
    "conv1d, same": sequential((9, 3), lambda: kl.Conv1D(4, 4, padding="same", strides=3), ways="n"),
    "conv1d, causal": sequential((9, 3), lambda: kl.Conv1D(4, 3, padding="causal", dilation_rate=2), ways="n"),
    "conv1d, causal and strided": sequential((9, 3), lambda: kl.Conv1D(4, 3, padding="causal", strides=2), ways="n"),
    "conv1d, grouped": sequential((9, 4), lambda: kl.Conv1D(4, 3, groups=2), ways="m"),
    "conv2d": sequential((7, 6, 2), lambda: kl.Conv2D(3, 3), lambda: kl.Flatten(), lambda: kl.Dense(2), ways="nfn"),
    "conv2d, same, strided": sequential((7, 6, 2), lambda: kl.Conv2D(3, (5, 2), (2, 3), padding="same"), ways="n"),
    "conv2d, even window": sequential((6, 6, 2), lambda: kl.Conv2D(3, 2, padding="same"), ways="n"),
    "conv2d, dilated": sequential((8, 7, 2), lambda: kl.Conv2D(3, 2, dilation_rate=(3, 2)), ways="n"),
    "conv2d, dilated, same": sequential(
        (8, 7, 2), lambda: kl.Conv2D(3, 3, dilation_rate=2, padding="same", use_bias=False), ways="n"
    ),
    "conv2d, stride beyond window": sequential((9, 9, 1), lambda: kl.Conv2D(2, 2, 3, padding="same"), ways="n"),
    "conv2d, pooled": sequential(
        (8, 8, 1), lambda: kl.Conv2D(3, 3), lambda: kl.MaxPooling2D(), lambda: kl.GlobalAveragePooling2D(), ways="nff"
    ),
    "conv3d": sequential((4, 5, 4, 2), lambda: kl.Conv3D(2, 2, strides=(1, 2, 1), padding="same"), ways="n"),
    "depthwise": sequential((6, 6, 2), lambda: kl.DepthwiseConv2D(3), ways="m"),
    "einsum": sequential((5, 3), lambda: kl.EinsumDense("abc,cd->abd", (None, 4), bias_axes="d"), ways="n"),
    "einsum, ellipsis": sequential((5, 3), lambda: kl.EinsumDense("...x,xy->...y", 4, bias_axes="y"), ways="n"),
    "einsum, bias in the middle": sequential(
        (5, 3), lambda: kl.EinsumDense("abc,cde->abde", (None, 2, 4), bias_axes="d"), ways="n"
    ),
    "einsum, two weights": sequential((2,), lambda: kl.EinsumDense("bi,i->bi", (2,)), ways="n"),
    "embedding": Case(
        lambda: keras.Sequential([keras.Input((5,), dtype="int32"), kl.Embedding(7, 3), kl.Flatten(), kl.Dense(2)]),
        [np.random.default_rng(0).integers(0, 7, (N, 5), np.int32)],
        "nfn",
    ),
    "batch normalization": sequential((3,), lambda: kl.Dense(4), lambda: kl.BatchNormalization(), ways="nm"),
    "layer normalization": sequential((3,), lambda: kl.Dense(4), lambda: kl.LayerNormalization(), ways="nm"),
    "residual": functional((4,), ways="nnfn")(
        lambda x: kl.Dense(2)(kl.Add()([kl.Dense(4, "tanh")(kl.Dense(4)(x)), x]))
    ),
    "two inputs": functional((4,), (3,), ways="nnf")(lambda a, b: kl.Dense(2)(a) - kl.Dense(2)(b)),
    "inputs by name": Case(by_name, [drawn(N, 2), drawn(N, 3, seed=1)], "nfn"),
    "two outputs": functional((4,), ways="nn")(lambda x: [kl.Dense(2)(x), kl.Dense(3, "sigmoid")(x)]),
    "outputs by name": functional((4,), ways="nnn")(named_outputs),
    "shared layer": functional((3,), ways="nffn")(shared_weights),
    "nested": functional((3,), ways="nnfnn")(nested),
    "operations": functional((4,), ways="nfff")(
        lambda x: keras.ops.concatenate([keras.ops.sin(kl.Dense(3)(x)), x[:, :2]], axis=-1)
    ),
    "a constant of the graph": functional((4,), ways="nff")(
        lambda x: kl.Dense(N)(x) * tf.constant([1.0, -2.0, 3.0, 0.5]) + np.float32([[1.0], [2.0], [3.0], [4.0]])[:1]
    ),
    "initial state": functional((5, 3), (4,), ways="m")(lambda x, state: kl.GRU(4)(x, initial_state=state)),
    "two initial states": functional((5, 3), (4,), ways="fm")(
        lambda x, state: kl.LSTM(4)(x, initial_state=[state, 2.0 * state])
    ),
    "a mask as an argument": functional((5, 3), (5,), ways="fm")(lambda x, m: kl.LSTM(4)(x, mask=m > 0)),
    "attention by keywords": functional((5, 3), ways="m")(lambda x: kl.MultiHeadAttention(2, 3)(query=x, value=x)),
    "returned state": functional((5, 3), ways="m")(lambda x: kl.GRU(4, return_state=True)(x)[1]),
    "subclassed": Case(subclassed, [drawn(N, 3)], "m"),
    "subclassed sequential": Case(lambda: Doubled([keras.Input((3,)), kl.Dense(2)]), [drawn(N, 3)], "m"),
    "masking": Case(
        lambda: keras.Sequential([keras.Input((5, 2)), kl.Masking(), kl.LSTM(3)]),
        [drawn(N, 5, 2) * (np.arange(5) < 3)[:, None].astype(np.float32)],
        "m",
        heavy=True,
    ),
    "masked embedding": Case(
        lambda: keras.Sequential([keras.Input((5,)), kl.Embedding(7, 3, mask_zero=True), kl.GRU(2)]),
        [np.float32([[1, 2, 3, 0, 0], [6, 5, 4, 3, 2], [1, 0, 0, 0, 0], [2, 2, 0, 0, 0]])],
        "m",
        heavy=True,
    ),
    "bidirectional": sequential((5, 3), lambda: kl.Bidirectional(kl.LSTM(2)), ways="m", heavy=True),
    "time distributed": sequential((5, 3), lambda: kl.TimeDistributed(kl.Dense(2)), ways="n"),
    "time distributed model": sequential(
        (5, 4, 4, 1),
        lambda: kl.TimeDistributed(keras.Sequential([keras.Input((4, 4, 1)), kl.Conv2D(2, 3), kl.Flatten()])),
        lambda: kl.LSTM(3),
        ways="nfn",
    ),
    "time distributed, nothing to learn": sequential(
        (3, 4, 4, 1), lambda: kl.TimeDistributed(kl.AveragePooling2D(2)), lambda: kl.ConvLSTM2D(2, 2), ways="fn"
    ),
    "time distributed, no rule": sequential(
        (3, 4), lambda: kl.TimeDistributed(kl.LayerNormalization()), lambda: kl.Dense(2), ways="mn"
    ),
    "rnn of a cell": sequential(
        (5, 3), lambda: kl.RNN(kl.LSTMCell(3), return_sequences=True), lambda: kl.RNN(kl.GRUCell(2)), ways="nn"
    ),
    "rnn of several cells": sequential((5, 3), lambda: kl.RNN([kl.LSTMCell(3), kl.LSTMCell(2)]), ways="m"),
    "two biases": sequential((5, 3), lambda: kl.RNN(DualBiasLSTMCell(3), return_sequences=True), ways="n"),
    "conv lstm": sequential((3, 5, 5, 1), lambda: kl.ConvLSTM2D(2, 3), ways="n"),
    "conv lstm, long": sequential((6, 5, 4, 2), lambda: kl.ConvLSTM2D(2, 2, return_sequences=True), ways="n"),
    "conv lstm, strided": sequential(
        (3, 6, 5, 1), lambda: kl.ConvLSTM2D(2, (3, 2), strides=(2, 3), padding="same", dropout=0.5), ways="n"
    ),
    "conv lstm, dilated": sequential(
        (3, 7, 7, 1), lambda: kl.ConvLSTM2D(2, (3, 2), dilation_rate=(2, 3), use_bias=False), ways="n"
    ),
    "conv lstm, other activations": sequential(
        (3, 4, 4, 1), lambda: kl.ConvLSTM2D(2, 3, activation="relu", recurrent_activation="hard_sigmoid"), ways="n"
    ),
    "conv lstm, backwards": sequential(
        (3, 4, 4, 1), lambda: kl.ConvLSTM2D(2, 3, go_backwards=True, return_sequences=True), ways="n"
    ),
    "two conv lstms": sequential(
        (5, 4, 4, 1),
        lambda: kl.ConvLSTM2D(2, 3, padding="same", return_sequences=True),
        lambda: kl.ConvLSTM2D(3, 2),
        lambda: kl.Flatten(),
        lambda: kl.Dense(2),
        ways="nnfn",
    ),
    "conv lstm, any length": Case(
        lambda: keras.Sequential([keras.Input((None, 4, 4, 1)), kl.ConvLSTM2D(2, 3)]), [drawn(N, 5, 4, 4, 1)], "n"
    ),
    "conv lstm 1d": sequential((3, 7, 2), lambda: kl.ConvLSTM1D(2, 3, strides=2), ways="n"),
    "conv lstm 3d": sequential((2, 4, 3, 4, 1), lambda: kl.ConvLSTM3D(2, 2, padding="same"), ways="n"),
    "conv lstm, returned state": functional((3, 4, 4, 1), ways="m")(
        lambda x: kl.ConvLSTM2D(1, 3, return_state=True)(x)[1]
    ),
    "frozen layers": Case(frozen, [drawn(N, 3)], "nffn"),
    "frozen variables": Case(half_frozen, [drawn(N, 5, 3)], "nnn"),
    "frozen variables of a conv lstm": Case(half_frozen_images, [drawn(N, 3, 4, 4, 1)], "nfn"),
}
