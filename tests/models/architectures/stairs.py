"""Models without a gradient."""

from __future__ import annotations

import keras
from keras import layers as kl

from tests.models.architectures.case import Case, functional

CASES: dict[str, Case] = {
    "rounded": functional((3,), ways="nfff", stairs=True)(lambda x: keras.ops.round(9.0 * kl.Dense(2)(x)) / 9.0),
    "argmax": functional((3,), ways="nf", stairs=True)(lambda x: keras.ops.argmax(kl.Dense(4)(x), axis=-1)),
}
