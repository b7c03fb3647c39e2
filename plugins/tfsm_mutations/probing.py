"""Measures that can be estimated by random signs."""

from __future__ import annotations

from abc import ABC, abstractmethod

import tensorflow as tf

from tfsm.contracts import Nest, Tensor
from tfsm.kernels.noise import root_seed
from tfsm.models.network import Network
from tfsm_mutations.measuring import Measuring


class Probing(Measuring, ABC):
    """Measures exactly, or by probes with fresh signs for every child."""

    probes: int | None

    @abstractmethod
    def exact(self, network: Network, genome: Tensor, experience: Nest) -> Tensor:
        """Return the raw sensitivity `[B, P]`."""

    @abstractmethod
    def estimated(self, network: Network, genome: Tensor, experience: Nest, seed: Tensor, probes: int) -> Tensor:
        """Return an estimate of it by so many probes, with seeds `[B, 2]`."""

    def passes(self, network: Network) -> int:
        """Return the number of probes; 0: exact."""
        return self.probes or 0

    def measured(self, network: Network, genome: Tensor, experience: Nest, noise: Tensor, seed: Tensor) -> Tensor:
        """Return the raw sensitivity, or an estimate of it that belongs to this child alone."""
        probes = self.passes(network)
        return (
            self.estimated(network, genome, experience, seed, probes)
            if probes
            else self.exact(network, genome, experience)
        )

    def sensitivity(self, network: Network, genome: Tensor, experience: Nest, direction: Tensor) -> Tensor:
        """Return the raw sensitivity, or an estimate of it by always the same signs; the direction does not matter."""
        lanes = tf.shape(genome)[:-1]
        seed = tf.broadcast_to(root_seed(0), tf.concat([lanes, [2]], axis=0))
        return self.measured(network, genome, experience, direction, tf.ensure_shape(seed, [*genome.shape[:-1], 2]))

    def reusable(self, network: Network, available: int) -> bool:
        """Say no where signs are drawn anew for every child."""
        return not self.passes(network) and super().reusable(network, available)
