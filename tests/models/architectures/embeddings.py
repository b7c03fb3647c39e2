"""Embeddings: models with integer inputs."""

from __future__ import annotations

import keras
import numpy as np
from keras import layers as kl

from tests.models.architectures.case import Case, N

WORDS = np.random.default_rng(0).integers(0, 7, (N, 5), np.int32)


def tied() -> keras.Model:
    """Make a model that reads and writes with the same table."""
    words = keras.Input((5,), dtype="int32")
    table = kl.ReversibleEmbedding(7, 3)
    return keras.Model(words, table(kl.Dense(3, "tanh")(table(words)), reverse=True))


def with_places() -> keras.Model:
    words = keras.Input((5,), dtype="int32")
    places = kl.Embedding(5, 3)(keras.ops.cumsum(keras.ops.ones_like(words), axis=-1) - 1)
    return keras.Model(words, kl.Dense(2)(kl.GlobalAveragePooling1D()(kl.Embedding(7, 3)(words) + places)))


CASES: dict[str, Case] = {
    "embedding": Case(
        lambda: keras.Sequential([keras.Input((5,), dtype="int32"), kl.Embedding(7, 3), kl.Flatten(), kl.Dense(2)]),
        [WORDS],
        "nfn",
        copied=True,
    ),
    "embedding of words and places": Case(with_places, [WORDS], "fffnnffn", copied=True),
    "tied embedding": Case(tied, [WORDS], "mn"),
}
