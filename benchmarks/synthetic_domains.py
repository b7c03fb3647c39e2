"""Domains made for benchmarks: one that is never solved, and one whose evaluations only take time."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

import keras
import numpy as np

from tfsm.interfaces import Domain, Evaluation, Nest, Tensor
from tfsm.models.network import Network


@dataclass(frozen=True)
class UnsolvableDomain:
    """A domain that never reports a solution, so that runs never end."""

    inner: Domain

    @property
    def compiled(self) -> bool:
        """As in the inner domain."""
        return getattr(self.inner, "compiled", True)

    def network(self) -> keras.Model:
        """Return the network of the inner domain."""
        return self.inner.network()

    def evaluate(self, network: Network, genomes: Tensor, seed: Tensor) -> Evaluation:
        """Evaluate as the inner domain does, but report nothing as solved."""
        import tensorflow as tf

        evaluation = self.inner.evaluate(network, genomes, seed)
        return evaluation._replace(solved=tf.zeros_like(evaluation.solved))

    def observe(self, experience: Nest) -> Nest:
        """Return the inputs that the inner domain makes of its experience."""
        return self.inner.observe(experience)


@dataclass(frozen=True, kw_only=True)
class SleepingDomain:
    """A domain whose evaluations sleep. An individual's experience is as large as that of a pixel maze's agent."""

    compiled: ClassVar[bool] = False
    seconds: float = 0.0
    """Per evaluation."""
    weights: int = 20_000

    def network(self) -> keras.Model:
        """Return a network with about this many weights."""
        return keras.Sequential([keras.Input((10,)), keras.layers.Dense(self.weights // 11), keras.layers.Dense(1)])

    def evaluate(self, network: Network, genomes: Tensor, seed: Tensor) -> Evaluation:
        """Sleep as long as all evaluations take, one after another."""
        count = len(genomes)
        time.sleep(self.seconds * count)
        # Never solved, and all individuals differ.
        fitness = -np.abs(np.asarray(genomes)[:, :10]).sum(axis=1)
        return Evaluation(
            fitness, np.zeros(count, bool), np.zeros((count, 1), np.float32), np.zeros((count, 200), np.float32)
        )

    def observe(self, experience: Nest) -> Nest:
        """Return inputs made of the experience."""
        import tensorflow as tf

        return tf.reshape(experience, [-1, 20, 10])
