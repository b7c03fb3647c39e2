"""Plain Keras, one genome at a time, as a reference for batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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


def stateful_layers(model: keras.Model) -> list[Any]:
    return [layer for layer in model._flatten_layers() if getattr(layer, "stateful", False)]


def all_variables(model: keras.Model) -> list[Any]:
    """Return all variables that a call could change: weights, statistics, seeds, and states."""
    return [*model.variables, *(state for layer in stateful_layers(model) for state in tf.nest.flatten(layer.states))]


def run(model: keras.Model, genome: np.ndarray, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Call the model with these weights from the initial state, and restore its weights and states."""
    everything = all_variables(model)
    before = [v.numpy().copy() for v in everything]
    place = 0
    for variable in model.trainable_variables:
        size = int(np.prod(variable.shape))
        variable.assign(genome[place : place + size].reshape(variable.shape))
        place += size
    assert place == len(genome)
    for layer in stateful_layers(model):
        layer.reset_state()
    given = [tf.constant(x) for x in inputs]
    structure = getattr(model, "input", None)
    packed = tf.nest.pack_sequence_as(structure, given) if isinstance(structure, dict) else given
    outputs = model(packed[0] if len(given) == 1 and not isinstance(structure, dict) else packed, training=False)
    for variable, value in zip(everything, before, strict=True):
        variable.assign(value)
    return [np.asarray(output) for output in tf.nest.flatten(outputs)]
