"""Models of other precisions than float32."""

from __future__ import annotations

import keras
from keras import layers as kl

from tests.models.architectures.case import Build, Case, N, in_policy
from tests.models.plain import drawn


def dense() -> keras.Model:
    return keras.Sequential([keras.Input((3,)), kl.Dense(4, "tanh"), kl.Dense(2)])


def pictures() -> keras.Model:
    return keras.Sequential([keras.Input((4, 4, 2)), kl.Conv2D(3, 2, activation="relu"), kl.Flatten(), kl.Dense(2)])


def sequences() -> keras.Model:
    return keras.Sequential([keras.Input((4, 3)), kl.LSTM(3), kl.LayerNormalization(), kl.Dense(2)])


def lower(name: str, build: Build, shape: tuple[int, ...], ways: str, tolerance: float = 2e-2) -> Case:
    return Case(in_policy(name, build), [drawn(N, *shape)], ways, exact=build, tolerance=tolerance)


CASES: dict[str, Case] = {
    "mixed_float16": lower("mixed_float16", dense, (3,), "nn"),
    "mixed_float16, pictures": lower("mixed_float16", pictures, (4, 4, 2), "nfn"),
    "mixed_bfloat16": lower("mixed_bfloat16", sequences, (4, 3), "nnn", tolerance=0.1),
    "float16": lower("float16", dense, (3,), "nn"),
    "bfloat16": lower("bfloat16", dense, (3,), "nn", tolerance=0.1),
    "float64": Case(in_policy("float64", sequences), [drawn(N, 4, 3)], "nnn"),
}
