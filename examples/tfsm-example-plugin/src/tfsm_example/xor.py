"""The domain, which is imported when it is used."""

from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf
from tfsm import Evaluation
from tfsm.interfaces import Tensor
from tfsm.models.network import Network

from tfsm_example.options import XorOptions

INPUTS = [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
TARGETS = [0.0, 1.0, 1.0, 0.0]


@dataclass(frozen=True, kw_only=True)
class Xor(XorOptions):
    """Learn exclusive or."""

    def network(self) -> keras.Model:
        """Return the network to evolve."""
        hidden = keras.layers.Dense(self.units, activation="tanh")
        return keras.Sequential([keras.Input((2,)), hidden, keras.layers.Dense(1, activation="sigmoid")])

    def evaluate(self, network: Network, genomes: Tensor, seed: Tensor) -> Evaluation:
        """Evaluate genomes [B, P] on all four inputs."""
        outputs = network.rows(genomes, self.observe(()))[..., 0]  # [B, 4]
        errors = tf.abs(outputs - tf.constant(TARGETS))
        return Evaluation(
            fitness=-tf.reduce_mean(tf.square(errors), axis=-1),  # [B]
            solved=tf.reduce_all(errors < 0.5, axis=-1),  # [B]
            behavior=outputs,  # [B, 4]
        )

    def observe(self, experience: Any) -> Tensor:
        """Return the inputs, which are the same for all genomes."""
        return tf.constant([INPUTS])  # [1, 4, 2]
