"""Layers that know how to run B genomes at once, natively: an index of the rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras

from tfsm.models.loading import DualBiasLSTMCell
from tfsm.models.rules.convolution import (
    LONGEST_PICTURES,
    convolution,
    convolutional_lstm,
    tells,
    why_not_convolution,
    why_not_convolutional_lstm,
)
from tfsm.models.rules.dense import (
    dense,
    einsum_dense,
    embedding,
    normalization,
    prelu,
    why_not_dense,
    why_not_embedding,
    why_not_normalization,
    why_not_prelu,
)
from tfsm.models.rules.recurrent import (
    LONGEST,
    bidirectional,
    gru,
    lstm,
    simple_rnn,
    why_not_bidirectional,
    why_not_recurrent,
)


@dataclass(frozen=True)
class Rule:
    """How a kind of layer runs: `run` takes the layer, `Weights` and inputs; `why_not` names what it cannot do."""

    run: Callable[..., Any]
    """Inputs are `[B, N, ...]`, or `[1, N, ...]` where all genomes see the same."""
    why_not: Callable[[Any], str | None]
    tells: Callable[[Any], bool] = lambda layer: True
    """Whether it tells taps how a layer's variables are used."""
    starts: bool = False
    """Whether `run` takes the state to start from as a fourth argument."""
    longest: int | None = None
    """The longest sequence through which XLA runs it well; None where it does not run through time."""

    @property
    def over_time(self) -> bool:
        """Whether it runs through time."""
        return self.longest is not None


def _says_nothing(layer: Any) -> bool:
    return False


def rule_for(layer: object) -> Rule | None:
    """Return the rule for exactly this class of layer; a subclass may do anything, so it gets none."""
    layers = keras.layers
    rules: dict[type, Rule] = {
        layers.Dense: Rule(dense, why_not_dense),
        layers.EinsumDense: Rule(einsum_dense, why_not_dense, _says_nothing),
        layers.Embedding: Rule(embedding, why_not_embedding, _says_nothing),
        layers.SimpleRNN: Rule(simple_rnn, why_not_recurrent, starts=True, longest=LONGEST),
        layers.LSTM: Rule(lstm, why_not_recurrent, starts=True, longest=LONGEST),
        layers.GRU: Rule(gru, why_not_recurrent, starts=True, longest=LONGEST),
        layers.Conv1D: Rule(convolution, why_not_convolution, tells),
        layers.Conv2D: Rule(convolution, why_not_convolution, tells),
        layers.Conv3D: Rule(convolution, why_not_convolution, tells),
        layers.Bidirectional: Rule(bidirectional, why_not_bidirectional),
        layers.BatchNormalization: Rule(normalization, why_not_normalization),
        layers.LayerNormalization: Rule(normalization, why_not_normalization),
        layers.GroupNormalization: Rule(normalization, why_not_normalization),
        layers.RMSNormalization: Rule(normalization, why_not_normalization),
        layers.PReLU: Rule(prelu, why_not_prelu),
        layers.ConvLSTM1D: Rule(convolutional_lstm, why_not_convolutional_lstm, longest=LONGEST_PICTURES),
        layers.ConvLSTM2D: Rule(convolutional_lstm, why_not_convolutional_lstm, longest=LONGEST_PICTURES),
        layers.ConvLSTM3D: Rule(convolutional_lstm, why_not_convolutional_lstm, longest=LONGEST_PICTURES),
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
