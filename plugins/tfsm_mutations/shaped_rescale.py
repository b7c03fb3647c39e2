"""SM-G-*+R: the direction of a gradient variant, rescaled to a wanted divergence."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass

from tfsm.contracts import Child, Nest, Tensor
from tfsm.kernels.guards import bounded
from tfsm.models.network import Network
from tfsm_mutations.gradient_abs import AbsMeasure
from tfsm_mutations.gradient_rms import RmsMeasure
from tfsm_mutations.gradient_sum import SumMeasure
from tfsm_mutations.measuring import Measuring
from tfsm_mutations.options import (
    AbsRescaledOptions,
    RescaleOptions,
    RmsRescaledOptions,
    SecondOrderRescaledOptions,
    SumRescaledOptions,
)
from tfsm_mutations.rescale import rescaled
from tfsm_mutations.second_order import SecondOrderMeasure


class ShapedRescale(Measuring, RescaleOptions, ABC):
    r"""Divide noise by a sensitivity, and go along that until the outputs have moved by the wanted divergence.

    .. math:: w' = w + m \, u, \quad u = \frac{z / s}{|z / s|}, \quad D(m u; w) = \text{intensity}

    The gradient says which way is safe, the line search how far to go: the paper left it to future work.
    """

    def __call__(self, network: Network, parent: Tensor, experience: Nest, intensity: Tensor, seed: Tensor) -> Child:
        """Return the child; `intensity` is the wanted divergence."""
        noise, seen, sensitivity = self.drawn(network, parent, experience, seed, 1.0)
        return rescaled(self, network, parent, seen, noise / bounded(sensitivity, self.zero, self.floor), intensity)


@dataclass(frozen=True, kw_only=True)
class SumRescaled(SumMeasure, SumRescaledOptions, ShapedRescale):
    """SM-G-SUM+R: shaped by the summed output gradient."""


@dataclass(frozen=True, kw_only=True)
class AbsRescaled(AbsMeasure, AbsRescaledOptions, ShapedRescale):
    """SM-G-ABS+R: shaped by the mean absolute output gradient."""


@dataclass(frozen=True, kw_only=True)
class RmsRescaled(RmsMeasure, RmsRescaledOptions, ShapedRescale):
    """SM-G-RMS+R: shaped by the root mean square of the output gradient."""


@dataclass(frozen=True, kw_only=True)
class SecondOrderRescaled(SecondOrderMeasure, SecondOrderRescaledOptions, ShapedRescale):
    """SM-G-SO+R: shaped by the root of the divergence's curvature along the noise."""
