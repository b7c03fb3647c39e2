"""Recurrent layers."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers as kl

from tests.models.architectures.case import Case, N, functional, sequential
from tests.models.plain import drawn
from tfsm.models.rules.recurrent import DualBiasLSTMCell


def stateful(*made: Any) -> Case:
    def build() -> keras.Model:
        x = inputs = keras.Input(batch_shape=(N, 5, 3))
        for make in made:
            x = make()(x)
        return keras.Model(inputs, x)

    return Case(build, [drawn(N, 5, 3)], "n" * len(made))


def encoder_and_decoder(seen: Any, target: Any) -> Any:
    _, hidden, carry = kl.LSTM(3, return_state=True)(seen)
    return kl.Dense(2)(kl.LSTM(3, return_sequences=True)(target, initial_state=[hidden, carry]))


CASES: dict[str, Case] = {
    "simple rnn": sequential((5, 3), lambda: kl.SimpleRNN(4), ways="n"),
    "simple rnn, long": sequential((19, 3), lambda: kl.SimpleRNN(4, return_sequences=True), ways="n"),
    "gru": sequential((5, 3), lambda: kl.GRU(4), ways="n"),
    "gru, reset before": sequential((5, 3), lambda: kl.GRU(4, reset_after=False), ways="m"),
    "gru without bias, long": sequential((20, 3), lambda: kl.GRU(4, use_bias=False), ways="n"),
    "lstm": sequential((5, 3), lambda: kl.LSTM(4), ways="n"),
    "lstm, long": sequential((17, 3), lambda: kl.LSTM(4), lambda: kl.Dense(2), ways="nn"),
    "lstm of 16": sequential((16, 2), lambda: kl.LSTM(2, return_sequences=True), lambda: kl.LSTM(2), ways="nn"),
    "lstm, other activations": sequential(
        (5, 3), lambda: kl.LSTM(4, "relu", "hard_sigmoid", unit_forget_bias=False), ways="n"
    ),
    "backwards": sequential((5, 3), lambda: kl.GRU(4, go_backwards=True, return_sequences=True), ways="n"),
    "backwards, long": sequential((18, 3), lambda: kl.LSTM(4, go_backwards=True), ways="n"),
    "any length": Case(lambda: keras.Sequential([keras.Input((None, 3)), kl.LSTM(3)]), [drawn(N, 7, 3)], "n"),
    "bidirectional": sequential((5, 3), lambda: kl.Bidirectional(kl.LSTM(2)), ways="n"),
    "rnn of a cell": sequential(
        (5, 3), lambda: kl.RNN(kl.LSTMCell(3), return_sequences=True), lambda: kl.RNN(kl.GRUCell(2)), ways="nn"
    ),
    "rnn of several cells": sequential((5, 3), lambda: kl.RNN([kl.LSTMCell(3), kl.LSTMCell(2)]), ways="m"),
    "two biases": sequential((5, 3), lambda: kl.RNN(DualBiasLSTMCell(3), return_sequences=True), ways="n"),
    "initial state": functional((5, 3), (4,), ways="n")(lambda x, state: kl.GRU(4)(x, initial_state=state)),
    "two initial states": functional((5, 3), (4,), ways="fn")(
        lambda x, state: kl.LSTM(4)(x, initial_state=[state, 2.0 * state])
    ),
    "returned state": functional((5, 3), ways="n")(lambda x: kl.GRU(4, return_state=True)(x)[1]),
    "time distributed": sequential((5, 3), lambda: kl.TimeDistributed(kl.Dense(2)), ways="n"),
    "time distributed model": sequential(
        (5, 4, 4, 1),
        lambda: kl.TimeDistributed(keras.Sequential([keras.Input((4, 4, 1)), kl.Conv2D(2, 3), kl.Flatten()])),
        lambda: kl.LSTM(3),
        ways="nfn",
    ),
    "time distributed, nothing to learn": sequential(
        (3, 4, 4, 1), lambda: kl.TimeDistributed(kl.AveragePooling2D(2)), lambda: kl.ConvLSTM2D(2, 2), ways="fn"
    ),
    "time distributed normalization": sequential(
        (3, 4), lambda: kl.TimeDistributed(kl.LayerNormalization()), lambda: kl.Dense(2), ways="nn"
    ),
    "bidirectional stack": sequential(
        (4, 3),
        lambda: kl.Bidirectional(kl.GRU(2, return_sequences=True), merge_mode="sum"),
        lambda: kl.Bidirectional(kl.LSTM(2)),
        ways="nn",
    ),
    "recurrent dropout": sequential((5, 3), lambda: kl.GRU(3, dropout=0.5, recurrent_dropout=0.5), ways="n"),
    "states as outputs": functional((4, 3), ways="n")(lambda x: kl.LSTM(2, return_state=True)(x)),
    "encoder and decoder": functional((4, 3), (3, 2), ways="nnn")(encoder_and_decoder),
    "stateful simple rnn": stateful(lambda: kl.SimpleRNN(3, stateful=True)),
    "stateful gru": stateful(lambda: kl.GRU(2, stateful=True)),
    "stateful lstms": stateful(
        lambda: kl.LSTM(2, stateful=True, return_sequences=True), lambda: kl.LSTM(2, stateful=True)
    ),
    "bidirectional, two outputs": functional((4, 3), ways="m", heavy=True)(
        lambda x: kl.Bidirectional(kl.SimpleRNN(2), merge_mode=None)(x)
    ),
    "bidirectional product": sequential(
        (4, 3), lambda: kl.Bidirectional(kl.SimpleRNN(2, return_sequences=True), merge_mode="mul"), ways="n"
    ),
}
