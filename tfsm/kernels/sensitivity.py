r"""Sensitivity: how much a network's outputs move with each of its weights.

With experiences :math:`i`, outputs :math:`k` and output gradients :math:`g_{ik} = \partial y_{ik} / \partial w`:

.. math::
    s_{SUM} = \sqrt{\textstyle\sum_k (\sum_i g_{ik})^2}, \quad
    s_{ABS} = \sqrt{\textstyle\sum_k (\tfrac1I \sum_i |g_{ik}|)^2}, \quad
    s_{RMS} = \sqrt{\tfrac1I \textstyle\sum_{ik} g_{ik}^2}, \quad
    s_{SO} = \sqrt{|H v|}, \; H v = \tfrac2I \textstyle\sum_{ik} g_{ik} (g_{ik} \cdot v).

`H` is the Hessian of the divergence at no perturbation; the residual is zero there, so that only first derivatives
of the outputs are left of it, exactly.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from tfsm.contracts import Nest, Tensor
from tfsm.kernels.ranks import Rows, Size, either_rank

UNROLLED_OUTPUTS = 8
"""Up to so many outputs get a backward pass each in the graph; more go through a loop, which compiles faster."""


@either_rank
def sum_sensitivity(network: Rows, genomes: Tensor, inputs: Nest) -> Tensor:
    """Return SM-G-SUM's sensitivity `[B, P]`: one backward pass an output, whatever the number of experiences."""
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(genomes)
        totals = tf.reduce_sum(network.rows(genomes, inputs), axis=[0, 1])  # [K]: genomes don't mix, so one sum serves
    outputs = totals.shape[0]
    return tf.sqrt(_sum_over(outputs, lambda k: tf.square(_pulled(tape, totals, genomes, tf.one_hot(k, outputs)))))


@either_rank
def abs_sensitivity(network: Rows, genomes: Tensor, inputs: Nest) -> Tensor:
    """Return SM-G-ABS's sensitivity `[B, P]`, exactly.

    Where every layer tells what its weights are multiplied by, a backward pass an output row suffices: for a dense
    layer the sum over experiences of `|a_i d_i^T|` is `|A|^T |D|`. Elsewhere each experience gets a copy of its genome.
    """
    mean, outputs = _mean_sizes(network, genomes, inputs, tf.abs)
    return tf.sqrt(_sum_over(outputs, lambda k: tf.square(mean(k))))


@either_rank
def rms_sensitivity(network: Rows, genomes: Tensor, inputs: Nest) -> Tensor:
    """Return SM-G-RMS's sensitivity `[B, P]`, exactly, in the way of `abs_sensitivity` and at its price."""
    mean, outputs = _mean_sizes(network, genomes, inputs, tf.square)
    return tf.sqrt(_sum_over(outputs, mean))


def _mean_sizes(network: Rows, genomes: Tensor, inputs: Nest, size: Size) -> tuple[Callable[[Tensor], Tensor], int]:
    """Return a function from an output to the mean over experiences of its gradient's size `[B, P]`, and K."""
    count = tf.nest.flatten(inputs)[0].shape[1]
    gradients = _tapped_gradients if network.tapped else _copied_gradients
    sizes, rows, outputs = gradients(network, genomes, inputs, count, size)

    def mean(k: Tensor) -> Tensor:
        return _sum_over(rows, lambda row: sizes(tf.one_hot(row, rows)[:, None] * tf.one_hot(k, outputs))) / (
            count * rows
        )

    return mean, outputs


Sizes = Callable[[Tensor], Tensor]
"""From a cotangent `[R, K]` to the sum over inputs of the gradients' sizes `[B, P]`."""


def _tapped_gradients(network: Rows, genomes: Tensor, inputs: Nest, count: int, size: Size) -> tuple[Sizes, int, int]:
    with tf.GradientTape(persistent=True) as tape:
        found, deltas, summed = network.rows_tapped(genomes, inputs, tape.watch)
        outputs = found.shape[-1]
        rows = found.shape[1] // count
        totals = tf.reduce_sum(tf.reshape(found, [-1, rows, outputs]), axis=0)  # [R, K]: inputs don't mix
    return lambda cotangent: summed(_pulled(tape, totals, deltas, cotangent), size), rows, outputs


def _copied_gradients(network: Rows, genomes: Tensor, inputs: Nest, count: int, size: Size) -> tuple[Sizes, int, int]:
    copies = tf.repeat(genomes, count, axis=0)  # [B * N, P]
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(copies)
        totals = tf.reduce_sum(network.rows_each(copies, inputs), axis=0)  # [R, K]: copies don't mix
    rows, outputs = totals.shape

    def sizes(cotangent: Tensor) -> Tensor:
        gradients = size(_pulled(tape, totals, copies, cotangent))
        return tf.reduce_sum(tf.reshape(gradients, [-1, count, genomes.shape[-1]]), axis=1)

    return sizes, rows, outputs


@either_rank
def hessian_product(network: Rows, genomes: Tensor, inputs: Nest, direction: Tensor) -> Tensor:
    """Return `H v` `[B, P]`, the divergence's Hessian at no perturbation times a direction `[B, P]`.

    The inner tape gives `J^T r`, which is linear in `r`: its derivative along `v`, by the outer tape, is `J v`.
    """
    with tf.GradientTape() as outer:
        with tf.GradientTape(persistent=True) as inner:
            inner.watch(genomes)
            rows = network.rows(genomes, inputs)  # [B, I, K]
        cotangent = tf.zeros_like(rows)
        outer.watch(cotangent)
        pulled = _pulled(inner, rows, genomes, cotangent)
    pushed = outer.gradient(pulled, cotangent, output_gradients=direction, unconnected_gradients="zero")
    experiences = tf.cast(tf.shape(rows)[-2], rows.dtype)
    return _pulled(inner, rows, genomes, 2.0 / experiences * pushed)


def second_order_sensitivity(network: Rows, genomes: Tensor, inputs: Nest, direction: Tensor) -> Tensor:
    """Return SM-G-SO's sensitivity `[B, P]` along a direction `[B, P]`, used as it is given."""
    return tf.sqrt(tf.abs(hessian_product(network, genomes, inputs, direction)))


def _pulled(tape: tf.GradientTape, target: Tensor, source: Nest, cotangent: Tensor) -> Nest:
    cotangent = tf.cast(cotangent, target.dtype)
    return tape.gradient(target, source, output_gradients=cotangent, unconnected_gradients="zero")


def _sum_over(count: int, term: Callable[[Tensor], Tensor]) -> Tensor:
    if count <= UNROLLED_OUTPUTS:
        return tf.add_n([term(tf.constant(i)) for i in range(count)])
    first = term(tf.constant(0))
    _, total = tf.while_loop(
        lambda i, _: i < count,
        lambda i, total: (i + 1, total + term(i)),
        (tf.constant(1), first),
        maximum_iterations=count,
    )
    return total
