"""The networks that play where the user brings none: small, all of tanh, one output for each action."""

from __future__ import annotations

import keras


def dense(inputs: int, actions: int, *, layers: int, units: int) -> keras.Model:
    """Return a network for the numbers of a state."""
    return keras.Sequential(
        [keras.Input((inputs,)), *_hidden(layers, units), keras.layers.Dense(actions, name="action")], name="player"
    )


def convolutional(side: int, actions: int, *, layers: int, units: int) -> keras.Model:
    """Return a network for a screen in grey."""
    return keras.Sequential(
        [
            keras.Input((side, side, 1)),
            keras.layers.Conv2D(8, 8, strides=4, activation="tanh", name="coarse"),
            keras.layers.Conv2D(16, 4, strides=2, activation="tanh", name="fine"),
            keras.layers.Flatten(),
            *_hidden(layers, units),
            keras.layers.Dense(actions, name="action"),
        ],
        name="player",
    )


def _hidden(layers: int, units: int) -> list[keras.layers.Layer]:
    return [keras.layers.Dense(units, activation="tanh", name=f"hidden_{i + 1}") for i in range(layers)]
