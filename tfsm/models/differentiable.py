"""Finding out before it matters that a model has no usable output gradient."""

from __future__ import annotations

import tensorflow as tf

from tfsm.contracts import Nest, Tensor
from tfsm.errors import TfsmError
from tfsm.models.network import Network


def check_differentiable(network: Network, genomes: Tensor, inputs: Nest) -> None:
    """Refuse a network whose outputs move with its weights while its gradient says that they do not.

    Args:
        network: the network.
        genomes: `[B, P]`.
        inputs: `[B, N, ...]` or `[1, N, ...]`.
    """
    rows, gradient = _gradient(network, genomes, inputs)
    if _any(gradient):
        return
    nudged = genomes + 0.1 * tf.random.stateless_normal(genomes.shape, [0, 0], dtype=genomes.dtype)
    moved, gradient = _gradient(network, nudged, inputs)
    # Zero in one place may be bad luck, such as units that never fire; zero in a second one too is a staircase.
    if gradient is None or (bool(tf.reduce_any(moved != rows)) and not _any(gradient)):
        raise TfsmError(_message(network, "no gradient flows from its outputs to its weights"))


def _gradient(network: Network, genomes: Tensor, inputs: Nest) -> tuple[Tensor, Tensor | None]:
    with tf.GradientTape() as tape:
        tape.watch(genomes)
        rows = network.rows(genomes, inputs)
        # Unequal shares, so that outputs which always add up to one do not cancel.
        total = tf.reduce_sum(rows * tf.random.stateless_uniform(rows.shape, [0, 1], 0.5, 1.5, rows.dtype))
    try:
        return rows, tape.gradient(total, genomes)
    except LookupError as error:
        raise TfsmError(_message(network, f"an operation has no gradient ({error})")) from None


def _any(gradient: Tensor | None) -> bool:
    return gradient is not None and bool(tf.reduce_any(gradient != 0))


def _message(network: Network, why: str) -> str:
    return f"the model {network.model.name!r} is not differentiable: {why}; use the mutation 'sm-r', which needs none"
