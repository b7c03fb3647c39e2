"""Functional models: several inputs and outputs, shared layers, models within models."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers as kl

from tests.models.architectures.case import Case, N, functional
from tests.models.plain import drawn

BLOCKS = 30


def shared_weights(x: Any) -> Any:
    shared = kl.Dense(3, "tanh")
    return kl.Dense(2)(shared(shared(x)) + shared(2.0 * x))


def nested(x: Any) -> Any:
    inner_input = keras.Input((4,))
    inner = keras.Model(inner_input, kl.Dense(4, "tanh")(inner_input) + inner_input)
    head = keras.Sequential([keras.Input((4,)), kl.Dense(3, "relu"), keras.Sequential([kl.Dense(2)])])
    return head(inner(inner(kl.Dense(4)(x))))


def by_name() -> keras.Model:
    b, a = keras.Input((3,), name="b"), keras.Input((2,), name="a")
    return keras.Model({"b": b, "a": a}, kl.Dense(2)(kl.Concatenate()([kl.Dense(3)(b), a])))


def named_outputs(x: Any) -> Any:
    hidden = kl.Dense(4, "tanh")(x)
    return {"z": kl.Dense(1)(hidden), "a": kl.Dense(3, "softmax")(hidden)}


def deep(x: Any) -> Any:
    for _ in range(BLOCKS):
        x = kl.Add()([x, kl.Dense(3, "tanh")(x)])
    return kl.Dense(2)(x)


CASES: dict[str, Case] = {
    "residual": functional((4,), ways="nnfn")(
        lambda x: kl.Dense(2)(kl.Add()([kl.Dense(4, "tanh")(kl.Dense(4)(x)), x]))
    ),
    "two inputs": functional((4,), (3,), ways="nnf")(lambda a, b: kl.Dense(2)(a) - kl.Dense(2)(b)),
    "inputs by name": Case(by_name, [drawn(N, 2), drawn(N, 3, seed=1)], "nfn"),
    "two outputs": functional((4,), ways="nn")(lambda x: [kl.Dense(2)(x), kl.Dense(3, "sigmoid")(x)]),
    "outputs by name": functional((4,), ways="nnn")(named_outputs),
    "shared layer": functional((3,), ways="nffn")(shared_weights),
    "nested": functional((3,), ways="nnfnn")(nested),
    "operations": functional((4,), ways="nfff")(
        lambda x: keras.ops.concatenate([keras.ops.sin(kl.Dense(3)(x)), x[:, :2]], axis=-1)
    ),
    "a constant of the graph": functional((4,), ways="nff")(
        lambda x: kl.Dense(N)(x) * tf.constant([1.0, -2.0, 3.0, 0.5]) + np.float32([[1.0], [2.0], [3.0], [4.0]])[:1]
    ),
    "very deep residual": functional((3,), ways="nf" * BLOCKS + "n")(deep),
}
