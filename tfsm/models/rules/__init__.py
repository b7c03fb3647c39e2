"""Layers that know how to run B genomes at once, natively: an index of the rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras

from tfsm.contracts import Tensor
from tfsm.models.layers import DualBiasLSTMCell
from tfsm.models.rules.convolution import convolution, why_not_convolution
from tfsm.models.rules.convolutional_lstm import LONGEST_PICTURES, convolutional_lstm, why_not_convolutional_lstm
from tfsm.models.rules.dense import dense, einsum_dense, embedding, why_not_dense, why_not_embedding
from tfsm.models.rules.recurrent import LONGEST, gru, lstm, simple_rnn, why_not_recurrent
from tfsm.models.weights import Weights


@dataclass(frozen=True)
class Rule:
    """How a kind of layer runs: `run` takes `[B, N, ...]` (or `[1, N, ...]`); `why_not` names what it cannot do."""

    run: Callable[[Any, Weights, Tensor], Tensor]
    why_not: Callable[[Any], str | None]
    tapped: bool = True
    """Whether it tells taps how its variables are used."""
    longest: int | None = None
    """The longest sequence through which XLA runs it well; None where it does not run through time."""

    @property
    def over_time(self) -> bool:
        """Whether it runs through time."""
        return self.longest is not None


def rule_for(layer: object) -> Rule | None:
    """Return the rule for exactly this class of layer; a subclass may do anything, so it gets none."""
    layers = keras.layers
    rules: dict[type, Rule] = {
        layers.Dense: Rule(dense, why_not_dense),
        layers.EinsumDense: Rule(einsum_dense, why_not_dense, tapped=False),
        layers.Embedding: Rule(embedding, why_not_embedding, tapped=False),
        layers.SimpleRNN: Rule(simple_rnn, why_not_recurrent, longest=LONGEST),
        layers.LSTM: Rule(lstm, why_not_recurrent, longest=LONGEST),
        layers.GRU: Rule(gru, why_not_recurrent, longest=LONGEST),
        layers.Conv1D: Rule(convolution, why_not_convolution),
        layers.Conv2D: Rule(convolution, why_not_convolution),
        layers.Conv3D: Rule(convolution, why_not_convolution),
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
