from __future__ import annotations

import keras
import numpy as np

SEEN = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)


def make_network() -> keras.Model:
    """Return a network of 17 weights."""
    return keras.Sequential([keras.Input((3,)), keras.layers.Dense(3, "tanh"), keras.layers.Dense(1, use_bias=True)])
