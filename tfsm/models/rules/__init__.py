"""Layer rules: how a kind of Keras layer runs B genomes at once. This module is their registry.

A rule is a function `run(layer, weights, x)`: it gets the Keras layer, the `Weights` with the values of its variables
for all genomes, and inputs `[B, N, ...]`, and returns the outputs. A layer without a rule is mapped over the genomes
with `tf.vectorized_map`, which always works and is slower.

To add a rule, write the function in the module of its family (`dense`, `recurrent`, `convolution`), and add its layer
class to the table in `rule_for`. A new case in `tests/models/architectures` compares it with Keras.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import keras

from tfsm.models.rules.convolution import (
    MAX_XLA_FRAMES,
    convolution,
    convolutional_lstm,
    explain_unsupported_convolution,
    explain_unsupported_convolutional_lstm,
    reports_gradients,
)
from tfsm.models.rules.dense import (
    dense,
    einsum_dense,
    embedding,
    explain_unsupported,
    explain_unsupported_embedding,
    explain_unsupported_normalization,
    explain_unsupported_prelu,
    normalization,
    prelu,
)
from tfsm.models.rules.recurrent import (
    MAX_XLA_STEPS,
    DualBiasLSTMCell,
    bidirectional,
    explain_unsupported_bidirectional,
    explain_unsupported_recurrent,
    gru,
    lstm,
    simple_rnn,
)


@dataclass(frozen=True)
class Rule:
    """How a kind of layer runs natively, and what its rule can do."""

    run: Callable[..., Any]
    """Takes the layer, `Weights`, and inputs `[B, N, ...]`, or `[1, N, ...]` if all genomes see the same."""
    explain_unsupported: Callable[[Any], str | None]
    """Returns why the rule does not support a particular layer, or None if it does."""
    reports_gradients: Callable[[Any], bool] = lambda layer: True
    """Whether it records the uses of the layer's variables, from which per-example gradients are computed."""
    accepts_initial_state: bool = False
    """Whether `run` takes an initial state as a fourth argument."""
    max_xla_steps: int | None = None
    """The longest sequence that XLA runs faster than a plain graph; None for a layer without a time axis."""

    @property
    def is_recurrent(self) -> bool:
        """Whether the layer runs over time."""
        return self.max_xla_steps is not None


def rule_for(layer: object) -> Rule | None:
    """Return the rule for exactly this class of layer; a subclass may do anything, so it has none."""
    layers = keras.layers
    recurrent = partial(
        Rule,
        explain_unsupported=explain_unsupported_recurrent,
        accepts_initial_state=True,
        max_xla_steps=MAX_XLA_STEPS,
    )
    conv = Rule(convolution, explain_unsupported_convolution, reports_gradients)
    conv_lstm = Rule(convolutional_lstm, explain_unsupported_convolutional_lstm, max_xla_steps=MAX_XLA_FRAMES)
    norm = Rule(normalization, explain_unsupported_normalization)
    rules: dict[type, Rule] = {
        layers.Dense: Rule(dense, explain_unsupported),
        layers.EinsumDense: Rule(einsum_dense, explain_unsupported, _never),
        layers.Embedding: Rule(embedding, explain_unsupported_embedding, _never),
        layers.BatchNormalization: norm,
        layers.LayerNormalization: norm,
        layers.GroupNormalization: norm,
        layers.RMSNormalization: norm,
        layers.PReLU: Rule(prelu, explain_unsupported_prelu),
        layers.SimpleRNN: recurrent(simple_rnn),
        layers.LSTM: recurrent(lstm),
        layers.GRU: recurrent(gru),
        layers.Bidirectional: Rule(bidirectional, explain_unsupported_bidirectional),
        layers.Conv1D: conv,
        layers.Conv2D: conv,
        layers.Conv3D: conv,
        layers.ConvLSTM1D: conv_lstm,
        layers.ConvLSTM2D: conv_lstm,
        layers.ConvLSTM3D: conv_lstm,
    }
    cells: dict[type, type] = {
        layers.SimpleRNNCell: layers.SimpleRNN,
        layers.LSTMCell: layers.LSTM,
        layers.GRUCell: layers.GRU,
        DualBiasLSTMCell: layers.LSTM,
    }
    kind = type(layer)
    if kind is layers.RNN:
        kind = cells.get(type(getattr(layer, "cell", None)), kind)
    return rules.get(kind)


def _never(layer: Any) -> bool:
    return False
