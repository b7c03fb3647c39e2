"""The operator, which is imported when it is used."""

from dataclasses import dataclass

import tensorflow as tf
from tfsm.interfaces import Nest, Tensor
from tfsm.kernels.random import split, uniform
from tfsm.models.network import Network

from tfsm_example.options import SparseNoiseOptions


@dataclass(frozen=True, kw_only=True)
class SparseNoise(SparseNoiseOptions):
    """Add noise to a random share of the weights, at least to one."""

    def __call__(self, network: Network, parent: Tensor, experience: Nest, intensity: Tensor, seed: Tensor) -> Tensor:
        """Return the child of a parent [P]."""
        which_seed, noise_seed = split(seed, 2)
        drawn = uniform(which_seed, network.size)  # [P]
        changes = tf.cast(drawn <= tf.maximum(self.share, tf.reduce_min(drawn)), parent.dtype)
        return parent + intensity * changes * network.noise(noise_seed)
