"""What all SM-G variants share: a sensitivity, which each measures in its own way, of experiences drawn by the seed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from tfsm.contracts import Nest, Tensor
from tfsm.kernels.noise import fold, split
from tfsm.kernels.sampling import sample_experiences
from tfsm.models.network import Network
from tfsm_mutations.options import GuardOptions


class Measuring(GuardOptions, ABC):
    """An operator that measures a sensitivity."""

    batched: ClassVar[bool] = True
    needs_gradient: ClassVar[bool] = True

    @abstractmethod
    def sensitivity(self, network: Network, genome: Tensor, experience: Nest, direction: Tensor) -> Tensor:
        """Return the raw sensitivity `[B, P]`, before any guard; `direction` is the perturbation to come."""

    def measured(self, network: Network, genome: Tensor, experience: Nest, noise: Tensor, seed: Tensor) -> Tensor:
        """Return the raw sensitivity for one child, whose noise this is; the seed is for those that draw something."""
        return self.sensitivity(network, genome, experience, self.direction(noise))

    def direction(self, noise: Tensor) -> Tensor:
        """Return the direction to measure along, from the perturbation to come."""
        return noise

    def reusable(self, network: Network, available: int) -> bool:
        """Say whether the sensitivity is the same for every child of a parent that had so many experiences."""
        return not self.replacement and self.experiences >= available

    def drawn(
        self, network: Network, parent: Tensor, experience: Nest, seed: Tensor, scale: Tensor
    ) -> tuple[Tensor, Nest, Tensor]:
        """Return noise `[B, P]` of this scale, the experiences that are looked at, and the sensitivity there."""
        noise_seed, sample_seed = split(seed, 2)
        seen = sample_experiences(experience, self.experiences, sample_seed, replacement=self.replacement)
        noise = scale * network.noise(noise_seed)
        return noise, seen, self.measured(network, parent, seen, noise, fold(sample_seed, 1))
