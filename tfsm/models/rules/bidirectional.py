"""The rule for Bidirectional: two recurrent layers, of which one goes backwards, and what becomes of their outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tfsm.contracts import Tensor
from tfsm.models.rules.recurrent import gru, lstm, simple_rnn, why_not_recurrent
from tfsm.models.weights import Weights

Run = Callable[[Any, Weights, Tensor], Tensor]


def why_not_bidirectional(layer: Any) -> str | None:
    """Name what keeps a Bidirectional layer from its rule, or None."""
    if layer.merge_mode is None:
        return "it returns two outputs"
    for inner in (layer.forward_layer, layer.backward_layer):
        if _rule(inner) is None:
            return f"no rule for {type(inner).__name__}"
        why = "it returns its state" if inner.return_state else why_not_recurrent(inner)
        if why:
            return why
    return None


def bidirectional(layer: Any, weights: Weights, x: Tensor) -> Tensor:
    """Run a Bidirectional layer."""
    there, back = (_ran(inner, weights, x) for inner in (layer.forward_layer, layer.backward_layer))
    if layer.return_sequences:
        back = tf.reverse(back, axis=[2])
    if layer.merge_mode == "concat":
        return tf.concat([there, back], axis=-1)
    if layer.merge_mode == "mul":
        return there * back
    return (there + back) * (0.5 if layer.merge_mode == "ave" else 1.0)


def _ran(layer: Any, weights: Weights, x: Tensor) -> Tensor:
    rule = _rule(layer)
    assert rule is not None
    return rule(layer, weights, x)


def _rule(layer: Any) -> Run | None:
    layers = keras.layers
    rules: dict[type, Run] = {layers.SimpleRNN: simple_rnn, layers.LSTM: lstm, layers.GRU: gru}
    return rules.get(type(layer))
