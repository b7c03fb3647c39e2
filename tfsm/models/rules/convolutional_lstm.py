"""The rule for ConvLSTM1D, 2D and 3D: an LSTM whose two products are convolutions.

The inputs of all times are convolved at once; inside time only the state is, always "same" and with strides of 1.
"""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from tfsm.contracts import Tensor
from tfsm.models.memory import State
from tfsm.models.rules.convolution import patches
from tfsm.models.rules.recurrent import lstm_state, over_time, why_not_recurrent
from tfsm.models.weights import Weights

UNROLLED_STEPS = 4
"""Fewer than of other recurrent layers: XLA takes long to compile the backward pass of many, and fuses it badly."""

LONGEST_PICTURES = 64
"""XLA was faster up to here in every measurement; nothing longer was measured."""


def why_not_convolutional_lstm(layer: Any) -> str | None:
    """Name what keeps a convolutional LSTM from its rule, or None."""
    if layer.data_format != "channels_last":
        return "channels come first"
    if layer.return_state:
        return "it returns its state"
    return why_not_recurrent(layer)


def convolutional_lstm(layer: Any, weights: Weights, x: Tensor) -> Tensor:
    """Run a ConvLSTM1D, ConvLSTM2D or ConvLSTM3D layer."""
    cell, dtype = layer.cell, layer.compute_dtype
    x = tf.cast(x, dtype)  # [B, N, T, *space, in]
    if layer.go_backwards:
        x = tf.reverse(x, axis=[2])
    seen = _at_all_times(x, cell.kernel_size, cell.strides, cell.dilation_rate, cell.padding)
    z, delta = weights.linear(seen, cell.kernel, cell.bias if cell.use_bias else None, dtype)
    z = weights.wide(z)  # [B, N, T, *places, 4 * filters]

    shape = tf.shape(z)
    sizes = [z.shape[i] if z.shape[i] is not None else shape[i] for i in range(z.shape.rank)]
    lanes, examples, _, *places, gates = sizes
    ones = (1,) * len(places)
    recurrent = weights.of(cell.recurrent_kernel, dtype)
    recurrent = tf.reshape(recurrent, [recurrent.shape[0] or -1, math.prod(cell.kernel_size) * cell.filters, gates])

    def step(z: Tensor, state: State, recurrent: Tensor) -> State:
        hidden, carry = state
        around = patches(hidden, cell.kernel_size, ones, ones, "same")
        product = tf.matmul(tf.reshape(around, [lanes, -1, around.shape[-1]]), recurrent)
        return lstm_state(cell, z + tf.reshape(product, [lanes, examples, *places, gates]), carry)

    start = tf.zeros([lanes, examples, *places, cell.filters], dtype)
    outputs, last = over_time(weights, step, z, weights.remembered((start, start)), (recurrent,), UNROLLED_STEPS)
    weights.remember(last)
    if weights.taps is not None:
        # The state that a step sees is what the one before it left.
        before = tf.concat([start[:, :, None], outputs[:, :, :-1]], axis=2)
        around = _at_all_times(before, cell.kernel_size, ones, ones, "same")
        weights.taps.record(cell.recurrent_kernel, around, delta)
    return outputs if layer.return_sequences else last[0]


def _at_all_times(
    x: Tensor, window: tuple[int, ...], strides: tuple[int, ...], dilation: tuple[int, ...], padding: str
) -> Tensor:
    """Return the patches `[B, N, T, *places, window * in]` of x `[B, N, T, *space, in]`."""
    lanes, examples, times = (x.shape[i] if x.shape[i] is not None else tf.shape(x)[i] for i in range(3))
    taken = patches(tf.reshape(x, [lanes, -1, *x.shape[3:]]), window, strides, dilation, padding)
    return tf.reshape(taken, [lanes, examples, times, *taken.shape[2:]])
