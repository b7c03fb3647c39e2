r"""Divergence between outputs, and the sensitivities of the outputs to each weight.

.. math:: D(\delta; w) = \frac1I \sum_i \sum_k (y_{ik}(w) - y_{ik}(w + \delta))^2

With experiences :math:`i`, outputs :math:`k` and output gradients :math:`g_{ik} = \partial y_{ik} / \partial w`:

.. math::
    s_{SUM} = \sqrt{\textstyle\sum_k (\sum_i g_{ik})^2}, \quad
    s_{ABS} = \sqrt{\textstyle\sum_k (\tfrac1I \sum_i |g_{ik}|)^2}, \quad
    s_{RMS} = \sqrt{\tfrac1I \textstyle\sum_{ik} g_{ik}^2}, \quad
    s_{SO} = \sqrt{|H v|}, \; H v = \tfrac2I \textstyle\sum_{ik} g_{ik} (g_{ik} \cdot v).

`H` is the Hessian of the divergence at a perturbation of zero. The residual is zero there, so that exactly the first
derivatives of the outputs remain.

SUM and RMS can also be estimated by random probes (Hutchinson's estimator). With independent signs
:math:`\varepsilon`, the cross terms of a squared sum vanish on average:

.. math::
    E\Big(\sum_{ik} \varepsilon_{ik} g_{ik}\Big)^2 = \sum_{ik} g_{ik}^2, \quad
    E\Big(\sum_k \varepsilon_k \sum_i g_{ik}\Big)^2 = \sum_k \Big(\sum_i g_{ik}\Big)^2.

The squares of the sensitivities are thus estimated without bias. Their roots are slightly too small on average, the
less so the more probes there are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec, Protocol

import tensorflow as tf

from tfsm.interfaces import Nest, Tensor
from tfsm.kernels.experience import IndexedFrames
from tfsm.kernels.random import fold_in, random_bits

UNROLLED_OUTPUTS = 8
"""Up to this number of outputs the graph has one backward pass each; more run in a loop, which compiles faster."""

ElementSize = Callable[[Tensor], Tensor]
"""The size of gradients, element by element: `tf.abs` or `tf.square`."""
SumOverExamples = Callable[[Sequence[Tensor], ElementSize], Tensor]
"""From the gradients with respect to the deltas, and a size, to the sum over inputs of gradients' sizes `[B, P]`."""
SizeSum = Callable[[Tensor], Tensor]
"""From a cotangent `[R, K]` to the sum of the gradients' sizes over inputs `[B, P]`."""


class SupportsRows(Protocol):
    """What a sensitivity needs of a network."""

    def rows(self, genomes: Tensor, inputs: Nest) -> Tensor:
        """Return output rows `[B, I, K]` of genomes `[B, P]`."""
        ...

    def rows_per_example(self, genomes: Tensor, inputs: Nest) -> Tensor:
        """Return rows `[B * N, R, K]` of genomes `[B * N, P]`, each of which sees one input."""
        ...

    @property
    def has_per_example_gradients(self) -> bool:
        """Whether `rows_and_deltas` is available."""
        ...

    def rows_and_deltas(
        self, genomes: Tensor, inputs: Nest, watch: Callable[[Tensor], None]
    ) -> tuple[Tensor, list[Tensor], SumOverExamples]:
        """Return rows `[B, I, K]`, deltas, and a function from their gradients to sums of sizes `[B, P]`."""
        ...


Params = ParamSpec("Params")
Kernel = Callable[Concatenate[SupportsRows, Tensor, Nest, Params], Tensor]


def accepts_single_genome(kernel: Kernel[Params]) -> Kernel[Params]:
    """Let a kernel of genomes `[B, P]` and inputs `[B, N, ...]` also take `[P]` and `[N, ...]`."""

    @tf.autograph.experimental.do_not_convert
    @functools.wraps(kernel)
    def wrapped(
        network: SupportsRows, genomes: Tensor, inputs: Nest, *args: Params.args, **kwargs: Params.kwargs
    ) -> Tensor:
        if genomes.shape.rank > 1:
            return kernel(network, genomes, inputs, *args, **kwargs)
        wide: tuple[Any, ...] = tf.nest.map_structure(lambda x: x[None] if tf.is_tensor(x) else x, args)
        return kernel(network, genomes[None], add_batch_axis(inputs), *wide, **kwargs)[0]

    return wrapped


def add_batch_axis(inputs: Nest) -> Nest:
    """Return the inputs `[N, ...]` of one genome as those of a batch of one."""

    def add_axis(x: Tensor | IndexedFrames) -> Tensor | IndexedFrames:
        return IndexedFrames(x.table, x.index[None]) if isinstance(x, IndexedFrames) else x[None]

    return tf.nest.map_structure(add_axis, inputs)


