r"""Sensitivities estimated by random signs, at one backward pass a probe whatever the number of outputs.

With independent signs :math:`\varepsilon`, the cross terms of a squared sum vanish on average:

.. math::
    E\Big(\sum_{ik} \varepsilon_{ik} g_{ik}\Big)^2 = \sum_{ik} g_{ik}^2, \quad
    E\Big(\sum_k \varepsilon_k \sum_i g_{ik}\Big)^2 = \sum_k \Big(\sum_i g_{ik}\Big)^2.

So squares of sensitivities are had without bias; their roots are a little too small on average, the less so the more
probes there are.
"""

from __future__ import annotations

import tensorflow as tf

from tfsm.contracts import Nest, Tensor
from tfsm.kernels.noise import fold, random_bits
from tfsm.kernels.ranks import Rows, either_rank


@either_rank
def probed_rms(network: Rows, genomes: Tensor, inputs: Nest, seed: Tensor, *, probes: int) -> Tensor:
    """Estimate SM-G-RMS's sensitivity `[B, P]`, with a sign for every output of every experience.

    Args:
        network: the network.
        genomes: `[B, P]`.
        inputs: `[B, N, ...]`, or `[1, N, ...]` where all genomes see the same.
        seed: `[B, 2]`; one genome's estimate depends on its own alone.
        probes: how many backward passes.
    """
    return _probed(network, genomes, inputs, seed, probes, each=True)


@either_rank
def probed_sum(network: Rows, genomes: Tensor, inputs: Nest, seed: Tensor, *, probes: int) -> Tensor:
    """Estimate SM-G-SUM's sensitivity `[B, P]`, with a sign for every output; arguments as for `probed_rms`."""
    return _probed(network, genomes, inputs, seed, probes, each=False)


def _probed(network: Rows, genomes: Tensor, inputs: Nest, seed: Tensor, probes: int, *, each: bool) -> Tensor:
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(genomes)
        rows = network.rows(genomes, inputs)  # [B, I, K]
    lanes, experiences, outputs = rows.shape
    places = experiences if each else 1

    def squared(probe: Tensor) -> Tensor:
        signs = _signs(fold(seed, probe), places * outputs, rows.dtype)
        shaped = tf.reshape(signs, [lanes or tf.shape(rows)[0], places, outputs])
        cotangent = tf.broadcast_to(shaped, tf.shape(rows))
        found = tape.gradient(
            rows, genomes, output_gradients=cotangent, unconnected_gradients=tf.UnconnectedGradients.ZERO
        )
        # What comes back through a loop over time does not say how many lanes it has, and the loop below must know.
        return tf.square(tf.ensure_shape(found, genomes.shape))

    _, total = tf.while_loop(
        lambda i, _: i < probes,
        lambda i, total: (i + 1, total + squared(i)),
        (tf.constant(1), squared(tf.constant(0))),
        maximum_iterations=probes - 1,
    )
    return tf.sqrt(total / (probes * places))


def _signs(seed: Tensor, size: int, dtype: tf.DType) -> Tensor:
    """Draw `[..., size]` numbers that are 1 or -1."""
    topmost = tf.bitwise.right_shift(random_bits(seed, size), tf.constant(31, tf.uint32))
    return 1.0 - 2.0 * tf.cast(tf.cast(topmost, tf.int32), dtype)
