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
import math
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec, Protocol

import tensorflow as tf

from tfsm.interfaces import Nest, Tensor
from tfsm.kernels.experience import IndexedFrames, to_dense
from tfsm.kernels.random import fold_in, random_bits

COPY_BYTES = 2**28
"""Maximum memory for the copies of genomes by which per-example gradients are computed at a time."""
UNROLLED_OUTPUTS = 8
"""Up to this number of outputs the graph has one backward pass each; more run in a loop, which compiles faster."""

_LEAST_SENSITIVITY = 1e-30
"""Below this, sensitivities and their squares are lost to rounding, and count as zero."""
ROUNDING = 1e-6
"""Sensitivities below this share of their root mean square are rounding errors, or might as well be."""
_CONSTANT_SHARE = 1e-10
"""Outputs whose variance is a smaller share of their mean square than this are constant up to rounding."""

ElementSize = Callable[[Tensor], Tensor]
"""The size of gradients, element by element: `tf.abs` or `tf.square`."""
SumOverExamples = Callable[[Sequence[Tensor], ElementSize], Tensor]
"""From the gradients with respect to the deltas, and a size, to the sum over inputs of gradients' sizes `[B, P]`."""
SizeSum = Callable[[Tensor], Tensor]
"""From cotangents `[B, R, K]`, or `[1, R, K]` for all genomes, to the gradients' sizes summed over inputs `[B, P]`."""


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


def guard_relative(sensitivity: Tensor, share: float, rounding: float = ROUNDING) -> Tensor:
    r"""Return the sensitivity `[..., P]` with a lower bound relative to the network's own sensitivities.

    .. math:: s'_p = \max(s_p, \rho r), \quad r = \sqrt{\tfrac1P \textstyle\sum_p s_p^2}

    A weight without a sensitivity, such as that of a dead unit, counts as one of average sensitivity `r`; so does one
    whose sensitivity is a rounding error, such as that of the bias of the keys of attention, which a softmax cancels.
    If no output depends on any weight, all weights count the same. Multiplying all sensitivities by a number multiplies
    the result by that number: the guard has no scale of its own.

    Args:
        sensitivity: `[..., P]`.
        share: :math:`\rho`.
        rounding: the share of `r` up to which sensitivities count as rounding errors.
    """
    largest = tf.reduce_max(sensitivity, axis=-1, keepdims=True)
    largest = tf.where(largest > _LEAST_SENSITIVITY, largest, tf.ones_like(largest))
    scaled = sensitivity / largest  # squares of tiny numbers would vanish
    root_mean_square = tf.sqrt(tf.reduce_mean(tf.square(scaled), axis=-1, keepdims=True))
    average = tf.where(root_mean_square > _LEAST_SENSITIVITY, root_mean_square, tf.ones_like(root_mean_square))
    return largest * tf.where(scaled <= rounding * average, average, tf.maximum(scaled, share * average))


def variance_of(rows: Tensor) -> Tensor:
    """Return the variance `[...]` of output rows `[..., I, K]` over experiences, summed over outputs.

    Outputs that do not vary, such as those for a single experience, have no variance to compare with: their mean square
    takes its place, or 1 if they are all zero.
    """
    centred = rows - tf.reduce_mean(rows, axis=-2, keepdims=True)
    variance, square = (tf.reduce_mean(tf.reduce_sum(tf.square(x), axis=-1), axis=-1) for x in (centred, rows))
    fallback = tf.where(square > 0, square, tf.ones_like(square))
    return tf.where(variance > _CONSTANT_SHARE * square, variance, fallback)


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
    return tf.sqrt(
        _sum_over(
            outputs, lambda k: tf.square(_pull_back(tape, totals, genomes, tf.one_hot(k, outputs))), genomes.shape
        )
    )


@accepts_single_genome
def abs_sensitivity(network: SupportsRows, genomes: Tensor, inputs: Nest) -> Tensor:
    """Return the exact sensitivity of SM-G-ABS `[B, P]`.

    If all layers report per-example gradients, it takes one backward pass per output row: for a dense layer the sum of
    `|a_i d_i^T|` over experiences is `|A|^T |D|`. Otherwise each experience gets a copy of its genome.
    """
    mean, outputs = _mean_sizes(network, genomes, inputs, tf.abs)
    return tf.sqrt(_sum_over(outputs, lambda k: tf.square(mean(k)), genomes.shape))


@accepts_single_genome
def rms_sensitivity(network: SupportsRows, genomes: Tensor, inputs: Nest) -> Tensor:
    """Return the exact sensitivity of SM-G-RMS `[B, P]`, in the same way and at the same cost as `abs_sensitivity`."""
    mean, outputs = _mean_sizes(network, genomes, inputs, tf.square)
    return tf.sqrt(_sum_over(outputs, mean, genomes.shape))


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
def estimate_abs_sensitivity(
    network: SupportsRows, genomes: Tensor, inputs: Nest, seed: Tensor, *, probes: int
) -> Tensor:
    """Estimate the sensitivity of SM-G-ABS `[B, P]`, with one random sign per output.

    The mean size of a sum of gradients with random signs stands for the root of the sum of their squares. For many
    outputs of similar weight the two agree; otherwise the estimate is up to 1.25 times too large. Outputs are combined
    within an experience, and not after averaging over experiences, which is also never smaller.

    The arguments are those of `estimate_rms_sensitivity`.
    """
    count = tf.nest.flatten(inputs)[0].shape[1]
    sizes, rows, outputs = _sum_sizes(network, genomes, inputs, tf.abs)

    def size_of_probe(probe: Tensor) -> Tensor:
        signs = _draw_signs(fold_in(seed, probe), rows * outputs, genomes.dtype)
        return sizes(tf.reshape(signs, [genomes.shape[0] or tf.shape(genomes)[0], rows, outputs]))

    total = _sum_over(probes, size_of_probe, genomes.shape)
    return math.sqrt(math.pi / 2) / (probes * count * math.sqrt(rows)) * total


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
    sizes, rows, outputs = _sum_sizes(network, genomes, inputs, size)

    def mean(k: Tensor) -> Tensor:
        total = _sum_over(
            rows, lambda row: sizes((tf.one_hot(row, rows)[:, None] * tf.one_hot(k, outputs))[None]), genomes.shape
        )
        return total / (count * rows)

    return mean, outputs


