"""Small domains for tests of the engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import keras
import numpy as np
import tensorflow as tf

from tfsm.interfaces import Choice, Evaluation, Nest, Tensor
from tfsm.kernels.random import gaussian
from tfsm.models.network import Network


@dataclass(frozen=True, kw_only=True)
class Target:
    """Bring the weights of one linear unit close to (1, 2, 3); the experience of an individual is its own answer."""

    compiled: ClassVar[bool] = True
    near: float = 0.05
    broken_below: float | None = None
    """The fitness is NaN where the first weight is below this."""

    def network(self) -> keras.Model:
        return keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, use_bias=False, name="linear")])

    def evaluate(self, network: Network, genomes: Tensor, seed: Tensor) -> Evaluation:
        error = tf.reduce_sum(tf.square(genomes - tf.constant([1.0, 2.0, 3.0])), axis=-1)
        if self.broken_below is not None:
            error = tf.where(genomes[:, 0] < self.broken_below, float("nan"), error)
        return Evaluation(-error, error < self.near, genomes, {"answer": genomes})

    def observe(self, experience: Nest) -> Nest:
        # Two inputs for each individual, made of its experience.
        answer = experience["answer"]
        return tf.stack([answer, tf.ones_like(answer)], axis=1)


@dataclass(frozen=True, kw_only=True)
class HostTarget(Target):
    """The same domain in plain Python."""

    compiled: ClassVar[bool] = False

    def evaluate(self, network: Network, genomes: Tensor, seed: Tensor) -> Evaluation:
        genomes = np.asarray(genomes)
        error = ((genomes - np.array([1.0, 2.0, 3.0], np.float32)) ** 2).sum(axis=-1)
        return Evaluation(-error, error < self.near, genomes, {"answer": genomes})


@dataclass(frozen=True, kw_only=True)
class OneGenomeNoise:
    """An operator written for one genome."""

    def __call__(self, network: Network, parent: Tensor, experience: Nest, intensity: Tensor, seed: Tensor) -> Tensor:
        return parent + intensity * gaussian(seed, network.size, network.dtype)


@dataclass(frozen=True, kw_only=True)
class BestReplacesWorst:
    """A selection scheme written for one population."""

    def choose(self, fitness: Tensor, seed: Tensor) -> Choice:
        return Choice(tf.argmax(fitness), tf.argmin(fitness))

    def accepts(self, child: Tensor, replaced: Tensor) -> Tensor:
        return tf.ones_like(child, tf.bool)