def divergence(rows: Tensor, other: Tensor) -> Tensor:
    """Return the divergence `[...]` between output rows `[..., I, K]`."""
    return tf.reduce_mean(tf.reduce_sum(tf.square(rows - other), axis=-1), axis=-1)


def guard_sensitivity(sensitivity: Tensor, zero: float, floor: float) -> Tensor:
    """Return the sensitivity with zeros replaced by `zero`, and then nothing below `floor`."""
    replaced = tf.where(sensitivity == 0, tf.constant(zero, sensitivity.dtype), sensitivity)
    return tf.maximum(replaced, floor)


def clip_change(change: Tensor, limit: float | None) -> Tensor:
    """Return a perturbation in which no weight changes by more than `limit`."""
    return change if limit is None else tf.clip_by_value(change, -limit, limit)


@accepts_single_genome
def sum_sensitivity(network: SupportsRows, genomes: Tensor, inputs: Nest) -> Tensor:
    """Return the sensitivity of SM-G-SUM `[B, P]`: one backward pass per output, for any number of experiences."""
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(genomes)
        totals = tf.reduce_sum(
            network.rows(genomes, inputs), axis=[0, 1]
        )  # [K]; genomes do not mix, so one sum is enough
    outputs = totals.shape[0]
    return tf.sqrt(_sum_over(outputs, lambda k: tf.square(_pull_back(tape, totals, genomes, tf.one_hot(k, outputs)))))


@accepts_single_genome
def abs_sensitivity(network: SupportsRows, genomes: Tensor, inputs: Nest) -> Tensor:
    """Return the exact sensitivity of SM-G-ABS `[B, P]`.

    If all layers report per-example gradients, it takes one backward pass per output row: for a dense layer the sum of
    `|a_i d_i^T|` over experiences is `|A|^T |D|`. Otherwise each experience gets a copy of its genome.
    """
    mean, outputs = _mean_sizes(network, genomes, inputs, tf.abs)
    return tf.sqrt(_sum_over(outputs, lambda k: tf.square(mean(k))))


@accepts_single_genome
def rms_sensitivity(network: SupportsRows, genomes: Tensor, inputs: Nest) -> Tensor:
    """Return the exact sensitivity of SM-G-RMS `[B, P]`, in the same way and at the same cost as `abs_sensitivity`."""
    mean, outputs = _mean_sizes(network, genomes, inputs, tf.square)
    return tf.sqrt(_sum_over(outputs, mean))


def second_order_sensitivity(network: SupportsRows, genomes: Tensor, inputs: Nest, direction: Tensor) -> Tensor:
    """Return the sensitivity of SM-G-SO `[B, P]` along a direction `[B, P]`, used as given."""
    return tf.sqrt(tf.abs(hessian_vector_product(network, genomes, inputs, direction)))


@accepts_single_genome
def estimate_rms_sensitivity(
    network: SupportsRows, genomes: Tensor, inputs: Nest, seed: Tensor, *, probes: int
) -> Tensor:
    """Estimate the sensitivity of SM-G-RMS `[B, P]`, with one random sign per output and experience.

    Args:
        network: the network.
        genomes: `[B, P]`.
        inputs: `[B, N, ...]`, or `[1, N, ...]` if all genomes see the same.
        seed: `[B, 2]`; the estimate of a genome depends on its own seed only.
        probes: number of probes, one backward pass each.
    """
    return _estimate(network, genomes, inputs, seed, probes, sign_per_experience=True)


@accepts_single_genome
def estimate_sum_sensitivity(
    network: SupportsRows, genomes: Tensor, inputs: Nest, seed: Tensor, *, probes: int
) -> Tensor:
    """Estimate the sensitivity of SM-G-SUM `[B, P]`, with one random sign per output.

    The arguments are those of `estimate_rms_sensitivity`.
    """
    return _estimate(network, genomes, inputs, seed, probes, sign_per_experience=False)


@accepts_single_genome
def hessian_vector_product(network: SupportsRows, genomes: Tensor, inputs: Nest, direction: Tensor) -> Tensor:
    """Return `H v` `[B, P]`, the Hessian of the divergence at a perturbation of zero times a direction `[B, P]`.

    The inner tape gives `J^T r`, which is linear in `r`: its derivative along `v`, from the outer tape, is `J v`.
    """
    with tf.GradientTape() as outer:
        with tf.GradientTape(persistent=True) as inner:
            inner.watch(genomes)
            rows = network.rows(genomes, inputs)  # [B, I, K]
        cotangent = tf.zeros_like(rows)
        outer.watch(cotangent)
        pulled = _pull_back(inner, rows, genomes, cotangent)
    pushed = outer.gradient(pulled, cotangent, output_gradients=direction, unconnected_gradients="zero")
    experiences = tf.cast(tf.shape(rows)[-2], rows.dtype)
    return _pull_back(inner, rows, genomes, 2.0 / experiences * pushed)


