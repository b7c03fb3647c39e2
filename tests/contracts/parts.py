"""Every registered part, built with its default options."""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfsm.experiments.parts import build_part
from tfsm.kernels.noise import root_seed
from tfsm.models.network import Network
from tfsm.plugins import load_plugins
from tfsm.registry import Entry, Kind


def entries(kind: Kind) -> list[Entry]:
    return list(load_plugins().parts(kind).values())


NEEDS = {"tensorboard": "tensorboard"}
"""Modules without which a part cannot be made."""


@functools.cache
def part(entry: Entry) -> Any:
    if entry.name in NEEDS:
        pytest.importorskip(NEEDS[entry.name])
    return build_part(entry, {})


LARGE = 100_000
PICTURES = 5
"""Axes of sequences of pictures: deep networks see them, which take long."""


@functools.cache
def network_of(entry: Entry) -> Network:
    """Return the network of a domain; where that is a large one, a small one that takes and gives the same."""
    model = part(entry).network()
    if len(model.input_shape) == PICTURES:
        seen = [
            keras.layers.TimeDistributed(layer) for layer in (keras.layers.AveragePooling2D(8), keras.layers.Flatten())
        ]
        memory = keras.layers.SimpleRNN(4, return_sequences=True)
        last = keras.layers.Dense(model.output_shape[-1], activation="sigmoid")
        model = keras.Sequential([keras.Input(model.input_shape[1:]), *seen, memory, last])
    elif model.count_params() > LARGE:
        last = keras.layers.Dense(model.output_shape[-1], activation="sigmoid")
        model = keras.Sequential([keras.Input(model.input_shape[1:]), keras.layers.Dense(4, "tanh"), last])
    return Network(model)


def seeds(count: int, first: int = 0) -> tf.Tensor:
    return tf.stack([root_seed(1000 + first + i) for i in range(count)])


def genomes_for(network: Network, count: int) -> tf.Tensor:
    drawn = 0.5 * np.random.default_rng(1).standard_normal((count, network.size))
    return tf.constant(drawn, network.dtype)


@contextmanager
def no_global_randomness() -> Iterator[None]:
    """Fail where a global generator was used."""
    before = random.getstate(), np.random.get_state()[1].copy(), tf.random.get_global_generator().state.numpy()  # noqa: NPY002
    tf.random.set_seed(11)
    expected = tf.random.uniform([3]).numpy()
    tf.random.set_seed(11)
    yield
    np.testing.assert_array_equal(tf.random.uniform([3]), expected)
    assert random.getstate() == before[0]
    np.testing.assert_array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002
    np.testing.assert_array_equal(tf.random.get_global_generator().state, before[2])
