"""Trained networks of 100,000 to a million weights, on scikit-learn's digits and on generated data; nothing is loaded.

`load_case(name, cache)` trains a network once and keeps its weights in a cache directory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np

kl = keras.layers


@dataclass(frozen=True)
class Data:
    """Examples for training and for testing."""

    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


@dataclass(frozen=True)
class Case:
    """A trained network with its data."""

    name: str
    model: keras.Model
    data: Data

    @property
    def classifies(self) -> bool:
        """Whether the outputs are scores of classes."""
        return self.data.y.dtype.kind == "i"

    def score(self, outputs: np.ndarray) -> np.ndarray:
        """Return the accuracy, or the share of variance explained, `[B]` of outputs `[B, N, K]` for test inputs."""
        y = self.data.y_test
        if self.classifies:
            return (outputs.argmax(axis=-1) == y).mean(axis=-1)
        return 1 - ((outputs[..., 0] - y) ** 2).mean(axis=-1) / y.var()


@dataclass(frozen=True)
class Recipe:
    """How a network is made."""

    data: Callable[[], Data]
    build: Callable[[], keras.Model]
    epochs: int
    logits: bool = False
    rate: float = 1e-3


def _split(x: np.ndarray, y: np.ndarray, test: int, seed: int = 0) -> Data:
    order = np.random.default_rng(seed).permutation(len(x))
    x, y = x[order], y[order]
    return Data(x[test:], y[test:], x[:test], y[:test])


def digits() -> Data:
    """Return scikit-learn's digits, 8x8 pixels between 0 and 1."""
    from sklearn.datasets import load_digits

    loaded = load_digits()
    return _split((loaded.images / 16).astype(np.float32)[..., None], loaded.target.astype(np.int64), 400)


def recall() -> Data:
    """Return sequences of 20 symbols out of 8, and the symbol that follows the first zero."""
    random = np.random.default_rng(1)
    x = random.integers(1, 8, (5_000, 20))
    place = random.integers(0, 19, 5_000)
    rows = np.arange(len(x))
    x[rows, place] = 0
    return _split(x.astype(np.int32), x[rows, place + 1].astype(np.int64), 1_000)


def majority() -> Data:
    """Return sequences of 24 symbols out of 6, and the most frequent symbol; ties are left out."""
    random = np.random.default_rng(2)
    x = random.integers(0, 6, (9_000, 24))
    counts = np.stack([(x == symbol).sum(axis=1) for symbol in range(6)], axis=1)
    first, second = np.sort(counts, axis=1)[:, [-1, -2]].T
    clear = first > second
    return _split(x[clear][:5_000].astype(np.int32), counts.argmax(axis=1)[clear][:5_000].astype(np.int64), 1_000)


def friedman() -> Data:
    """Return Friedman's first regression problem: ten inputs, of which five matter, and noise."""
    from sklearn.datasets import make_friedman1

    x, y = make_friedman1(5_000, noise=0.5, random_state=3)
    return _split(x.astype(np.float32), ((y - y.mean()) / y.std()).astype(np.float32), 1_000)


def build_cnn() -> keras.Model:
    """Return a CNN with batch normalization and a softmax."""
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            kl.Conv2D(64, 3, padding="same", activation="relu"),
            kl.BatchNormalization(momentum=0.9),
            kl.Conv2D(128, 3, padding="same", activation="relu"),
            kl.MaxPooling2D(),
            kl.BatchNormalization(momentum=0.9),
            kl.Conv2D(256, 3, padding="same", activation="relu"),
            kl.GlobalAveragePooling2D(),
            kl.Dense(512, "relu"),
            kl.Dense(512, "relu"),
            kl.Dense(10, "softmax"),
        ],
        name="cnn",
    )


def build_residual() -> keras.Model:
    """Return a residual network of eleven convolutions with batch normalization; its outputs are logits."""
    image = keras.Input((8, 8, 1))
    x = kl.Conv2D(48, 3, padding="same")(image)
    for _ in range(5):
        skipped = x
        for _ in range(2):
            x = kl.Activation("relu")(kl.BatchNormalization(momentum=0.9)(x))
            x = kl.Conv2D(48, 3, padding="same")(x)
        x = kl.Add()([x, skipped])
    x = kl.Activation("relu")(kl.BatchNormalization(momentum=0.9)(x))
    return keras.Model(image, kl.Dense(10)(kl.GlobalAveragePooling2D()(x)), name="residual")


def build_gru() -> keras.Model:
    """Return two recurrent layers and a softmax."""
    return keras.Sequential(
        [
            keras.Input((20,), dtype="int32"),
            kl.Embedding(8, 32),
            kl.GRU(128, return_sequences=True),
            kl.GRU(128),
            kl.Dense(8, "softmax"),
        ],
        name="gru",
    )


def build_transformer() -> keras.Model:
    """Return three blocks of attention with layer normalization, without positions; its outputs are logits."""
    tokens = keras.Input((24,), dtype="int32")
    x = kl.Embedding(6, 64)(tokens)
    for _ in range(3):
        normalized = kl.LayerNormalization()(x)
        x = kl.Add()([x, kl.MultiHeadAttention(4, 16)(normalized, normalized)])
        x = kl.Add()([x, kl.Dense(64)(kl.Dense(192, "gelu")(kl.LayerNormalization()(x)))])
    return keras.Model(tokens, kl.Dense(6)(kl.GlobalAveragePooling1D()(kl.LayerNormalization()(x))), name="transformer")


def build_regression() -> keras.Model:
    """Return a plain network with one linear output."""
    hidden = [kl.Dense(units, "relu") for units in (512, 512, 256)]
    return keras.Sequential([keras.Input((10,)), *hidden, kl.Dense(1)], name="regression")


RECIPES = {
    "cnn": Recipe(digits, build_cnn, epochs=10),
    "residual": Recipe(digits, build_residual, epochs=8, logits=True),
    "gru": Recipe(recall, build_gru, epochs=8, rate=3e-3),
    "transformer": Recipe(majority, build_transformer, epochs=8, logits=True),
    "regression": Recipe(friedman, build_regression, epochs=20),
}


def load_case(name: str, cache: Path) -> Case:
    """Return a trained network; it is trained unless its weights are in the cache."""
    recipe = RECIPES[name]
    data = recipe.data()
    keras.utils.set_random_seed(0)
    model = recipe.build()
    file = cache / f"{name}.weights.h5"
    if file.is_file():
        model.load_weights(file)
        return Case(name, model, data)
    train(model, data, epochs=recipe.epochs, logits=recipe.logits, rate=recipe.rate)
    cache.mkdir(parents=True, exist_ok=True)
    temporary = cache / f"{name}.part.weights.h5"
    model.save_weights(temporary)
    temporary.replace(file)
    return Case(name, model, data)


def train(model: keras.Model, data: Data, *, epochs: int, logits: bool = False, rate: float = 1e-3) -> None:
    """Train a model by gradient descent."""
    loss: Any = "mse"
    if data.y.dtype.kind == "i":
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=logits)
    model.compile(keras.optimizers.Adam(rate), loss)
    model.fit(data.x, data.y, epochs=epochs, batch_size=64, verbose=0)
