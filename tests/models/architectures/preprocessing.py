"""Models that take raw data."""

from __future__ import annotations

import keras
import numpy as np
from keras import layers as kl

from tests.models.architectures.case import Case, Make, N, sequential
from tests.models.plain import drawn

NUMBERS = np.random.default_rng(0).integers(0, 9, (N, 3), np.int64)


def normalized() -> keras.Model:
    normal = kl.Normalization()
    normal.adapt(3.0 + 2.0 * drawn(50, 3))
    return keras.Sequential([keras.Input((3,)), normal, kl.Dense(2)])


def of_numbers(make: Make) -> Case:
    def build() -> keras.Model:
        embedded = [make(), kl.Embedding(9, 2), kl.Flatten(), kl.Dense(2)]
        return keras.Sequential([keras.Input((3,), dtype="int64"), *embedded])

    return Case(build, [NUMBERS], "fnfn", copied=True)


CASES: dict[str, Case] = {
    "normalization of inputs": Case(normalized, [drawn(N, 3)], "fn"),
    "resized pictures": sequential(
        (4, 4, 1), lambda: kl.Rescaling(0.5), lambda: kl.Resizing(5, 5), lambda: kl.Conv2D(2, 3), ways="ffn"
    ),
    "augmented pictures": sequential(
        (4, 4, 1), kl.RandomFlip, lambda: kl.RandomRotation(0.2), lambda: kl.Conv2D(2, 3), ways="ffn"
    ),
    "hashing": of_numbers(lambda: kl.Hashing(9)),
    "integer lookup": of_numbers(lambda: kl.IntegerLookup(vocabulary=[1, 2, 3, 5])),
    "category encoding": Case(
        lambda: keras.Sequential([keras.Input((3,), dtype="int64"), kl.CategoryEncoding(9, "multi_hot"), kl.Dense(2)]),
        [NUMBERS],
        "fn",
    ),
    "discretization": sequential(
        (3,),
        lambda: kl.Discretization(bin_boundaries=[-0.5, 0.0, 0.5]),
        lambda: kl.Embedding(4, 2),
        kl.Flatten,
        lambda: kl.Dense(2),
        ways="fnfn",
        copied=True,
    ),
}