def _mean_sizes(
    network: SupportsRows, genomes: Tensor, inputs: Nest, size: ElementSize
) -> tuple[Callable[[Tensor], Tensor], int]:
    """Return a function from an output to the mean size of its gradient over experiences `[B, P]`, and K."""
    count = tf.nest.flatten(inputs)[0].shape[1]
    sum_sizes = _sum_by_products if network.has_per_example_gradients else _sum_by_copies
    sizes, rows, outputs = sum_sizes(network, genomes, inputs, count, size)

    def mean(k: Tensor) -> Tensor:
        return _sum_over(rows, lambda row: sizes(tf.one_hot(row, rows)[:, None] * tf.one_hot(k, outputs))) / (
            count * rows
        )

    return mean, outputs


def _sum_by_products(
    network: SupportsRows, genomes: Tensor, inputs: Nest, count: int, size: ElementSize
) -> tuple[SizeSum, int, int]:
    with tf.GradientTape(persistent=True) as tape:
        output_rows, deltas, sum_over_examples = network.rows_and_deltas(genomes, inputs, tape.watch)
        outputs = output_rows.shape[-1]
        rows = output_rows.shape[1] // count
        totals = tf.reduce_sum(tf.reshape(output_rows, [-1, rows, outputs]), axis=0)  # [R, K]; inputs do not mix
    return lambda cotangent: sum_over_examples(_pull_back(tape, totals, deltas, cotangent), size), rows, outputs


def _sum_by_copies(
    network: SupportsRows, genomes: Tensor, inputs: Nest, count: int, size: ElementSize
) -> tuple[SizeSum, int, int]:
    copies = tf.repeat(genomes, count, axis=0)  # [B * N, P]
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(copies)
        totals = tf.reduce_sum(network.rows_per_example(copies, inputs), axis=0)  # [R, K]; copies do not mix
    rows, outputs = totals.shape

    def sizes(cotangent: Tensor) -> Tensor:
        gradients = size(_pull_back(tape, totals, copies, cotangent))
        return tf.reduce_sum(tf.reshape(gradients, [-1, count, genomes.shape[-1]]), axis=1)

    return sizes, rows, outputs


def _estimate(
    network: SupportsRows, genomes: Tensor, inputs: Nest, seed: Tensor, probes: int, *, sign_per_experience: bool
) -> Tensor:
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(genomes)
        rows = network.rows(genomes, inputs)  # [B, I, K]
    lanes, experiences, outputs = rows.shape
    groups = experiences if sign_per_experience else 1

    def square_probe(probe: Tensor) -> Tensor:
        signs = _draw_signs(fold_in(seed, probe), groups * outputs, rows.dtype)
        shaped = tf.reshape(signs, [lanes or tf.shape(rows)[0], groups, outputs])
        cotangent = tf.broadcast_to(shaped, tf.shape(rows))
        gradient = tape.gradient(
            rows, genomes, output_gradients=cotangent, unconnected_gradients=tf.UnconnectedGradients.ZERO
        )
        # A gradient through a loop over time has lost its number of lanes, which the loop below must know.
        return tf.square(tf.ensure_shape(gradient, genomes.shape))

    _, total = tf.while_loop(
        lambda i, _: i < probes,
        lambda i, total: (i + 1, total + square_probe(i)),
        (tf.constant(1), square_probe(tf.constant(0))),
        maximum_iterations=probes - 1,
    )
    return tf.sqrt(total / (probes * groups))


def _draw_signs(seed: Tensor, size: int, dtype: tf.DType) -> Tensor:
    """Draw `[..., size]` numbers that are 1 or -1."""
    top_bit = tf.bitwise.right_shift(random_bits(seed, size), tf.constant(31, tf.uint32))
    return 1.0 - 2.0 * tf.cast(tf.cast(top_bit, tf.int32), dtype)


def _pull_back(tape: tf.GradientTape, target: Tensor, source: Nest, cotangent: Tensor) -> Nest:
    cotangent = tf.cast(cotangent, target.dtype)
    return tape.gradient(target, source, output_gradients=cotangent, unconnected_gradients="zero")


def _sum_over(count: int, term: Callable[[Tensor], Tensor]) -> Tensor:
    """Return the sum of `term(i)` for i below `count`."""
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
