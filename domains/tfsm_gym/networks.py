"""The networks that act where the user brings none, by what is seen and what can be done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import keras
import numpy as np

from tfsm.errors import TfsmError
from tfsm.rollouts.networks import eye, hidden, last, player
from tfsm_gym.acting import Actor
from tfsm_gym.options import GymOptions

MEMORIES: Final[dict[str, Any]] = {
    "simple-rnn": keras.layers.SimpleRNN,
    "gru": keras.layers.GRU,
    "lstm": keras.layers.LSTM,
}


def network_for(blank: Mapping[str, np.ndarray], actor: Actor, options: GymOptions) -> keras.Model:
    """Return a small network, built.

    Args:
        blank: what is seen, by the inputs' names.
        actor: what is asked.
        options: how large it shall be, and whether it shall remember.
    """
    if options.recurrent != "none":
        return _remembering(blank, actor, options)
    if len(blank) > 1:
        return _several(blank, actor, options)
    (seen,) = blank.values()
    return player(seen.shape, actor.outputs, layers=options.layers, units=options.units, activation=actor.activation)


def _several(blank: Mapping[str, np.ndarray], actor: Actor, options: GymOptions) -> keras.Model:
    inputs = {name: keras.Input(seen.shape, name=name) for name, seen in blank.items()}
    parts = []
    for name, x in inputs.items():
        for layer in eye(blank[name].shape, f"{name}_") if blank[name].ndim > 1 else ():
            x = layer(x)
        parts.append(x)
    x = keras.layers.Concatenate(name="together")(parts)
    for layer in [*hidden(options.layers, options.units), last(actor.outputs, actor.activation)]:
        x = layer(x)
    return keras.Model(inputs, x, name="player")


def _remembering(blank: Mapping[str, np.ndarray], actor: Actor, options: GymOptions) -> keras.Model:
    if len(blank) > 1:
        raise TfsmError(
            f"recurrent={options.recurrent}: a network that remembers takes one input, and {options.env!r} has "
            f"{len(blank)}: {', '.join(blank)}"
        )
    (seen,) = blank.values()
    front = []
    if seen.ndim > 1:
        picture = keras.Sequential([keras.Input(seen.shape), *eye(seen.shape)], name="eye")
        front.append(keras.layers.TimeDistributed(picture, name="each_time"))
    memory = MEMORIES[options.recurrent](options.units, return_sequences=True, name="memory")
    return keras.Sequential(
        [
            keras.Input((options.remembered, *seen.shape)),
            *front,
            *hidden(options.layers - 1, options.units),
            memory,
            last(actor.outputs, actor.activation),
        ],
        name="player",
    )
