"""The control operator: Gaussian noise with the same standard deviation on every weight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tfsm.interfaces import Nest, Tensor
from tfsm.models.network import Network
from tfsm_plugins.mutations.options import ControlOptions


@dataclass(frozen=True, kw_only=True)
class Control(ControlOptions):
    r"""Add Gaussian noise to all weights: the paper's baseline.

    .. math:: w' = w + \sigma z, \quad z \sim N(0, 1)
    """

    batched: ClassVar[bool] = True
    needs_gradient: ClassVar[bool] = False
    uses_experience: ClassVar[bool] = False

    def __call__(self, network: Network, parent: Tensor, experience: Nest, intensity: Tensor, seed: Tensor) -> Tensor:
        """Return the child; `intensity` is the standard deviation of the noise."""
        return parent + intensity * network.noise(seed)

    def perturb(self, network: Network, parent: Tensor, experience: Nest, seed: Tensor) -> Tensor:
        """Return the perturbation `[B, P]` at an intensity of one."""
        return network.noise(seed)
