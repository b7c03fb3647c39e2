"""The networks that play where the user brings none: small, all of tanh, one output for each number that is asked."""

from __future__ import annotations

from typing import Final

import keras

COARSE: Final = 20
"""Pixels that each side of a picture needs for windows of eight and four pixels, one behind the other."""


def player(
    shape: tuple[int, ...], outputs: int, *, layers: int, units: int, activation: str | None = None
) -> keras.Model:
    """Return a network for a row of numbers, or for a picture `[height, width, channels]`."""
    front = eye(shape) if len(shape) > 1 else []
    return keras.Sequential(
        [keras.Input(shape), *front, *hidden(layers, units), last(outputs, activation)], name="player"
    )


def eye(shape: tuple[int, ...], name: str = "") -> list[keras.layers.Layer]:
    """Return two convolutions; a picture that is too small for wide ones gets narrow ones."""
    coarse, fine = ((8, 4), (4, 2)) if min(shape[:2]) >= COARSE else ((3, 1), (3, 1))
    padding = "valid" if min(shape[:2]) >= COARSE else "same"
    return [
        keras.layers.Conv2D(8, coarse[0], coarse[1], padding, activation="tanh", name=f"{name}coarse"),
        keras.layers.Conv2D(16, fine[0], fine[1], padding, activation="tanh", name=f"{name}fine"),
        keras.layers.Flatten(name=f"{name}flat"),
    ]


def hidden(layers: int, units: int) -> list[keras.layers.Layer]:
    """Return hidden layers."""
    return [keras.layers.Dense(units, activation="tanh", name=f"hidden_{i + 1}") for i in range(layers)]


def last(outputs: int, activation: str | None = None) -> keras.layers.Layer:
    """Return the output layer."""
    return keras.layers.Dense(outputs, activation=activation, name="action")
