"""Keras layers of our own, registered so that a saved model that has them can be loaded once this is imported."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable("tfsm")
class DualBiasLSTMCell(keras.layers.LSTMCell):
    """An LSTM cell with two bias vectors, as cuDNN and PyTorch have it: one more than Keras has, to no other effect.

    For `keras.layers.RNN(DualBiasLSTMCell(units))`.
    """

    def build(self, input_shape: Any) -> None:
        """Make the variables."""
        super().build(input_shape)
        self.recurrent_bias = self.add_weight(
            shape=(4 * self.units,), initializer="zeros", name="recurrent_bias", regularizer=None
        )

    def call(self, inputs: Any, states: Any, training: bool = False) -> Any:
        """Return the output and the next state; dropout is not supported."""
        hidden, carry = states
        z = ops.matmul(inputs, self.kernel) + ops.matmul(hidden, self.recurrent_kernel)
        i, f, c, o = ops.split(z + self.bias + self.recurrent_bias, 4, axis=-1)
        i, f, o = (self.recurrent_activation(gate) for gate in (i, f, o))
        carry = f * carry + i * self.activation(c)
        hidden = o * self.activation(carry)
        return hidden, [hidden, carry]
