"""Models with frozen parts."""

from __future__ import annotations

import keras
from keras import layers as kl

from tests.models.architectures.case import Case, N
from tests.models.plain import drawn


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


def frozen_stateful() -> keras.Model:
    x = keras.Input(batch_shape=(N, 5, 3))
    return keras.Model(x, kl.Dense(2)(kl.LSTM(3, stateful=True, trainable=False)(x)))


def low_rank() -> keras.Model:
    model = keras.Sequential([keras.Input((4,)), kl.Dense(5, "tanh"), kl.Dense(2)])
    model.layers[0].enable_lora(2)
    return model


CASES: dict[str, Case] = {
    "frozen layers": Case(frozen, [drawn(N, 3)], "nffn"),
    "frozen variables": Case(half_frozen, [drawn(N, 5, 3)], "nnn"),
    "frozen variables of a conv lstm": Case(half_frozen_images, [drawn(N, 3, 4, 4, 1)], "nfn"),
    "frozen and stateful": Case(frozen_stateful, [drawn(N, 5, 3)], "nn"),
    # Keras keeps adapters in float32.
    "low-rank adapters": Case(low_rank, [drawn(N, 4)], "mn", exact=low_rank),
}
