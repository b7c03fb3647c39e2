"""From what is kept of observations to a network's inputs, in the order in which it takes them."""

from __future__ import annotations

from collections.abc import Sequence

import keras
import tensorflow as tf

from tfsm.contracts import Nest, Tensor
from tfsm.errors import TfsmError


def shown(kept: Nest) -> Nest:
    """Return inputs: pictures are kept as bytes, and seen as numbers from 0 to 1."""
    return tf.nest.map_structure(_number, kept)


def _number(x: Tensor) -> Tensor:
    return tf.cast(x, tf.float32) / 255.0 if x.dtype == tf.uint8 else x


def order(model: keras.Model, names: Sequence[str], env: str) -> list[int]:
    """Return which of the things that are seen each of the model's inputs takes: by name, where there are several."""
    if len(names) == 1:
        return [0]
    if not getattr(model, "inputs", None):
        raise TfsmError(f"{env!r} has the inputs {', '.join(names)}: a subclassed model does not say which is which")
    own = sorted(model.input) if isinstance(model.input, dict) else [tensor.name for tensor in model.inputs]
    if sorted(own) != sorted(names):
        raise TfsmError(f"the model's inputs are {', '.join(own)}, and those of {env!r} are {', '.join(names)}")
    return [list(names).index(name) for name in own]
