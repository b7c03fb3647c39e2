"""Rules for Conv1D, Conv2D, Conv3D and the ConvLSTM layers.

A ConvLSTM convolves the inputs of all times at once; only the state is convolved over time, always with "same" padding
and strides of 1.
"""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from tfsm.interfaces import Tensor
from tfsm.models.rules.dense import apply_activation, explain_unsupported
from tfsm.models.rules.recurrent import explain_unsupported_recurrent, next_lstm_state, run_over_time
from tfsm.models.weights import CellState, Weights

_FORMATS = ("NWC", "NHWC", "NDHWC")

UNROLLED_LANES = 32
"""Up to this number of genomes the graph has one convolution per genome; more run in a loop."""


def explain_unsupported_convolution(layer: Any) -> str | None:
    """Return why a convolution is not supported, or None."""
    if layer.groups != 1 and _is_strided_and_dilated(layer):
        return "it is grouped, strided and dilated"
    return explain_unsupported(layer)


def reports_gradients(layer: Any) -> bool:
    """Return whether per-example gradients are available: not for grouped filters."""
    return bool(layer.groups == 1)


def convolution(layer: Any, weights: Weights, x: Tensor) -> Tensor:
    """Run a Conv1D, Conv2D or Conv3D layer."""
    dtype = layer.compute_dtype
    x = tf.cast(x, dtype)
    if layer.data_format == "channels_first":
        # CPUs have no convolution with channels first.
        last = [0, 1, *range(3, x.shape.rank), 2]
        first = [0, 1, x.shape.rank - 1, *range(2, x.shape.rank - 1)]
        return tf.transpose(_channels_last(layer, weights, tf.transpose(x, last)), first)
    return _channels_last(layer, weights, x)


def _channels_last(layer: Any, weights: Weights, x: Tensor) -> Tensor:
    bias = layer.bias if layer.use_bias else None
    if layer.groups != 1 or (weights.per_example is None and not _is_strided_and_dilated(layer)):
        return apply_activation(layer, _lane_by_lane(layer, weights, x, bias))
    taken = extract_patches(x, layer.kernel_size, layer.strides, layer.dilation_rate, layer.padding)
    z, _ = weights.linear(taken, layer.kernel, bias, layer.compute_dtype)
    return apply_activation(layer, z)


def _is_strided_and_dilated(layer: Any) -> bool:
    # TensorFlow's convolutions do not support strides together with dilation.
    return max(layer.strides) > 1 and max(layer.dilation_rate) > 1


def _lane_by_lane(layer: Any, weights: Weights, x: Tensor, bias: Any) -> Tensor:
    """Convolve each genome's examples `[N, ...]` with its own filters, by TensorFlow's convolution.

    This is several times as fast as patches, which are larger than the image by the number of positions in a filter.
    """
    filters = weights.of(layer.kernel, layer.compute_dtype)  # [B, *window, in, out]
    offsets = None if bias is None else weights.of(bias, layer.compute_dtype)
    padding = layer.padding.upper()
    positions = [_output_positions(layer, axis, size) for axis, size in enumerate(x.shape[2:-1])]
    if layer.padding == "causal":
        x = tf.pad(x, [(0, 0), (0, 0), ((layer.kernel_size[0] - 1) * layer.dilation_rate[0], 0), (0, 0)])
        padding = "VALID"

    def convolve(examples: Tensor, kernel: Tensor) -> Tensor:
        # The data format is given because the second derivative looks it up.
        return tf.nn.convolution(
            examples, kernel, list(layer.strides), padding, _FORMATS[layer.rank - 1], list(layer.dilation_rate)
        )

    def run_lane(examples: Tensor, kernel: Tensor, offset: Tensor | None = None) -> Tensor:
        # Each group by itself: CPUs have no gradient of a grouped convolution.
        groups = zip(*(tf.split(part, layer.groups, axis=-1) for part in (examples, kernel)), strict=True)
        z = convolve(examples, kernel) if layer.groups == 1 else tf.concat([convolve(*g) for g in groups], axis=-1)
        return z if offset is None else z + offset

    parts = (x, filters) if offsets is None else (x, filters, offsets)
    lanes = 1 if all(part.shape[0] == 1 for part in parts) else next(p.shape[0] for p in parts if p.shape[0] != 1)
    if lanes is None or lanes > UNROLLED_LANES:
        wide = tuple(weights.widen(part) for part in parts)
        signature = tf.TensorSpec([x.shape[1], *positions, layer.filters], x.dtype)
        return tf.map_fn(lambda lane: run_lane(*lane), wide, fn_output_signature=signature)
    # Not by slices: the gradient of each slice is as large as the whole.
    unstacked = [tf.unstack(part) * (lanes if part.shape[0] == 1 else 1) for part in parts]
    return tf.stack([run_lane(*lane) for lane in zip(*unstacked, strict=True)])


