r"""The gradient operators SM-G-SUM, SM-G-ABS, SM-G-RMS and SM-G-SO.

Each perturbs a weight in inverse proportion to its sensitivity `s`:

.. math:: w' = w + \sigma z / s, \quad z \sim N(0, 1)

They differ in `s` alone, which each class states as a formula, with experiences :math:`i` and outputs :math:`k`. To
write another one, copy `SafeMutationAbs` and change its formula and `sensitivity`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from tfsm.interfaces import Nest, Tensor
from tfsm.kernels.experience import sample_experiences
from tfsm.kernels.random import fold_in, root_seed, split
from tfsm.kernels.sensitivity import (
    ROUNDING,
    abs_sensitivity,
    clip_change,
    estimate_abs_sensitivity,
    estimate_rms_sensitivity,
    estimate_sum_sensitivity,
    guard_relative,
    guard_sensitivity,
    rms_sensitivity,
    second_order_sensitivity,
    sum_sensitivity,
)
from tfsm.models.network import Network
from tfsm_plugins.mutations import GradientOptions, ProbedOptions, SecondOrderOptions

MAX_EXACT_OUTPUTS = 16
"""Up to this number of outputs, sensitivities take one backward pass per output; above it, they are estimated."""
DEFAULT_PROBES = 16
"""An estimated sensitivity is then rarely off by more than a half."""


class GradientMutation(GradientOptions, ABC):
    """Divide Gaussian noise by a sensitivity; a subclass defines the sensitivity."""

    batched: ClassVar[bool] = True
    needs_gradient: ClassVar[bool] = True
    rounding: ClassVar[float] = ROUNDING
    """The share of their root mean square up to which sensitivities are rounding errors."""

    @abstractmethod
    def sensitivity(
        self, network: Network, genome: Tensor, experience: Nest, direction: Tensor, seed: Tensor | None = None
    ) -> Tensor:
        """Return the raw sensitivity `[B, P]`, before any guard.

        Args:
            network: the network.
            genome: `[B, P]`.
            experience: `[B, I, ...]`, or `[1, I, ...]` if all genomes see the same.
            direction: `[B, P]`, for a sensitivity that depends on the perturbation.
            seed: `[B, 2]`, for a sensitivity that is estimated by random probes; the same probes on each call if None.
        """

    def __call__(self, network: Network, parent: Tensor, experience: Nest, intensity: Tensor, seed: Tensor) -> Tensor:
        """Return the child; `intensity` is the standard deviation of the noise before the division."""
        noise, sensitivity = self._measure(network, parent, experience, intensity, seed)
        return parent + clip_change(noise / self.bound(sensitivity), self.max_change)

    def child(self, network: Network, parent: Tensor, sensitivity: Tensor, intensity: Tensor, seed: Tensor) -> Tensor:
        """Return the same child as a call would, from a known sensitivity."""
        noise = intensity * network.noise(split(seed, 2)[0])
        return parent + clip_change(noise / self.bound(sensitivity), self.max_change)

    def perturb(self, network: Network, parent: Tensor, experience: Nest, seed: Tensor) -> Tensor:
        """Return the perturbation `[B, P]` at an intensity of one."""
        noise, sensitivity = self._measure(network, parent, experience, 1.0, seed)
        return noise / self.bound(sensitivity)

    def perturb_known(self, network: Network, sensitivity: Tensor, seed: Tensor) -> Tensor:
        """Return the same perturbation as `perturb`, from a known sensitivity."""
        return network.noise(split(seed, 2)[0]) / self.bound(sensitivity)

    def reusable(self, network: Network, available: int) -> bool:
        """Return whether all children of a parent with `available` experiences share one sensitivity."""
        return not self.replacement and self.experiences >= available

    def direction(self, noise: Tensor) -> Tensor:
        """Return the direction along which the sensitivity is measured for a child with this noise."""
        return noise

    def bound(self, sensitivity: Tensor) -> Tensor:
        """Return the sensitivity after the guard: what the noise is divided by."""
        if self.guard == "relative":
            return guard_relative(sensitivity, self.guard_share, self.rounding)
        return guard_sensitivity(sensitivity, self.zero, self.floor)

    def _measure(
        self, network: Network, parent: Tensor, experience: Nest, scale: Tensor | float, seed: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return a child's noise `[B, P]` times `scale`, and the raw sensitivity on a sample of the experiences."""
        noise_seed, sample_seed = split(seed, 2)
        seen = sample_experiences(experience, self.experiences, sample_seed, replacement=self.replacement)
        noise = scale * network.noise(noise_seed)
        return noise, self.sensitivity(network, parent, seen, self.direction(noise), fold_in(sample_seed, 1))


class ProbedMutation(ProbedOptions, GradientMutation, ABC):
    """A gradient operator whose sensitivity is estimated by random probes where there are many outputs."""

    def reusable(self, network: Network, available: int) -> bool:
        """Return False with probes, which are drawn for each child."""
        return not self.probe_count(network) and super().reusable(network, available)

    def probe_count(self, network: Network) -> int:
        """Return the number of probes; 0 for the exact sensitivity, the default for a network with few outputs."""
        if self.probes is not None:
            return self.probes
        passes = self.count_passes(network)
        return 0 if passes is not None and passes <= MAX_EXACT_OUTPUTS else DEFAULT_PROBES

    def count_passes(self, network: Network) -> int | None:
        """Return the number of backward passes that the exact sensitivity takes; None if it is unknown."""
        return network.output_size


