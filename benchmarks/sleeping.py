"""A domain whose evaluations take as long as one says, and no processor: for measuring what is around them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

import keras
import numpy as np

from tfsm.interfaces import Evaluation, Nest, Tensor
from tfsm.models.network import Network


@dataclass(frozen=True, kw_only=True)
class Sleeping:
    """Sleeps; what an individual saw is as large as that of a pixel maze's agent."""

    compiled: ClassVar[bool] = False
    seconds: float = 0.0
    weights: int = 20_000

    def network(self) -> keras.Model:
        """Return a network with about so many weights."""
        return keras.Sequential([keras.Input((10,)), keras.layers.Dense(self.weights // 11), keras.layers.Dense(1)])

    def evaluate(self, network: Network, genomes: Tensor, seed: Tensor) -> Evaluation:
        """Sleep as long as all of them take, one after another."""
        count = len(genomes)
        time.sleep(self.seconds * count)
        # Never solved, and nobody is like another.
        fitness = -np.abs(np.asarray(genomes)[:, :10]).sum(axis=1)
        return Evaluation(
            fitness, np.zeros(count, bool), np.zeros((count, 1), np.float32), np.zeros((count, 200), np.float32)
        )

    def observe(self, experience: Nest) -> Nest:
        """Return inputs made of what was seen."""
        import tensorflow as tf

        return tf.reshape(experience, [-1, 20, 10])