def extract_patches(
    x: Tensor, window: tuple[int, ...], strides: tuple[int, ...], dilation: tuple[int, ...], padding: str
) -> Tensor:
    """Return the inputs of each output position: `[B, N, *positions, window * in]` from x `[B, N, *space, in]`."""
    space = x.shape[2:-1]
    reach = [(w - 1) * d + 1 for w, d in zip(window, dilation, strict=True)]
    if padding != "valid":
        needed = [_same_padding(s, r, stride) for s, r, stride in zip(space, reach, strides, strict=True)]
        before = [r - 1 if padding == "causal" else n // 2 for n, r in zip(needed, reach, strict=True)]
        after = [0 if padding == "causal" else n - b for n, b in zip(needed, before, strict=True)]
        x = tf.pad(x, [(0, 0), (0, 0), *zip(before, after, strict=True), (0, 0)])
    # One axis after another, the last one first: fewer slices than the window has positions, and in the same order.
    for axis in reversed(range(len(space))):
        stride, step = strides[axis], dilation[axis]
        count = (x.shape[2 + axis] - reach[axis]) // stride + 1
        before_it = (slice(None),) * (2 + axis)
        starts = [offset * step for offset in range(window[axis])]
        x = tf.concat([x[(*before_it, slice(s, s + (count - 1) * stride + 1, stride))] for s in starts], axis=-1)
    return x


def _output_positions(layer: Any, axis: int, size: int | None) -> int | None:
    """Return the number of output positions along an axis."""
    if size is None:
        return None
    if layer.padding == "valid":
        size -= (layer.kernel_size[axis] - 1) * layer.dilation_rate[axis]
    return -(-size // layer.strides[axis])


def _same_padding(size: int, reach: int, stride: int) -> int:
    """Return the total padding of TensorFlow's "same"; if it is odd, the extra one comes last."""
    return max((-(-size // stride) - 1) * stride + reach - size, 0)


UNROLLED_STEPS = 4
"""Less than for other recurrent layers: XLA compiles a long unrolled backward pass slowly, and fuses it badly."""

MAX_XLA_FRAMES = 64
"""XLA was faster than a plain graph up to this length in all measurements; nothing longer was measured."""


def explain_unsupported_convolutional_lstm(layer: Any) -> str | None:
    """Return why a ConvLSTM is not supported, or None."""
    if layer.data_format != "channels_last":
        return "channels come first"
    if layer.return_state:
        return "it returns its state"
    return explain_unsupported_recurrent(layer)


def convolutional_lstm(layer: Any, weights: Weights, x: Tensor) -> Tensor:
    """Run a ConvLSTM1D, ConvLSTM2D or ConvLSTM3D layer."""
    cell, dtype = layer.cell, layer.compute_dtype
    x = tf.cast(x, dtype)  # [B, N, T, *space, in]
    if layer.go_backwards:
        x = tf.reverse(x, axis=[2])
    seen = _extract_patches_over_time(x, cell.kernel_size, cell.strides, cell.dilation_rate, cell.padding)
    z, delta = weights.linear(seen, cell.kernel, cell.bias if cell.use_bias else None, dtype)
    z = weights.widen(z)  # [B, N, T, *positions, 4 * filters]

    shape = tf.shape(z)
    sizes = [z.shape[i] if z.shape[i] is not None else shape[i] for i in range(z.shape.rank)]
    lanes, examples, _, *positions, gates = sizes
    ones = (1,) * len(positions)
    recurrent = weights.of(cell.recurrent_kernel, dtype)
    recurrent = tf.reshape(recurrent, [recurrent.shape[0] or -1, math.prod(cell.kernel_size) * cell.filters, gates])

    def step(z: Tensor, state: CellState, recurrent: Tensor) -> CellState:
        hidden, carry = state
        around = extract_patches(hidden, cell.kernel_size, ones, ones, "same")
        product = tf.matmul(tf.reshape(around, [lanes, -1, around.shape[-1]]), recurrent)
        return next_lstm_state(cell, z + tf.reshape(product, [lanes, examples, *positions, gates]), carry)

    start = tf.zeros([lanes, examples, *positions, cell.filters], dtype)
    outputs, last = run_over_time(weights, step, z, weights.initial_state((start, start)), (recurrent,), UNROLLED_STEPS)
    weights.save_state(last)
    if weights.per_example is not None:
        # A step sees the state that the previous step left.
        before = tf.concat([start[:, :, None], outputs[:, :, :-1]], axis=2)
        around = _extract_patches_over_time(before, cell.kernel_size, ones, ones, "same")
        weights.per_example.record(cell.recurrent_kernel, around, delta)
    return outputs if layer.return_sequences else last[0]


def _extract_patches_over_time(
    x: Tensor, window: tuple[int, ...], strides: tuple[int, ...], dilation: tuple[int, ...], padding: str
) -> Tensor:
    """Return the patches `[B, N, T, *positions, window * in]` of x `[B, N, T, *space, in]`."""
    lanes, examples, times = (x.shape[i] if x.shape[i] is not None else tf.shape(x)[i] for i in range(3))
    taken = extract_patches(tf.reshape(x, [lanes, -1, *x.shape[3:]]), window, strides, dilation, padding)
    return tf.reshape(taken, [lanes, examples, times, *taken.shape[2:]])
