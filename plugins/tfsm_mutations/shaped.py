"""What the three SM-G variants share: noise, divided by a sensitivity that each measures in its own way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from tfsm.contracts import Nest, Tensor
from tfsm.kernels.guards import bounded, clipped
from tfsm.kernels.noise import split
from tfsm.kernels.sampling import sample_experiences
from tfsm.models.network import Network
from tfsm_mutations.options import GradientOptions


class ShapedNoise(GradientOptions, ABC):
    r"""Perturb each weight in inverse proportion to its sensitivity.

    .. math:: w' = w + \sigma z / s, \quad z \sim N(0, 1)
    """

    batched: ClassVar[bool] = True
    needs_gradient: ClassVar[bool] = True

    @abstractmethod
    def sensitivity(self, network: Network, genome: Tensor, experience: Nest, direction: Tensor) -> Tensor:
        """Return the raw sensitivity `[B, P]`, before any guard; `direction` is the perturbation to come."""

    def __call__(self, network: Network, parent: Tensor, experience: Nest, intensity: Tensor, seed: Tensor) -> Tensor:
        """Return the child; `intensity` is the noise's standard deviation before it is divided."""
        noise_seed, sample_seed = split(seed, 2)
        seen = sample_experiences(experience, self.experiences, sample_seed, replacement=self.replacement)
        noise = intensity * network.noise(noise_seed)
        return self._divided(parent, noise, self.sensitivity(network, parent, seen, self.direction(noise)))

    def reusable(self, available: int) -> bool:
        """Say whether the sensitivity is the same for every child of a parent that had so many experiences."""
        return not self.replacement and self.experiences >= available

    def child(self, network: Network, parent: Tensor, sensitivity: Tensor, intensity: Tensor, seed: Tensor) -> Tensor:
        """Return the child that a call would, from a sensitivity that is known already."""
        noise_seed, _ = split(seed, 2)
        return self._divided(parent, intensity * network.noise(noise_seed), sensitivity)

    def direction(self, noise: Tensor) -> Tensor:
        """Return the direction to measure along, from the perturbation to come."""
        return noise

    def _divided(self, parent: Tensor, noise: Tensor, sensitivity: Tensor) -> Tensor:
        return parent + clipped(noise / bounded(sensitivity, self.zero, self.floor), self.max_change)
