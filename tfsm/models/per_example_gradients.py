"""Per-example gradients without a copy of the weights for each example.

A layer that multiplies inputs `a` by a kernel has, for one example, the gradient `sum_m a_m d_m^T`: its inputs times
the deltas (the gradients with respect to the product), summed over the positions `m` at which the kernel is used, which
are times or positions of a filter. Deltas of different examples never mix, so a single backward pass to the products
gives all of them at once.
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
"""Maximum memory for the per-example gradients of one variable at a time."""


@dataclass(frozen=True)
class WeightUse:
    """One use of a variable in a product `z`; a zero delta is added to `z`, to differentiate with respect to it."""

    variable: int
    part: int
    """The row of the variable, if its rows are used separately; otherwise 0."""
    inputs: Tensor | None
    """The inputs that it multiplies, `[B, N, ..., in]`; None for a bias."""
    delta: int
    """The index of the delta."""


class PerExampleGradients:
    """Records the uses of variables while a network runs, and computes gradients per example from them.

    Args:
        watch: called with each delta; the `watch` of a gradient tape.
        examples: N, the number of inputs.
        dtype: the genome's type, in which gradients are summed, whatever type the layers compute in.
    """

    def __init__(self, watch: Callable[[Tensor], None], examples: int, dtype: tf.DType) -> None:
        self._watch, self._examples, self._dtype = watch, examples, dtype
        self._uses: list[WeightUse] = []
        self.deltas: list[Tensor] = []

    def delta(self, z: Tensor) -> tuple[Tensor, int]:
        """Return a zero delta to add to `z` `[B, N, ..., out]`, and its index."""
        delta = tf.zeros_like(z)
        self._watch(delta)
        self.deltas.append(delta)
        return delta, len(self.deltas) - 1

    def record(self, variable: Any, inputs: Tensor | None, delta: int, part: int = 0) -> None:
        """Record that a variable multiplied these inputs, or was added as a bias, at the product with this delta."""
        self._uses.append(WeightUse(id(variable), part, inputs, delta))

    def sum_sizes(self, variables: Sequence[Any], gradients: Sequence[Tensor], size: ElementSize) -> Tensor:
        """Return the sum over examples of the size of the gradient, `[B, P]`.

        Args:
            variables: the genome's variables, in order.
            gradients: the gradient with respect to each delta, in order.
            size: the size of a gradient, element by element, such as `tf.abs` or `tf.square`; the size of a product
                must be the product of the sizes.
        """
        gradients = [tf.ensure_shape(g, delta.shape) for g, delta in zip(gradients, self.deltas, strict=True)]
        uses: dict[int, dict[int, list[WeightUse]]] = defaultdict(lambda: defaultdict(list))
        for use in self._uses:
            uses[use.variable][use.part].append(use)
        flat = []
        for variable in variables:
            for _, same in sorted(uses[id(variable)].items()):
                total = self._sum_uses(same, gradients, size)
                flat.append(tf.reshape(total, [total.shape[0] or tf.shape(total)[0], -1]))
        return tf.concat(flat, axis=-1)

    def _sum_uses(self, uses: list[WeightUse], gradients: Sequence[Tensor], size: ElementSize) -> Tensor:
        d = self._join([gradients[use.delta] for use in uses])  # [B, N, M, out]
        if uses[0].inputs is None:
            # A product with ones, not a sum: XLA sums many positions in an order that depends on the number of genomes.
            each = tf.matmul(tf.ones_like(d[..., :1]), d, transpose_a=True) if d.shape[2] != 1 else d  # [B, N, 1, out]
            return tf.reduce_sum(size(each[:, :, 0]), axis=1)
        a = self._join([use.inputs for use in uses])
        if d.shape[2] == 1:  # one position: the gradient is a product of two numbers, and so is its size
            return tf.matmul(size(a[:, :, 0]), size(d[:, :, 0]), transpose_a=True)
        bytes_each = (d.shape[0] or 1) * a.shape[-1] * d.shape[-1] * d.dtype.size
        step = max(1, min(self._examples, CHUNK_BYTES // bytes_each))
        sums = []
        for start in range(0, self._examples, step):
            part = slice(start, start + step)
            each = tf.matmul(a[:, part], d[:, part], transpose_a=True)  # [B, n, in, out]
            sums.append(tf.reduce_sum(size(each), axis=1))
        return tf.add_n(sums)

    def _join(self, tensors: list[Tensor]) -> Tensor:
        """Concatenate the positions of all tensors, `[B, N, M, width]`; times that were folded into N are unfolded."""
        flat = []
        for tensor in tensors:
            lanes = tensor.shape[0] or tf.shape(tensor)[0]
            shaped = tf.reshape(tensor, [lanes, self._examples, -1, tensor.shape[-1]])
            flat.append(tf.cast(shaped, self._dtype))
        return flat[0] if len(flat) == 1 else tf.concat(flat, axis=2)
