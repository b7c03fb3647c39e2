"""The values that a model's variables take while B genomes run at once."""

from __future__ import annotations

from collections.abc import Sequence

import keras
import tensorflow as tf

from tfsm.contracts import Tensor


class Weights:
    """Looks up a variable's value, with a leading axis for the genomes.

    Args:
        variables: the model's trainable variables.
        values: their values `[B, *shape]`, in the same order.
    """

    def __init__(self, variables: Sequence[keras.Variable], values: Sequence[Tensor]) -> None:
        self._values = {id(variable): value for variable, value in zip(variables, values, strict=True)}
        self.lanes = values[0].shape[0] or tf.shape(values[0])[0]

    def of(self, variable: keras.Variable, dtype: str | None = None) -> Tensor:
        """Return `[B, *shape]`, or `[1, *shape]` for a variable that is not part of the genome."""
        value = self._values.get(id(variable))
        if value is None:
            value = tf.convert_to_tensor(variable.value)[None]
        return value if dtype is None else tf.cast(value, dtype)

    def wide(self, tensor: Tensor) -> Tensor:
        """Return `[B, ...]` from `[B, ...]` or `[1, ...]`."""
        if tensor.shape[0] != 1:
            return tensor
        return tf.repeat(tensor, self.lanes, axis=0)
