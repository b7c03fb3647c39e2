"""Parts that the part under test is run with: small, and of no interest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import keras
import tensorflow as tf

from tfsm.contracts import Choice, Evaluation, Nest, Tensor
from tfsm.kernels.noise import uniform
from tfsm.models.network import Network
from tfsm.testing.networks import ANSWERS, INPUTS, plain_model


@dataclass(frozen=True, kw_only=True)
class Questions:
    """Answer two random questions with a half; every individual sees questions of its own."""

    behavior_bounds: ClassVar[tuple[tuple[float, float], ...]] = ((0.0, 1.0),) * 2 * ANSWERS

    def network(self) -> keras.Model:
        """Return the model that operators are tried on."""
        return plain_model()

    def evaluate(self, network: Network, genomes: Tensor, seed: Tensor) -> Evaluation:
        """Return minus the squared error; nobody ever solves it."""
        seen = tf.reshape(uniform(seed, 2 * INPUTS), [-1, 2, INPUTS])
        answers = tf.reshape(network.rows(genomes, seen), [-1, 2 * ANSWERS])
        errors = tf.square(answers - 0.5)
        error = tf.reduce_sum(errors, axis=-1)
        return Evaluation(-error, error < 0.0, answers, seen, -errors)

    def observe(self, experience: Nest) -> Nest:
        """Return the questions."""
        return experience


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Add noise."""

    def __call__(self, network: Network, parent: Tensor, experience: Nest, intensity: Tensor, seed: Tensor) -> Tensor:
        """Return the child."""
        return parent + intensity * network.noise(seed)


@dataclass(frozen=True, kw_only=True)
class Anybody:
    """Let anybody breed, and put the child in the place of the worst."""

    def choose(self, fitness: Tensor, seed: Tensor) -> Choice:
        """Choose by chance."""
        parent = tf.cast(uniform(seed, 1)[0] * fitness.shape[-1], tf.int32)
        return Choice(parent, tf.argmin(fitness))

    def accepts(self, child: Tensor, replaced: Tensor) -> Tensor:
        """Let every child in."""
        return tf.ones_like(child, tf.bool)
