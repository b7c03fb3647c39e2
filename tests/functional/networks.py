"""Small models and inputs."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import layers as kl

OPERATORS = ("control", "sm-r", "sm-g-sum", "sm-g-abs", "sm-g-so")


def dense(dtype: str = "float32") -> keras.Model:
    parts = [keras.Input((3,), dtype=dtype), kl.Dense(4, "tanh", dtype=dtype), kl.Dense(2, dtype=dtype)]
    return keras.Sequential(parts, name="dense")


def linear(outputs: int = 2) -> keras.Model:
    return keras.Sequential([keras.Input((3,)), kl.Dense(outputs, use_bias=False)], name="linear")


def pictures() -> keras.Model:
    parts = [keras.Input((6, 6, 1)), kl.Conv2D(2, 3, activation="tanh"), kl.Flatten(), kl.Dense(2)]
    return keras.Sequential(parts, name="pictures")


def recurrent() -> keras.Model:
    parts = [keras.Input((3, 2)), kl.SimpleRNN(3, return_sequences=True), kl.Dense(2)]
    return keras.Sequential(parts, name="recurrent")


def two_inputs() -> keras.Model:
    left, right = keras.Input((2,), name="left"), keras.Input((3,), name="right")
    return keras.Model([left, right], kl.Dense(2, "tanh")(kl.Concatenate()([left, right])), name="two")


def stairs() -> keras.Model:
    x = keras.Input((3,))
    return keras.Model(x, keras.ops.round(5.0 * kl.Dense(2)(x)), name="stairs")


def normal(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)
