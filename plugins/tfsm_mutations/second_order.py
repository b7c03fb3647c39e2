"""SM-G-SO: safe mutation through the divergence's curvature."""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from tfsm.contracts import Nest, Tensor
from tfsm.kernels.sensitivity import second_order_sensitivity
from tfsm.models.network import Network
from tfsm_mutations.measuring import Measuring
from tfsm_mutations.options import SecondOrderOptions
from tfsm_mutations.shaped import ShapedNoise


class SecondOrderMeasure(Measuring):
    r"""Measure the root of the divergence's curvature along the noise.

    .. math:: s = \sqrt{|H v|}, \quad H = \nabla^2_\delta D(\delta; w)|_{\delta = 0}

    The paper's formula has the perturbation itself for `v`; its published intensities were found with the unit vector
    along it, which is the default (`unit_direction`): otherwise `s` would change with the intensity.
    """

    unit_direction: bool

    def sensitivity(self, network: Network, genome: Tensor, experience: Nest, direction: Tensor) -> Tensor:
        """Return the raw sensitivity along the direction as it is given."""
        return second_order_sensitivity(network, genome, experience, direction)

    def reusable(self, network: Network, available: int) -> bool:
        """Say no: the sensitivity depends on the perturbation."""
        return False

    def direction(self, noise: Tensor) -> Tensor:
        """Return the perturbation, or its unit vector."""
        if not self.unit_direction:
            return noise
        return tf.math.divide_no_nan(noise, tf.norm(noise, axis=-1, keepdims=True))


@dataclass(frozen=True, kw_only=True)
class SafeMutationSecondOrder(SecondOrderMeasure, SecondOrderOptions, ShapedNoise):
    """Divide the noise by the root of the divergence's curvature along it; see `SecondOrderMeasure`."""
