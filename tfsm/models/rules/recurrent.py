"""Rules for SimpleRNN, LSTM, GRU and Bidirectional, and an LSTM cell with two biases.

The products of the inputs with the kernel are computed for all times at once; only the rest of a step runs over time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from tfsm.interfaces import Tensor
from tfsm.models.rules.dense import apply_activation
from tfsm.models.scan import Parts, Scan
from tfsm.models.weights import CellState, Weights

UNROLLED_STEPS = 16
"""Sequences up to this length are unrolled. Longer ones run in a loop, which compiles faster."""

MAX_XLA_STEPS = 400
"""XLA was faster than a plain graph up to this length in all measurements; nothing longer was measured."""

Step = Callable[..., CellState]
"""From the input product of one time, the state and the weights used in a step, to the next state."""


def explain_unsupported_recurrent(layer: Any) -> str | None:
    """Return why a recurrent layer is not supported, or None."""
    if getattr(layer, "reset_after", None) is False:
        return "reset_after=False"
    return None


def simple_rnn(layer: Any, weights: Weights, x: Tensor, first: CellState | None = None) -> Any:
    """Run a SimpleRNN layer."""
    cell = layer.cell
    recurrent = weights.of(cell.recurrent_kernel, layer.compute_dtype)

    def step(z: Tensor, state: CellState, recurrent: Tensor) -> CellState:
        return (apply_activation(cell, z + tf.matmul(state[0], recurrent)),)

    return _run(layer, weights, x, step, (recurrent,), first, states=1)


def lstm(layer: Any, weights: Weights, x: Tensor, first: CellState | None = None) -> Any:
    """Run an LSTM layer."""
    cell = layer.cell
    recurrent = weights.of(cell.recurrent_kernel, layer.compute_dtype)

    def step(z: Tensor, state: CellState, recurrent: Tensor) -> CellState:
        hidden, carry = state
        return next_lstm_state(cell, z + tf.matmul(hidden, recurrent), carry)

    second = getattr(cell, "recurrent_bias", None)
    return _run(layer, weights, x, step, (recurrent,), first, states=2, second_bias=second)


def next_lstm_state(cell: Any, z: Tensor, carry: Tensor) -> CellState:
    """Return an LSTM's next state from its gates `[..., 4 * units]` before activation, in Keras' order."""
    i, f, c, o = tf.split(z, 4, axis=-1)
    i, f, o = (apply_activation(cell, gate, "recurrent_activation") for gate in (i, f, o))
    carry = f * carry + i * apply_activation(cell, c)
    return o * apply_activation(cell, carry), carry


def gru(layer: Any, weights: Weights, x: Tensor, first: CellState | None = None) -> Any:
    """Run a GRU layer that applies the reset gate after the product (`reset_after=True`)."""
    cell = layer.cell
    dtype = layer.compute_dtype
    recurrent = weights.of(cell.recurrent_kernel, dtype)
    constants = (recurrent, weights.of(cell.bias, dtype)[:, 1, None]) if cell.use_bias else (recurrent,)

    def step(z: Tensor, state: CellState, recurrent: Tensor, bias: Tensor | float = 0.0) -> CellState:
        (hidden,) = state
        x_update, x_reset, x_new, *delta = tf.split(z, z.shape[-1] // cell.units, axis=-1)
        inner = tf.matmul(hidden, recurrent) + bias
        h_update, h_reset, h_new = tf.split(inner + tf.concat(delta, axis=-1) if delta else inner, 3, axis=-1)
        update = apply_activation(cell, x_update + h_update, "recurrent_activation")
        reset = apply_activation(cell, x_reset + h_reset, "recurrent_activation")
        new = apply_activation(cell, x_new + reset * h_new)
        return (update * hidden + (1.0 - update) * new,)

    return _run(layer, weights, x, step, constants, first, states=1, own_recurrent_bias=cell.use_bias, own_delta=True)


def _run(
    layer: Any,
    weights: Weights,
    x: Tensor,
    step: Step,
    constants: tuple[Tensor, ...],
    first: CellState | None,
    *,
    states: int,
    own_recurrent_bias: bool = False,
    own_delta: bool = False,
    second_bias: Any = None,
) -> Any:
    """Run a recurrent layer.

    Args:
        layer: the layer.
        weights: the values of its variables.
        x: `[B, N, T, in]`.
        step: one step.
        constants: the weights used in a step.
        first: the initial state; zeros if None.
        states: number of state tensors.
        own_recurrent_bias: whether the second row of the bias belongs to the product with the state.
        own_delta: whether the product with the state needs its own delta for per-example gradients; it is
            appended to z.
        second_bias: a second bias that is added to the first one.
    """
    cell = layer.cell
    dtype = layer.compute_dtype
    x = tf.cast(x, dtype)  # [B, N, T, in]
    if layer.go_backwards:
        x = tf.reverse(x, axis=[2])
    bias = cell.bias if cell.use_bias else None
    z, delta = weights.linear(x, cell.kernel, bias, dtype, row=0 if own_recurrent_bias else None)  # [B, N, T, G]
    z = weights.widen(z)
    per_example = weights.per_example
    if second_bias is not None:
        z = z + weights.of(second_bias, dtype)[:, None, None]
        if per_example is not None:
            per_example.record(second_bias, None, delta)
    if per_example is not None and own_delta:
        zero, delta = per_example.delta(z)
        z = tf.concat([z, zero], axis=-1)
    shape = tf.shape(z)
    # Also for a stateful layer: each experience starts from zeros, as after `reset_state()`.
    zero = tf.zeros([z.shape[0] or shape[0], z.shape[1] or shape[1], cell.units], dtype)
    start = (zero,) * states if first is None else tuple(weights.widen(tf.cast(state, dtype)) for state in first)
    outputs, last = run_over_time(weights, step, z, weights.initial_state(start), constants)
    weights.save_state(last)
    if per_example is not None:
        # A step sees the state that the previous step left.
        per_example.record(cell.recurrent_kernel, tf.concat([start[0][:, :, None], outputs[:, :, :-1]], axis=2), delta)
        if own_recurrent_bias:
            per_example.record(cell.bias, None, delta, part=1)
    result = outputs if layer.return_sequences else last[0]
    return (result, *last) if layer.return_state else result


def run_over_time(
    weights: Weights,
    step: Step,
    z: Tensor,
    state: CellState,
    constants: tuple[Tensor, ...],
    unrolled: int | None = None,
) -> tuple[Tensor, CellState]:
    """Run a step over z `[B, N, T, ...]`.

    Returns the first state tensor at all times, `[B, N, T, ...]`, and the last state.

    Args:
        weights: says whether the rest of the network runs as a plain graph.
        step: one step.
        z: the input products of all times.
        state: the initial state.
        constants: the weights used in a step.
        unrolled: the longest sequence to unroll; `UNROLLED_STEPS` unless given.
    """
    times = z.shape[2]
    rows = tf.transpose(z, [2, 0, 1, *range(3, z.shape.rank)])
    if times is not None and times <= (UNROLLED_STEPS if unrolled is None else unrolled):
        seen = []
        # Not z[:, :, t]: the gradient of each slice is as large as all of z, while that of unstack is assembled once.
        # And not unstacked along axis 2: XLA then rounds depending on the number of genomes, so that a run would give
        # different numbers alone than among others.
        for row in tf.unstack(rows):
            state = step(row, state, *constants)
            seen.append(state[0])
        return tf.stack(seen, axis=2), state

    def scan_step(now: list[Tensor], state: list[Tensor], fixed: list[Tensor]) -> Parts:
        after = step(now[0], tuple(state), *fixed)
        return [[after[0]], list(after), []]

    # A step is a dozen operations, too small for a plain graph.
    compile_alone = weights.plain_graph and times is not None and not tf.executing_eagerly()
    scan = Scan(scan_step, (1, len(state), len(constants)), (1, 0), lambda _, state, __: (state[:1], []), compile_alone)
    (stacked,), last, _ = scan([rows], state, constants)
    return tf.transpose(stacked, [1, 2, 0, *range(3, stacked.shape.rank)]), tuple(last)


def explain_unsupported_bidirectional(layer: Any) -> str | None:
    """Return why a Bidirectional layer is not supported, or None."""
    if layer.merge_mode is None:
        return "it returns two outputs"
    for inner in (layer.forward_layer, layer.backward_layer):
        if _find_runner(inner) is None:
            return f"no rule for {type(inner).__name__}"
        reason = "it returns its state" if inner.return_state else explain_unsupported_recurrent(inner)
        if reason:
            return reason
    return None


def bidirectional(layer: Any, weights: Weights, x: Tensor) -> Tensor:
    """Run a Bidirectional layer."""
    forward, backward = (_run_direction(inner, weights, x) for inner in (layer.forward_layer, layer.backward_layer))
    if layer.return_sequences:
        backward = tf.reverse(backward, axis=[2])
    if layer.merge_mode == "concat":
        return tf.concat([forward, backward], axis=-1)
    if layer.merge_mode == "mul":
        return forward * backward
    return (forward + backward) * (0.5 if layer.merge_mode == "ave" else 1.0)


def _run_direction(layer: Any, weights: Weights, x: Tensor) -> Tensor:
    run = _find_runner(layer)
    assert run is not None
    return run(layer, weights, x)


def _find_runner(layer: Any) -> Callable[[Any, Weights, Tensor], Tensor] | None:
    layers = keras.layers
    runners: dict[type, Callable[[Any, Weights, Tensor], Tensor]] = {
        layers.SimpleRNN: simple_rnn,
        layers.LSTM: lstm,
        layers.GRU: gru,
    }
    return runners.get(type(layer))


@keras.saving.register_keras_serializable("tfsm")
class DualBiasLSTMCell(keras.layers.LSTMCell):
    """An LSTM cell with two bias vectors, like those of cuDNN and PyTorch; Keras has one. The outputs are the same.

    For `keras.layers.RNN(DualBiasLSTMCell(units))`.
    """

    def build(self, input_shape: Any) -> None:
        """Create the variables."""
        super().build(input_shape)
        self.recurrent_bias = self.add_weight(
            shape=(4 * self.units,), initializer="zeros", name="recurrent_bias", regularizer=None
        )

    def call(self, inputs: Any, states: Any, training: bool = False) -> Any:
        """Return the output and the next state. Dropout is not supported."""
        hidden, carry = states
        z = ops.matmul(inputs, self.kernel) + ops.matmul(hidden, self.recurrent_kernel)
        i, f, c, o = ops.split(z + self.bias + self.recurrent_bias, 4, axis=-1)
        i, f, o = (self.recurrent_activation(gate) for gate in (i, f, o))
        carry = f * carry + i * self.activation(c)
        hidden = o * self.activation(carry)
        return hidden, [hidden, carry]
