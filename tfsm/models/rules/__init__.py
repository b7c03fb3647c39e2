"""Layers that know how to run B genomes at once, natively: an index of the rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras

from tfsm.models.loading import DualBiasLSTMCell
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
    bidirectional,
    explain_unsupported_bidirectional,
    explain_unsupported_recurrent,
    gru,
    lstm,
    simple_rnn,
)


@dataclass(frozen=True)
class Rule:
    """How a kind of layer runs: `run` takes the layer, `Weights` and inputs; `why_not` names what it cannot do."""

    run: Callable[..., Any]
    """Inputs are `[B, N, ...]`, or `[1, N, ...]` where all genomes see the same."""
    explain_unsupported: Callable[[Any], str | None]
    reports_gradients: Callable[[Any], bool] = lambda layer: True
    """Whether it tells taps how a layer's variables are used."""
    accepts_initial_state: bool = False
    """Whether `run` takes the state to start from as a fourth argument."""
    max_xla_steps: int | None = None
    """The longest sequence through which XLA runs it well; None where it does not run through time."""

    @property
    def is_recurrent(self) -> bool:
        """Whether it runs through time."""
        return self.max_xla_steps is not None


def _says_nothing(layer: Any) -> bool:
    return False


def rule_for(layer: object) -> Rule | None:
    """Return the rule for exactly this class of layer; a subclass may do anything, so it gets none."""
    layers = keras.layers
    rules: dict[type, Rule] = {
        layers.Dense: Rule(dense, explain_unsupported),
        layers.EinsumDense: Rule(einsum_dense, explain_unsupported, _says_nothing),
        layers.Embedding: Rule(embedding, explain_unsupported_embedding, _says_nothing),
        layers.SimpleRNN: Rule(
            simple_rnn, explain_unsupported_recurrent, accepts_initial_state=True, max_xla_steps=MAX_XLA_STEPS
        ),
        layers.LSTM: Rule(lstm, explain_unsupported_recurrent, accepts_initial_state=True, max_xla_steps=MAX_XLA_STEPS),
        layers.GRU: Rule(gru, explain_unsupported_recurrent, accepts_initial_state=True, max_xla_steps=MAX_XLA_STEPS),
        layers.Conv1D: Rule(convolution, explain_unsupported_convolution, reports_gradients),
        layers.Conv2D: Rule(convolution, explain_unsupported_convolution, reports_gradients),
        layers.Conv3D: Rule(convolution, explain_unsupported_convolution, reports_gradients),
        layers.Bidirectional: Rule(bidirectional, explain_unsupported_bidirectional),
        layers.BatchNormalization: Rule(normalization, explain_unsupported_normalization),
        layers.LayerNormalization: Rule(normalization, explain_unsupported_normalization),
        layers.GroupNormalization: Rule(normalization, explain_unsupported_normalization),
        layers.RMSNormalization: Rule(normalization, explain_unsupported_normalization),
        layers.PReLU: Rule(prelu, explain_unsupported_prelu),
        layers.ConvLSTM1D: Rule(
            convolutional_lstm, explain_unsupported_convolutional_lstm, max_xla_steps=MAX_XLA_FRAMES
        ),
        layers.ConvLSTM2D: Rule(
            convolutional_lstm, explain_unsupported_convolutional_lstm, max_xla_steps=MAX_XLA_FRAMES
        ),
        layers.ConvLSTM3D: Rule(
            convolutional_lstm, explain_unsupported_convolutional_lstm, max_xla_steps=MAX_XLA_FRAMES
        ),
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
