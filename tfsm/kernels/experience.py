"""Sampling of experiences, and sequences of frames that share a table."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfsm.interfaces import Nest, Tensor
from tfsm.kernels.random import uniform


class IndexedFrames(tf.experimental.ExtensionType):
    """Sequences `[B, N, T, ...]`, stored as a table of frames and the index of the frame at each time.

    A network runs `TimeDistributed` layers once per entry of the table, forward and backward, and computes the same
    numbers as from the dense sequences.
    """

    table: tf.Tensor
    """`[V, ...]`"""
    index: tf.Tensor
    """`[B, N, T]`, integers below V; B is 1 if all genomes see the same."""

    @property
    def shape(self) -> tf.TensorShape:
        """The shape of the dense sequences."""
        return self.index.shape.concatenate(self.table.shape[1:])

    @property
    def dtype(self) -> Any:
        """The type of the frames."""
        return self.table.dtype

    def to_dense(self) -> Tensor:
        """Return the sequences as a dense tensor."""
        return tf.gather(self.table, self.index)


def to_dense(inputs: Nest) -> Nest:
    """Return a network's inputs with all `IndexedFrames` as dense tensors."""
    return tf.nest.map_structure(lambda x: x.to_dense() if isinstance(x, IndexedFrames) else x, inputs)


def sample_experiences(experience: Nest, count: int, seed: Tensor, *, replacement: bool = False) -> Nest:
    """Sample `count` of the experiences along the axis after the genomes'.

    Args:
        experience: tensors `[N, ...]` for seeds `[2]`, or `[B, N, ...]` (or `[1, N, ...]`) for seeds `[B, 2]`.
        count: the number to sample; without replacement, all of them in order if there are no more than that.
        seed: `[2]` or `[B, 2]`.
        replacement: whether an experience may be drawn twice.
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


def take_every(experience: Nest, step: int) -> Nest:
    """Return every `step`th of the experiences `[B, N, ...]`, beginning with the first."""

    def thin(leaf: Tensor) -> Tensor:
        return IndexedFrames(leaf.table, leaf.index[:, ::step]) if isinstance(leaf, IndexedFrames) else leaf[:, ::step]

    return tf.nest.map_structure(thin, experience)


def take(experience: Nest, index: Tensor) -> Nest:
    """Return the experiences `[B, n, ...]` of these numbers `[B, n]`, of `[B, N, ...]`, or of `[1, N, ...]` for all."""
    return tf.nest.map_structure(lambda leaf: _gather(leaf, index, 1), experience)


def _gather(leaf: Tensor, index: Tensor, axis: int) -> Tensor:
    if isinstance(leaf, IndexedFrames):
        return IndexedFrames(leaf.table, _gather(leaf.index, index, axis))
    if axis == 0:
        return tf.gather(leaf, index)
    if leaf.shape[0] == 1:  # shared by all genomes, but each draws its own sample
        return tf.gather(leaf[0], index)
    return tf.gather(leaf, index, batch_dims=1)
