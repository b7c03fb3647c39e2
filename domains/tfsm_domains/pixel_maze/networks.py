"""The networks of both mazes: they map a sequence of 64x64 images to five outputs per step."""

from __future__ import annotations

from typing import Final

import keras
from keras import layers

from tfsm.models.rules.recurrent import DualBiasLSTMCell

SIZE: Final = 64
ACTIONS: Final = 5
MAPS: Final = 12
UNITS: Final = 20


def convolutional_lstm_network(times: int, depth: int, *, dual_bias: bool) -> keras.Model:
    """Return the paper's network: two wide convolutions, `depth` more, global average pooling and two LSTM layers."""
    first = [_convolution(5, 2, f"wide_{i}") for i in range(2)]
    deep = [_convolution(3, 1, f"deep_{i}") for i in range(depth)]
    eye = keras.Sequential([keras.Input((SIZE, SIZE, 1)), *first, *deep, layers.GlobalAveragePooling2D()], name="eye")
    memory = [_memory(f"memory_{i}", dual_bias=dual_bias) for i in range(2)]
    return keras.Sequential(
        [keras.Input((times, SIZE, SIZE, 1)), layers.TimeDistributed(eye), *memory, _action()], name=f"pixels_{depth}"
    )


def stacked_conv_lstm_network(times: int) -> keras.Model:
    """Return a network whose recurrent state is spatial: two ConvLSTM2D layers on a downsampled image."""

    def memory(number: int) -> keras.layers.Layer:
        return layers.ConvLSTM2D(8, 3, strides=2, padding="same", return_sequences=True, name=f"memory_{number}")

    return keras.Sequential(
        [
            keras.Input((times, SIZE, SIZE, 1)),
            layers.TimeDistributed(layers.AveragePooling2D(4), name="smaller"),
            memory(0),
            memory(1),
            layers.TimeDistributed(layers.Flatten(), name="flat"),
            _action(),
        ],
        name="pixels_convlstm",
    )


def _convolution(window: int, stride: int, name: str) -> keras.layers.Layer:
    return layers.Conv2D(MAPS, window, stride, padding="same", activation="selu", name=name)


def _memory(name: str, *, dual_bias: bool) -> keras.layers.Layer:
    if dual_bias:
        return layers.RNN(DualBiasLSTMCell(UNITS), return_sequences=True, name=name)
    return layers.LSTM(UNITS, return_sequences=True, name=name)


def _action() -> keras.layers.Layer:
    return layers.Dense(ACTIONS, activation="sigmoid", name="action")
