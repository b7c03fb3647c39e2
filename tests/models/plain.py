"""Plain Keras, one genome at a time: what running many at once must equal."""

from __future__ import annotations

from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf


def drawn(*shape: int, seed: int = 0, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def own_weights(model: keras.Model) -> np.ndarray:
    return np.concatenate([v.numpy().ravel() for v in model.trainable_variables])


def genomes_of(model: keras.Model, count: int, spread: float = 0.3) -> np.ndarray:
    """Draw genomes around the model's own weights."""
    own = own_weights(model)
    return own + spread * np.random.default_rng(7).standard_normal((count, len(own))).astype(own.dtype)


def run(model: keras.Model, genome: np.ndarray, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Give the model these weights, call it, and give it its own back."""
    before = [v.numpy().copy() for v in model.trainable_variables]
    place = 0
    for variable in model.trainable_variables:
        size = int(np.prod(variable.shape))
        variable.assign(genome[place : place + size].reshape(variable.shape))
        place += size
    assert place == len(genome)
    given = [tf.constant(x) for x in inputs]
    structure = getattr(model, "input", None)
    packed = tf.nest.pack_sequence_as(structure, given) if isinstance(structure, dict) else given
    outputs = model(packed[0] if len(given) == 1 and not isinstance(structure, dict) else packed, training=False)
    for variable, value in zip(model.trainable_variables, before, strict=True):
        variable.assign(value)
    return [np.asarray(output) for output in tf.nest.flatten(outputs)]
