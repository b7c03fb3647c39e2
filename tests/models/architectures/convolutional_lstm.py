"""Convolutional LSTMs."""

from __future__ import annotations

import keras
from keras import layers as kl

from tests.models.architectures.case import Case, N, functional, sequential
from tests.models.plain import drawn


def stateful() -> keras.Model:
    x = keras.Input(batch_shape=(N, 3, 4, 4, 1))
    return keras.Model(x, kl.ConvLSTM2D(1, 3, stateful=True)(x))


CASES: dict[str, Case] = {
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
    "stateful conv lstm": Case(stateful, [drawn(N, 3, 4, 4, 1)], "n"),
}
