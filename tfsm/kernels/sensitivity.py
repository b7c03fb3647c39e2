r"""Sensitivity: how much a network's outputs move with each of its weights.

With experiences :math:`i`, outputs :math:`k` and output gradients :math:`g_{ik} = \partial y_{ik} / \partial w`:

.. math::
    s_{SUM} = \sqrt{\textstyle\sum_k (\sum_i g_{ik})^2}, \quad
    s_{ABS} = \sqrt{\textstyle\sum_k (\tfrac1I \sum_i |g_{ik}|)^2}, \quad
    s_{SO} = \sqrt{|H v|}, \; H v = \tfrac2I \textstyle\sum_{ik} g_{ik} (g_{ik} \cdot v).

`H` is the Hessian of the divergence at no perturbation; the residual is zero there, so that only first derivatives
of the outputs are left of it, exactly.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from tfsm.contracts import Nest, Tensor
from tfsm.kernels.ranks import Rows, either_rank

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
    """Return SM-G-ABS's sensitivity `[B, P]`, by giving each experience a copy of its genome."""
    size = genomes.shape[-1]
    count = tf.nest.flatten(inputs)[0].shape[1]
    copies = tf.repeat(genomes, count, axis=0)  # [B * N, P]
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(copies)
        totals = tf.reduce_sum(network.rows_each(copies, inputs), axis=0)  # [R, K]: copies don't mix either
    rows, outputs = totals.shape

    def mean_absolute(row: Tensor, k: Tensor) -> Tensor:
        cotangent = tf.one_hot(row, rows)[:, None] * tf.one_hot(k, outputs)[None, :]
        gradients = tf.abs(_pulled(tape, totals, copies, cotangent))
        return tf.reduce_sum(tf.reshape(gradients, [-1, count, size]), axis=1) / (count * rows)

    return tf.sqrt(_sum_over(outputs, lambda k: tf.square(_sum_over(rows, lambda row: mean_absolute(row, k)))))


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


def _pulled(tape: tf.GradientTape, target: Tensor, source: Tensor, cotangent: Tensor) -> Tensor:
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
