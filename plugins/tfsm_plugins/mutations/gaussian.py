"""The control: Gaussian noise on every weight alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tfsm.interfaces import Nest, Tensor
from tfsm.models.network import Network
from tfsm_plugins.mutations.options import ControlOptions


@dataclass(frozen=True, kw_only=True)
class Control(ControlOptions):
    r"""Add noise of one standard deviation to all weights.

    .. math:: w' = w + \sigma z, \quad z \sim N(0, 1)
    """

    batched: ClassVar[bool] = True
    needs_gradient: ClassVar[bool] = False

    def __call__(self, network: Network, parent: Tensor, experience: Nest, intensity: Tensor, seed: Tensor) -> Tensor:
        """Return the child; `intensity` is the noise's standard deviation."""
        return parent + intensity * network.noise(seed)
