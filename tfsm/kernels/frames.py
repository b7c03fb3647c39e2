"""Inputs over time of which few are distinct: kept once each, with what is seen when."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfsm.contracts import Nest, Tensor


class Frames(tf.experimental.ExtensionType):
    """Sequences `[B, N, T, ...]` by a table of what there is to see and by which of it is seen at each time.

    A network runs layers that see one time alone (`TimeDistributed`) once for each entry of the table, forward and
    backward, and gets the same numbers as from the sequences written out.
    """

    table: tf.Tensor
    """`[V, ...]`"""
    index: tf.Tensor
    """`[B, N, T]`, integers below V; B is 1 where all genomes see the same."""

    @property
    def shape(self) -> tf.TensorShape:
        """Return the shape of the sequences written out."""
        return self.index.shape.concatenate(self.table.shape[1:])

    @property
    def dtype(self) -> Any:
        """Return the type of what is seen."""
        return self.table.dtype

    def dense(self) -> Tensor:
        """Write the sequences out."""
        return tf.gather(self.table, self.index)


def dense(inputs: Nest) -> Nest:
    """Write out all `Frames` among a network's inputs."""
    return tf.nest.map_structure(lambda x: x.dense() if isinstance(x, Frames) else x, inputs)
