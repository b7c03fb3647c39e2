"""What parts are tried on: networks, genomes, seeds."""

from __future__ import annotations

from typing import Any, Final

import keras
import numpy as np
import tensorflow as tf

from tfsm.contracts import Tensor
from tfsm.kernels.noise import root_seed
from tfsm.models.network import Network

LARGE: Final = 100_000
PICTURES: Final = 5
"""Axes of sequences of pictures: deep networks see them, which take long."""
INPUTS: Final = 3
ANSWERS: Final = 2


def plain_model() -> keras.Model:
    """Return a small model for operators: 3 numbers in, 2 out."""
    first, last = keras.layers.Dense(4, "tanh", name="first"), keras.layers.Dense(ANSWERS, "sigmoid", name="last")
    return keras.Sequential([keras.Input((INPUTS,)), first, last])


def partly_frozen_model() -> keras.Model:
    """Return the same with a layer that does not learn, and with statistics, which do not either."""
    frozen = keras.layers.Dense(4, "tanh", name="frozen")
    frozen.trainable = False
    first, *rest = plain_model().layers
    return keras.Sequential([keras.Input((INPUTS,)), first, keras.layers.BatchNormalization(), frozen, *rest])


def network_of(domain: Any) -> Network:
    """Return a domain's network; where that is a large one, a small one that takes and gives the same."""
    model = domain.network()
    shape = getattr(model, "input_shape", None)
    if not isinstance(shape, tuple):
        return Network(model)
    if len(shape) == PICTURES:
        pooled = keras.layers.TimeDistributed(keras.layers.AveragePooling2D(8))
        seen = [pooled, keras.layers.TimeDistributed(keras.layers.Flatten())]
        return _small(model, *seen, keras.layers.SimpleRNN(4, return_sequences=True))
    if model.count_params() > LARGE and len(shape) == 2:
        return _small(model, keras.layers.Dense(4, "tanh"))
    return Network(model)


def seeds(count: int, first: int = 0) -> Tensor:
    """Return different seeds `[count, 2]`."""
    return tf.stack([root_seed(1000 + first + i) for i in range(count)])


def genomes(network: Network, count: int) -> Tensor:
    """Return different genomes `[count, P]`, always the same ones."""
    drawn = 0.5 * np.random.default_rng(1).standard_normal((count, network.size))
    return tf.constant(drawn, network.dtype)


def _small(model: keras.Model, *layers: keras.layers.Layer) -> Network:
    last = keras.layers.Dense(model.output_shape[-1], activation="sigmoid")
    return Network(keras.Sequential([keras.Input(model.input_shape[1:]), *layers, last]))
