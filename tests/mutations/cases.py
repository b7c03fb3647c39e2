"""One network of each kind, in float64 Keras and as its NumPy twin, with experience for it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers as kl

from tests.reference import forward as ref
from tests.reference import measures
from tests.reference import threefry as twin
from tfsm.evolution.variation import mutate_batch
from tfsm.kernels.random import root_seed
from tfsm.models.network import Network
from tfsm.plugins import load_plugins
from tfsm.plugins.registry import build_part

I = 5  # noqa: E741
GRADIENT = ("sm-g-sum", "sm-g-abs", "sm-g-so", "sm-g-rms")


@dataclass(frozen=True)
class Case:
    model: keras.Model
    rows: Callable[[np.ndarray, np.ndarray], np.ndarray]
    """The twin: from a genome and inputs to output rows."""
    inputs: np.ndarray

    @functools.cached_property
    def network(self) -> Network:
        return Network(self.model)

    @functools.cached_property
    def genome(self) -> np.ndarray:
        """Weights large enough for the network to be clearly nonlinear."""
        return 0.5 * np.random.default_rng(11).standard_normal(self.network.size)

    @functools.cached_property
    def jacobian(self) -> np.ndarray:
        return measures.jacobian(self.rows, self.genome, self.inputs)


SPECS: dict[str, tuple[tuple[int, ...], list[Callable[..., Any]], list[ref.Layer]]] = {
    "dense": (
        (3,),
        [functools.partial(kl.Dense, 4, "selu"), functools.partial(kl.Dense, 3, "softmax")],
        [ref.dense(4, ref.selu), ref.dense(3, ref.softmax)],
    ),
    "simple-rnn": (
        (4, 1),
        [functools.partial(kl.SimpleRNN, 3, return_sequences=True), functools.partial(kl.SimpleRNN, 3)],
        [ref.simple_rnn(3, sequences=True), ref.simple_rnn(3)],
    ),
    "gru": (
        (4, 2),
        [functools.partial(kl.GRU, 2), functools.partial(kl.Dense, 2, "sigmoid")],
        [ref.gru(2), ref.dense(2, ref.sigmoid)],
    ),
    "lstm": (
        (4, 2),
        [functools.partial(kl.LSTM, 2), functools.partial(kl.Dense, 2)],
        [ref.lstm(2), ref.dense(2)],
    ),
    "lstm, every time a row": (
        (4, 2),
        [functools.partial(kl.LSTM, 2, return_sequences=True)],
        [ref.lstm(2, sequences=True)],
    ),
    "conv2d": (
        (6, 5, 2),
        [
            functools.partial(kl.Conv2D, 2, 3, 2, padding="same", activation="tanh"),
            functools.partial(kl.Conv2D, 2, 2, activation="tanh"),
            kl.GlobalAveragePooling2D,
            functools.partial(kl.Dense, 2),
        ],
        [ref.conv2d(2, 3, stride=2, padding="same"), ref.conv2d(2, 2), ref.average_pool, ref.dense(2)],
    ),
    "conv-lstm2d": (
        (3, 5, 4, 1),
        [
            functools.partial(kl.ConvLSTM2D, 2, 3, strides=2, padding="same", return_sequences=True),
            functools.partial(kl.ConvLSTM2D, 1, 2),
            kl.GlobalAveragePooling2D,
            functools.partial(kl.Dense, 2),
        ],
        [
            ref.conv_lstm2d(2, 3, stride=2, padding="same", sequences=True),
            ref.conv_lstm2d(1, 2),
            ref.average_pool,
            ref.dense(2),
        ],
    ),
    "conv-lstm2d, in a loop": (
        (6, 3, 3, 1),
        [functools.partial(kl.ConvLSTM2D, 1, 2), kl.GlobalAveragePooling2D, functools.partial(kl.Dense, 2)],
        [ref.conv_lstm2d(1, 2), ref.average_pool, ref.dense(2)],
    ),
}


@functools.cache
def case(name: str) -> Case:
    shape, layers, reference = SPECS[name]
    model = keras.Sequential([keras.Input(shape, dtype="float64"), *(make(dtype="float64") for make in layers)])
    return Case(model, ref.network(reference), np.random.default_rng(5).standard_normal((I, *shape)))


def operator(name: str, **options: Any) -> Any:
    return build_part(load_plugins().mutations[name], options)


def sensitivity(name: str, of: Case, direction: np.ndarray | None = None) -> np.ndarray:
    """Return the sensitivity that an operator measures for the genome of a case."""
    along = np.ones_like(of.genome) if direction is None else direction
    inputs = tf.constant(of.inputs[None])
    return (
        operator(name)
        .sensitivity(of.network, tf.constant(of.genome[None]), inputs, tf.constant(along[None]))
        .numpy()[0]
    )


def noise_of(seed: int, size: int) -> np.ndarray:
    """Return the noise that an operator which also samples draws from a seed, by the twin."""
    return twin.gaussian(twin.split(root_seed(seed).numpy(), 2)[0], size)


def children(
    network: Network, genomes: np.ndarray, inputs: Any, name: str, intensity: float, seeds: list[int], **options: Any
) -> Any:
    """Mutate genomes `[B, P]` with experience `[B, N, ...]` or `[1, N, ...]` as the engine does, but eagerly."""
    genomes = tf.constant(genomes, network.dtype)
    seed = tf.stack([root_seed(s) for s in seeds])
    return mutate_batch(
        operator(name, **options), network, genomes, inputs, tf.constant(intensity, network.dtype), seed
    )
