"""Models and layers that users write themselves."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import layers as kl

from tests.models.architectures.case import Case, N, sequential
from tests.models.plain import drawn


@keras.saving.register_keras_serializable("tests")
class Subclassed(keras.Model):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.hidden, self.normal, self.out = kl.Dense(4, "tanh"), kl.BatchNormalization(), kl.Dense(2)

    def call(self, x: Any, training: bool = False) -> Any:
        hidden = self.normal(self.hidden(x), training=training)
        return keras.ops.multiply(self.out(hidden), keras.ops.sum(x, axis=-1, keepdims=True))


@keras.saving.register_keras_serializable("tests")
class Doubled(keras.Sequential):
    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        return 2.0 * super().call(inputs, training=training, mask=mask)


@keras.saving.register_keras_serializable("tests")
class Scaled(kl.Layer):
    """Has weights, and a state that only training changes."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.seeds = keras.random.SeedGenerator(3)

    def build(self, shape: Any) -> None:
        self.scale = self.add_weight(shape=(shape[-1],), initializer="ones", name="scale")
        self.seen = self.add_weight(shape=(), initializer="zeros", trainable=False, name="seen")

    def call(self, x: Any, training: bool = False) -> Any:
        if training:
            self.seen.assign_add(1.0)
            x = keras.random.dropout(x, 0.5, seed=self.seeds)
        return x * self.scale


@keras.saving.register_keras_serializable("tests")
class Counting(kl.Layer):
    """Has no weights, and a state that every call changes."""

    def build(self, shape: Any) -> None:
        self.calls = self.add_weight(shape=(), initializer="zeros", trainable=False, name="calls")

    def call(self, x: Any) -> Any:
        self.calls.assign_add(1.0)
        return x / (1.0 + self.calls)


@keras.saving.register_keras_serializable("tests")
class AlwaysNoisy(kl.Layer):
    """Adds noise in inference too, with its own generator."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.seeds = keras.random.SeedGenerator(5)

    def call(self, x: Any) -> Any:
        return x + keras.random.normal(keras.ops.shape(x), dtype=x.dtype, seed=self.seeds)


def subclassed() -> keras.Model:
    model = Subclassed()
    model(np.zeros((1, 3), np.float32))
    return model


CASES: dict[str, Case] = {
    "subclassed": Case(subclassed, [drawn(N, 3)], "m"),
    "subclassed sequential": Case(lambda: Doubled([keras.Input((3,)), kl.Dense(2)]), [drawn(N, 3)], "m"),
    "custom layer": sequential((3,), lambda: kl.Dense(4, "tanh"), Scaled, lambda: kl.Dense(2), ways="nmn"),
    "custom layer that counts": sequential((3,), lambda: kl.Dense(4), Counting, lambda: kl.Dense(2), ways="nfn"),
    "custom layer that is always noisy": sequential(
        (3,), lambda: kl.Dense(4), AlwaysNoisy, lambda: kl.Dense(2), ways="nmn"
    ),
}
