"""The rule for convolutions: patches by shifted slices, then one product, because each genome has its own filters."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfsm.contracts import Tensor
from tfsm.models.rules.dense import activated, why_not_dense
from tfsm.models.weights import Weights


def why_not_convolution(layer: Any) -> str | None:
    """Name what keeps a convolution from its rule, or None."""
    if layer.data_format != "channels_last":
        return "channels come first"
    if layer.groups != 1:
        return "it is grouped"
    return why_not_dense(layer)


def convolution(layer: Any, weights: Weights, x: Tensor) -> Tensor:
    """Run a Conv1D, Conv2D or Conv3D layer."""
    dtype = layer.compute_dtype
    taken = patches(tf.cast(x, dtype), layer.kernel_size, layer.strides, layer.dilation_rate, layer.padding)
    z, _ = weights.linear(taken, layer.kernel, layer.bias if layer.use_bias else None, dtype)
    return activated(layer, z)


def patches(
    x: Tensor, window: tuple[int, ...], strides: tuple[int, ...], dilation: tuple[int, ...], padding: str
) -> Tensor:
    """Return what each place of a convolution sees: `[B, N, *places, window * in]` from x `[B, N, *space, in]`."""
    space = x.shape[2:-1]
    reach = [(w - 1) * d + 1 for w, d in zip(window, dilation, strict=True)]
    if padding != "valid":
        needed = [_padding(s, r, stride) for s, r, stride in zip(space, reach, strides, strict=True)]
        before = [r - 1 if padding == "causal" else n // 2 for n, r in zip(needed, reach, strict=True)]
        after = [0 if padding == "causal" else n - b for n, b in zip(needed, before, strict=True)]
        x = tf.pad(x, [(0, 0), (0, 0), *zip(before, after, strict=True), (0, 0)])
    # One axis after another, the last one first: fewer slices than places in the window, and they stay in its order.
    for axis in reversed(range(len(space))):
        stride, step = strides[axis], dilation[axis]
        count = (x.shape[2 + axis] - reach[axis]) // stride + 1
        before_it = (slice(None),) * (2 + axis)
        starts = [offset * step for offset in range(window[axis])]
        x = tf.concat([x[(*before_it, slice(s, s + (count - 1) * stride + 1, stride))] for s in starts], axis=-1)
    return x


def _padding(size: int, reach: int, stride: int) -> int:
    """TensorFlow's "same": as many places as the strides fit, the rest split with the odd one behind."""
    return max((-(-size // stride) - 1) * stride + reach - size, 0)
