r"""Divergence, the paper's equation 1: how far a perturbation moves a network's outputs.

.. math:: D(\delta; w) = \frac1I \sum_i \sum_k (y_{ik}(w) - y_{ik}(w + \delta))^2
"""

from __future__ import annotations

import tensorflow as tf

from tfsm.contracts import Tensor


def divergence(rows: Tensor, other: Tensor) -> Tensor:
    """Return the divergence `[...]` between output rows `[..., I, K]`."""
    return tf.reduce_mean(tf.reduce_sum(tf.square(rows - other), axis=-1), axis=-1)
