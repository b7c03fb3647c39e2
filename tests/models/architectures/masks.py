"""Masks."""

from __future__ import annotations

import keras
import numpy as np
from keras import layers as kl

from tests.models.architectures.case import Case, N, functional
from tests.models.plain import drawn

CASES: dict[str, Case] = {
    "masking": Case(
        lambda: keras.Sequential([keras.Input((5, 2)), kl.Masking(), kl.LSTM(3)]),
        [drawn(N, 5, 2) * (np.arange(5) < 3)[:, None].astype(np.float32)],
        "m",
        heavy=True,
    ),
    "masked embedding": Case(
        lambda: keras.Sequential([keras.Input((5,)), kl.Embedding(7, 3, mask_zero=True), kl.GRU(2)]),
        [np.float32([[1, 2, 3, 0, 0], [6, 5, 4, 3, 2], [1, 0, 0, 0, 0], [2, 2, 0, 0, 0]])],
        "m",
        heavy=True,
    ),
    "a mask as an argument": functional((5, 3), (5,), ways="fm")(lambda x, m: kl.LSTM(4)(x, mask=m > 0)),
}
