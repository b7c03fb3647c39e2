"""Running what has no genome of its own: genomes are folded into the examples, as if the batch were larger."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container
from typing import Any

import tensorflow as tf

from tfsm.contracts import Tensor


def fold(tensor: Tensor) -> Tensor:
    """Return `[B * N, ...]` from `[B, N, ...]`."""
    shape = tensor.shape
    if shape[0] is not None and shape[1] is not None:
        return tf.reshape(tensor, [shape[0] * shape[1], *_known(tensor, 2)])
    return tf.reshape(tensor, [-1, *_known(tensor, 2)])


def unfold(tensor: Tensor, lanes: Any) -> Tensor:
    """Return `[B, N, ...]` from `[B * N, ...]`."""
    rest = _known(tensor, 1)
    if isinstance(lanes, int) and tensor.shape[0] is not None:
        return tf.reshape(tensor, [lanes, tensor.shape[0] // lanes, *rest])
    return tf.reshape(tensor, [lanes, -1, *rest])


def call_folded(function: Callable[..., Any], args: Any, kwargs: Any = None, held: Container[int] = ()) -> Any:
    """Call a function of examples `[N, ...]` with tensors `[B, N, ...]`; those with B = 1 are widened where needed.

    Args:
        function: a layer or an operation.
        args: its positional arguments.
        kwargs: its keyword arguments.
        held: the ids of tensors to hand over as they are.
    """

    def moves(leaf: Any) -> bool:
        return bool(tf.is_tensor(leaf)) and id(leaf) not in held

    tensors = [leaf for leaf in tf.nest.flatten((args, kwargs or {})) if moves(leaf)]
    wide = [leaf for leaf in tensors if leaf.shape[0] != 1]
    lanes = (wide[0].shape[0] or tf.shape(wide[0])[0]) if wide else 1

    def folded(leaf: Any) -> Any:
        if not moves(leaf):
            return leaf
        if wide and leaf.shape[0] == 1:
            leaf = tf.repeat(leaf, lanes, axis=0)
        return fold(leaf)

    args, kwargs = tf.nest.map_structure(folded, (args, kwargs or {}))
    return tf.nest.map_structure(lambda leaf: unfold(leaf, lanes), function(*args, **kwargs))


def accepts_training(function: Callable[..., Any]) -> bool:
    """Say whether a layer's `call` takes `training`."""
    return "training" in inspect.signature(function).parameters


def _known(tensor: Tensor, start: int) -> list[Any]:
    dynamic = None
    dims: list[Any] = []
    for axis in range(start, tensor.shape.rank):
        size = tensor.shape[axis]
        if size is None:
            dynamic = tf.shape(tensor) if dynamic is None else dynamic
            size = dynamic[axis]
        dims.append(size)
    return dims