def _sum_sizes(network: SupportsRows, genomes: Tensor, inputs: Nest, size: ElementSize) -> tuple[SizeSum, int, int]:
    """Return a function from cotangents to sums over experiences of the gradients' sizes, and R and K."""
    by = _sum_by_products if network.has_per_example_gradients else _sum_by_copies
    return by(network, genomes, inputs, tf.nest.flatten(inputs)[0].shape[1], size)


def _sum_by_products(
    network: SupportsRows, genomes: Tensor, inputs: Nest, count: int, size: ElementSize
) -> tuple[SizeSum, int, int]:
    with tf.GradientTape(persistent=True) as tape:
        output_rows, deltas, sum_over_examples = network.rows_and_deltas(genomes, inputs, tape.watch)
        outputs = output_rows.shape[-1]
        rows = output_rows.shape[1] // count
        lanes = output_rows.shape[0] or tf.shape(output_rows)[0]
        shaped = tf.reshape(output_rows, [lanes, count, rows, outputs])

    def sum_sizes(cotangent: Tensor) -> Tensor:
        wide = tf.broadcast_to(cotangent[:, None], tf.shape(shaped))  # deltas of different experiences do not mix
        return sum_over_examples(_pull_back(tape, shaped, deltas, wide), size)

    return sum_sizes, rows, outputs


def _sum_by_copies(
    network: SupportsRows, genomes: Tensor, inputs: Nest, count: int, size: ElementSize
) -> tuple[SizeSum, int, int]:
    """Give each experience a copy of its genome: for all of them at once, or in parts where that takes much memory."""
    inputs = to_dense(inputs)
    room = max(1, COPY_BYTES // (genomes.shape[-1] * genomes.dtype.size * (genomes.shape[0] or 1)))
    at_once = max(part for part in range(1, count + 1) if count % part == 0 and part <= room)

    def run(start: Tensor | int, tape: tf.GradientTape) -> tuple[Tensor, Tensor]:
        part = tf.nest.map_structure(lambda x: x[:, start : start + at_once], inputs) if at_once < count else inputs
        part = tf.nest.map_structure(lambda x: tf.ensure_shape(x, [*x.shape[:1], at_once, *x.shape[2:]]), part)
        copies = tf.repeat(genomes, at_once, axis=0)  # [B * n, P]
        tape.watch(copies)
        return copies, network.rows_per_example(copies, part)  # [B * n, R, K]

    def sum_sizes(tape: tf.GradientTape, copies: Tensor, output_rows: Tensor, cotangent: Tensor) -> Tensor:
        # [B or 1, R, K] -> [B * n, R, K]
        own = cotangent if cotangent.shape[0] == 1 else tf.repeat(cotangent, at_once, axis=0)
        gradients = size(_pull_back(tape, output_rows, copies, tf.broadcast_to(own, tf.shape(output_rows))))
        return tf.reduce_sum(tf.reshape(gradients, [-1, at_once, genomes.shape[-1]]), axis=1)

    with tf.GradientTape(persistent=True) as tape:
        copies, output_rows = run(0, tape)
    rows, outputs = output_rows.shape[1:]
    if at_once == count:
        return lambda cotangent: sum_sizes(tape, copies, output_rows, cotangent), rows, outputs

    def sum_part(start: Tensor, cotangent: Tensor) -> Tensor:
        with tf.GradientTape() as part_tape:
            copies, output_rows = run(start, part_tape)
        return tf.ensure_shape(sum_sizes(part_tape, copies, output_rows, cotangent), genomes.shape)

    def sum_parts(cotangent: Tensor) -> Tensor:
        _, total = tf.while_loop(
            lambda start, _: start < count,
            lambda start, total: (start + at_once, total + sum_part(start, cotangent)),
            (tf.constant(0), tf.zeros_like(genomes)),
            parallel_iterations=1,
        )
        return total

    return sum_parts, rows, outputs


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


def _sum_over(count: int, term: Callable[[Tensor], Tensor], shape: tf.TensorShape) -> Tensor:
    """Return the sum of `term(i)`, tensors of this shape, for i below `count`."""
    if count <= UNROLLED_OUTPUTS:
        return tf.add_n([term(tf.constant(i)) for i in range(count)])

    # A gradient through a loop over time or lanes has lost its number of lanes, which the loop here must know.
    def known_term(i: Tensor) -> Tensor:
        return tf.ensure_shape(term(i), shape)

    _, total = tf.while_loop(
        lambda i, _: i < count,
        lambda i, total: (i + 1, total + known_term(i)),
        (tf.constant(1), known_term(tf.constant(0))),
        maximum_iterations=count,
    )
    return total
