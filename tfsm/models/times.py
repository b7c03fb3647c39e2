"""Layers that see one time alone: time is folded into the examples, and what is seen again is not run again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from tfsm.contracts import Tensor
from tfsm.kernels.frames import Frames
from tfsm.models.weights import Weights


@dataclass(frozen=True)
class Looked:
    """`Frames` on their way through a network: entries that each genome has made of its own."""

    table: Tensor
    """`[B, V, ...]`, or `[1, V, ...]` as long as they are the same for all genomes."""
    index: Tensor
    """`[B, N, T]`, or `[1, N, T]`."""

    @classmethod
    def at(cls, frames: Frames) -> Looked:
        """Return frames as no layer has touched them."""
        return cls(frames.table[None], frames.index)

    @property
    def shape(self) -> tf.TensorShape:
        """Return the shape of the sequences written out."""
        return self.index.shape.concatenate(self.table.shape[2:])

    def dense(self, weights: Weights) -> Tensor:
        """Write the sequences out, `[B, N, T, ...]`."""
        if self.table.shape[0] == 1:
            return tf.gather(self.table[0], self.index)
        return tf.gather(self.table, weights.wide(self.index), batch_dims=1)


def sees_one_time(operation: Any) -> bool:
    """Say whether a layer does the same at each time."""
    return type(operation) is keras.layers.TimeDistributed


def at_each_time(layer: Any, weights: Weights, x: Tensor | Looked, inner: Callable[[Tensor], Tensor]) -> Any:
    """Run a layer at each time of x `[B, N, T, ...]` by `inner`, which runs it on examples `[B, N, ...]`."""
    if isinstance(x, Looked):
        known = None if weights.memory is None else weights.memory.tables.get(id(layer))
        table = inner(x.table) if known is None else known
        if weights.memory is not None:
            weights.memory.tables[id(layer)] = table
        return Looked(table, x.index)
    lanes, examples, times = (x.shape[i] if x.shape[i] is not None else tf.shape(x)[i] for i in range(3))
    found = inner(tf.reshape(x, [lanes, examples * times, *x.shape[3:]]))
    return tf.reshape(found, [found.shape[0] or tf.shape(found)[0], examples, times, *found.shape[2:]])


def written_out(arguments: Any, weights: Weights) -> Any:
    """Write out what is looked up, for layers that see more than one time."""
    return tf.nest.map_structure(lambda x: x.dense(weights) if isinstance(x, Looked) else x, arguments)
