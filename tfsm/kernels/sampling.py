"""Sampling of experiences: which of a parent's inputs an operator looks at."""

from __future__ import annotations

import tensorflow as tf

from tfsm.contracts import Nest, Tensor
from tfsm.kernels.frames import Frames
from tfsm.kernels.noise import uniform


def sample_experiences(experience: Nest, count: int, seed: Tensor, *, replacement: bool = False) -> Nest:
    """Sample `count` of the experiences along the axis after the genomes'.

    Args:
        experience: tensors `[N, ...]` for seeds `[2]`, or `[B, N, ...]` (or `[1, N, ...]`) for seeds `[B, 2]`.
        count: how many; without replacement, all of them and in order where there are no more than that.
        seed: `[2]` or `[B, 2]`.
        replacement: whether one experience may be drawn twice.
    """
    leaves = tf.nest.flatten(experience)
    axis = seed.shape.rank - 1
    available = leaves[0].shape[axis]
    if not replacement and count >= available:
        return experience
    if replacement:
        index = tf.cast(uniform(seed, count) * available, tf.int32)
    else:
        index = tf.math.top_k(uniform(seed, available), count, sorted=False).indices
    return tf.nest.map_structure(lambda leaf: _gather(leaf, index, axis), experience)


def _gather(leaf: Tensor, index: Tensor, axis: int) -> Tensor:
    if isinstance(leaf, Frames):
        return Frames(leaf.table, _gather(leaf.index, index, axis))
    if axis == 0:
        return tf.gather(leaf, index)
    if leaf.shape[0] == 1:  # one experience shared by all genomes: each still draws its own
        return tf.gather(leaf[0], index)
    return tf.gather(leaf, index, batch_dims=1)