@dataclass(frozen=True, kw_only=True)
class SafeMutationSum(ProbedMutation):
    r"""SM-G-SUM: divide the noise by the summed output gradient.

    .. math:: s_p = \sqrt{\sum_k \left(\sum_i \partial y_{ik} / \partial w_p\right)^2}

    The sum is not divided by the number of experiences: opposite signs wash out in it, and the paper found that the
    larger `s` makes up for some of that. An intensity is therefore tied to a number of experiences.
    """

    def count_passes(self, network: Network) -> int | None:
        """Return the number of outputs in a row: the rows of a sequence or image are summed before they are derived."""
        return network.row_size

    def sensitivity(
        self, network: Network, genome: Tensor, experience: Nest, direction: Tensor, seed: Tensor | None = None
    ) -> Tensor:
        """Return the raw sensitivity, exactly or by probes; it does not depend on the direction."""
        probes = self.probe_count(network)
        if not probes:
            return sum_sensitivity(network, genome, experience)
        return estimate_sum_sensitivity(network, genome, experience, probe_seed(genome, seed), probes=probes)


@dataclass(frozen=True, kw_only=True)
class SafeMutationAbs(ProbedMutation):
    r"""SM-G-ABS: divide the noise by the mean absolute output gradient.

    .. math:: s_p = \sqrt{\sum_k \left(\tfrac1I \sum_i |\partial y_{ik} / \partial w_p|\right)^2}
    """

    uses_per_example_gradients: ClassVar[bool] = True

    def sensitivity(
        self, network: Network, genome: Tensor, experience: Nest, direction: Tensor, seed: Tensor | None = None
    ) -> Tensor:
        """Return the raw sensitivity, exactly or by probes; it does not depend on the direction."""
        probes = self.probe_count(network)
        if not probes:
            return abs_sensitivity(network, genome, experience)
        return estimate_abs_sensitivity(network, genome, experience, probe_seed(genome, seed), probes=probes)


@dataclass(frozen=True, kw_only=True)
class SafeMutationRms(ProbedMutation):
    r"""SM-G-RMS: divide the noise by the root mean square of the output gradient.

    .. math:: s_p = \sqrt{\tfrac1I \sum_i \sum_k \left(\partial y_{ik} / \partial w_p\right)^2}

    Twice its square is the diagonal of the Hessian of the divergence, so that changing a single weight by `d` moves the
    outputs by a divergence of `(s d)^2`, to second order. Squares do not wash out.
    """

    uses_per_example_gradients: ClassVar[bool] = True

    def sensitivity(
        self, network: Network, genome: Tensor, experience: Nest, direction: Tensor, seed: Tensor | None = None
    ) -> Tensor:
        """Return the raw sensitivity, exactly or by probes; it does not depend on the direction."""
        probes = self.probe_count(network)
        if not probes:
            return rms_sensitivity(network, genome, experience)
        return estimate_rms_sensitivity(network, genome, experience, probe_seed(genome, seed), probes=probes)


@dataclass(frozen=True, kw_only=True)
class SafeMutationSecondOrder(SecondOrderOptions, GradientMutation):
    r"""SM-G-SO: divide the noise by the root of the divergence's curvature along the noise.

    .. math:: s = \sqrt{|H v|}, \quad H = \nabla^2_\delta D(\delta; w)|_{\delta = 0}

    In the paper's formula `v` is the perturbation itself. Its published intensities were found with the unit vector
    along the perturbation, which is the default here (`unit_direction`): otherwise `s` would change with the intensity.
    """

    rounding: ClassVar[float] = math.sqrt(ROUNDING)  # s is a root

    def sensitivity(
        self, network: Network, genome: Tensor, experience: Nest, direction: Tensor, seed: Tensor | None = None
    ) -> Tensor:
        """Return the raw sensitivity along the direction, used as given."""
        return second_order_sensitivity(network, genome, experience, direction)

    def direction(self, noise: Tensor) -> Tensor:
        """Return the perturbation or its unit vector."""
        if not self.unit_direction:
            return noise
        return tf.math.divide_no_nan(noise, tf.norm(noise, axis=-1, keepdims=True))

    def reusable(self, network: Network, available: int) -> bool:
        """Return False: the sensitivity depends on the perturbation."""
        return False


def probe_seed(genome: Tensor, seed: Tensor | None) -> Tensor:
    """Return the seed `[B, 2]` of the probes for genomes `[B, P]`: `seed`, or a constant one if it is None."""
    if seed is not None:
        return seed
    constant = tf.broadcast_to(root_seed(0), tf.concat([tf.shape(genome)[:-1], [2]], axis=0))
    return tf.ensure_shape(constant, [*genome.shape[:-1], 2])
