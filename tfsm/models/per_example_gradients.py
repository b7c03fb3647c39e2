"""Per-experience gradients without a copy of the weights for each experience.

A layer that multiplies inputs `a` by a kernel has, for one experience, the gradient `sum_m a_m d_m^T`: its inputs
times the deltas that arrive at the product, over the places `m` (times, or positions of a filter) at which the kernel
is used. Deltas of different experiences never mix, so one backward pass to the products gives all of them at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tfsm.interfaces import Tensor
from tfsm.kernels.sensitivity import ElementSize

CHUNK_BYTES = 2**28
"""The most that per-experience gradients of one variable may take at a time."""


@dataclass(frozen=True)
class WeightUse:
    """A place where a variable enters: `delta` is a zero added to the product, there to be differentiated by."""

    variable: int
    part: int
    """Which row of the variable, where rows of it enter apart; else 0."""
    inputs: Tensor | None
    """What it is multiplied by, `[B, N, ..., in]`; None for a bias."""
    delta: int
    """Which delta."""


class PerExampleGradients:
    """Collects taps while a network runs.

    Args:
        watch: told about every delta; a gradient tape's own `watch`.
        experiences: N, how many inputs the network sees.
        dtype: the genome's type, in which gradients are added up whatever the layers compute in.
    """

    def __init__(self, watch: Callable[[Tensor], None], experiences: int, dtype: tf.DType) -> None:
        self._watch, self._experiences, self._dtype = watch, experiences, dtype
        self._taps: list[WeightUse] = []
        self.deltas: list[Tensor] = []

    def delta(self, z: Tensor) -> tuple[Tensor, int]:
        """Return a zero to add to `z` `[B, N, ..., out]`, and its number."""
        delta = tf.zeros_like(z)
        self._watch(delta)
        self.deltas.append(delta)
        return delta, len(self.deltas) - 1

    def record(self, variable: Any, inputs: Tensor | None, delta: int, part: int = 0) -> None:
        """Note that a variable multiplied these inputs, or as a bias was added, where this delta is."""
        self._taps.append(WeightUse(id(variable), part, inputs, delta))

    def summed(self, variables: Sequence[Any], gradients: Sequence[Tensor], size: ElementSize) -> Tensor:
        """Return the sum over experiences of the size of the gradient, as genomes `[B, P]`.

        Args:
            variables: the genome's variables, in order.
            gradients: the gradient with respect to each delta, in order.
            size: of a gradient, element by element; that of a product must be the product of the sizes.
        """
        gradients = [tf.ensure_shape(g, delta.shape) for g, delta in zip(gradients, self.deltas, strict=True)]
        uses: dict[int, dict[int, list[WeightUse]]] = defaultdict(lambda: defaultdict(list))
        for tap in self._taps:
            uses[tap.variable][tap.part].append(tap)
        flat = []
        for variable in variables:
            for _, taps in sorted(uses[id(variable)].items()):
                found = self._summed(taps, gradients, size)
                flat.append(tf.reshape(found, [found.shape[0] or tf.shape(found)[0], -1]))
        return tf.concat(flat, axis=-1)

    def _summed(self, taps: list[WeightUse], gradients: Sequence[Tensor], size: ElementSize) -> Tensor:
        d = self._joined([gradients[tap.delta] for tap in taps])  # [B, N, M, out]
        if taps[0].inputs is None:
            # A product with ones, not a sum: XLA adds up many places in an order that depends on the number of genomes.
            each = tf.matmul(tf.ones_like(d[..., :1]), d, transpose_a=True) if d.shape[2] != 1 else d  # [B, N, 1, out]
            return tf.reduce_sum(size(each[:, :, 0]), axis=1)
        a = self._joined([tap.inputs for tap in taps])
        if d.shape[2] == 1:  # one place: the gradient is a product of two numbers, and so is its size
            return tf.matmul(size(a[:, :, 0]), size(d[:, :, 0]), transpose_a=True)
        bytes_each = (d.shape[0] or 1) * a.shape[-1] * d.shape[-1] * d.dtype.size
        step = max(1, min(self._experiences, CHUNK_BYTES // bytes_each))
        sums = []
        for start in range(0, self._experiences, step):
            part = slice(start, start + step)
            each = tf.matmul(a[:, part], d[:, part], transpose_a=True)  # [B, n, in, out]
            sums.append(tf.reduce_sum(size(each), axis=1))
        return tf.add_n(sums)

    def _joined(self, tensors: list[Tensor]) -> Tensor:
        """Return `[B, N, M, width]` with the places of all of them; times that were folded into N come out of it."""
        flat = []
        for tensor in tensors:
            lanes = tensor.shape[0] or tf.shape(tensor)[0]
            shaped = tf.reshape(tensor, [lanes, self._experiences, -1, tensor.shape[-1]])
            flat.append(tf.cast(shaped, self._dtype))
        return flat[0] if len(flat) == 1 else tf.concat(flat, axis=2)
