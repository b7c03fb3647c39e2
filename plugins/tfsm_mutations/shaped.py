"""What the SM-G variants do with a sensitivity: divide noise by it."""

from __future__ import annotations

from abc import ABC

from tfsm.contracts import Nest, Tensor
from tfsm.kernels.guards import bounded, clipped
from tfsm.kernels.noise import split
from tfsm.models.network import Network
from tfsm_mutations.measuring import Measuring
from tfsm_mutations.options import GradientOptions


class ShapedNoise(Measuring, GradientOptions, ABC):
    r"""Perturb each weight in inverse proportion to its sensitivity.

    .. math:: w' = w + \sigma z / s, \quad z \sim N(0, 1)
    """

    def __call__(self, network: Network, parent: Tensor, experience: Nest, intensity: Tensor, seed: Tensor) -> Tensor:
        """Return the child; `intensity` is the noise's standard deviation before it is divided."""
        noise, _, sensitivity = self.drawn(network, parent, experience, seed, intensity)
        return self._divided(parent, noise, sensitivity)

    def child(self, network: Network, parent: Tensor, sensitivity: Tensor, intensity: Tensor, seed: Tensor) -> Tensor:
        """Return the child that a call would, from a sensitivity that is known already."""
        noise_seed, _ = split(seed, 2)
        return self._divided(parent, intensity * network.noise(noise_seed), sensitivity)

    def _divided(self, parent: Tensor, noise: Tensor, sensitivity: Tensor) -> Tensor:
        return parent + clipped(noise / bounded(sensitivity, self.zero, self.floor), self.max_change)
