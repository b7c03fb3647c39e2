"""The paper's networks for the hard maze."""

from __future__ import annotations

import keras

from tfsm_hardmaze.robot import SENSORS

BLOCK = 4
"""Layers that a residual connection skips."""


def deep(layers: int, units: int) -> keras.Model:
    """Return a plain network: a first layer, `layers` more of the same width, all SELU, and two sigmoid outputs."""
    hidden = [keras.layers.Dense(units, activation="selu", name=f"hidden_{i}") for i in range(layers + 1)]
    answer = keras.layers.Dense(2, activation="sigmoid", name="action")
    return keras.Sequential([keras.Input((SENSORS,)), *hidden, answer], name=f"maze_{layers}x{units}")


def residual(layers: int, units: int) -> keras.Model:
    """Return a residual network: a first layer, then `layers` more, all tanh, the input of every four added on."""
    seen = keras.Input((SENSORS,))
    value = skipped = keras.layers.Dense(units, activation="tanh", name="hidden_0")(seen)
    for i in range(1, layers + 1):
        value = keras.layers.Dense(units, activation="tanh", name=f"hidden_{i}")(value)
        if i % BLOCK == 0:
            value = skipped = keras.layers.Add(name=f"skip_{i}")([value, skipped])
    answer = keras.layers.Dense(2, activation="sigmoid", name="action")(value)
    return keras.Model(seen, answer, name=f"maze_{layers}x{units}_residual")
