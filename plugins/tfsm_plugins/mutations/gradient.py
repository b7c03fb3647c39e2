"""Sm-g-sum, -abs, -rms, -so."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from tfsm.interfaces import Nest, Tensor
from tfsm.kernels.experience import sample_experiences
from tfsm.kernels.random import fold_in, root_seed, split
from tfsm.kernels.sensitivity import (
    abs_sensitivity,
    clip_change,
    estimate_rms_sensitivity,
    estimate_sum_sensitivity,
    guard_sensitivity,
    rms_sensitivity,
    second_order_sensitivity,
    sum_sensitivity,
)
from tfsm.models.network import Network
from tfsm_plugins.mutations.options import GradientOptions, GuardOptions, RmsOptions, SecondOrderOptions, SumOptions


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
        return noise, seen, self.measured(network, parent, seen, noise, fold_in(sample_seed, 1))


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
        return parent + clip_change(noise / guard_sensitivity(sensitivity, self.zero, self.floor), self.max_change)


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


class SumMeasure(Probing):
    r"""Measure the summed output gradient.

    .. math:: s_p = \sqrt{\sum_k \left(\sum_i \partial y_{ik} / \partial w_p\right)^2}

    Not divided by the number of experiences: opposite signs wash out in the sum, and the paper found that the
    larger `s` makes up for some of it. An intensity therefore belongs to a number of experiences.
    """

    def exact(self, network: Network, genome: Tensor, experience: Nest) -> Tensor:
        """Return the raw sensitivity, by a backward pass an output."""
        return sum_sensitivity(network, genome, experience)

    def estimated(self, network: Network, genome: Tensor, experience: Nest, seed: Tensor, probes: int) -> Tensor:
        """Return an estimate of it, with a sign for every output."""
        return estimate_sum_sensitivity(network, genome, experience, seed, probes=probes)


@dataclass(frozen=True, kw_only=True)
class SafeMutationSum(SumMeasure, SumOptions, ShapedNoise):
    """Divide the noise by the summed output gradient; see `SumMeasure`."""


class AbsMeasure(Measuring):
    r"""Measure the mean absolute output gradient.

    .. math:: s_p = \sqrt{\sum_k \left(\tfrac1I \sum_i |\partial y_{ik} / \partial w_p|\right)^2}
    """

    uses_per_example_gradients: ClassVar[bool] = True

    def sensitivity(self, network: Network, genome: Tensor, experience: Nest, direction: Tensor) -> Tensor:
        """Return the raw sensitivity; the direction does not matter."""
        return abs_sensitivity(network, genome, experience)


@dataclass(frozen=True, kw_only=True)
class SafeMutationAbs(AbsMeasure, ShapedNoise):
    """Divide the noise by the mean absolute output gradient; see `AbsMeasure`."""


EXACT = 8
"""Answers to one input up to which there is a backward pass for each, rather than probes."""
PROBES = 8
"""Enough that an estimate is seldom far too small, which would make a change far too large."""


class RmsMeasure(Probing):
    r"""Measure the root mean square of the output gradient.

    .. math:: s_p = \sqrt{\tfrac1I \sum_i \sum_k \left(\partial y_{ik} / \partial w_p\right)^2}

    Twice its square is the diagonal of the Hessian of the divergence, so that a change of one weight by `d` alone
    moves the outputs by a divergence of `(s d)^2`, to the second order. Squares do not wash out.
    """

    uses_per_example_gradients: ClassVar[bool] = True

    def exact(self, network: Network, genome: Tensor, experience: Nest) -> Tensor:
        """Return the raw sensitivity, by gradients of single experiences."""
        return rms_sensitivity(network, genome, experience)

    def estimated(self, network: Network, genome: Tensor, experience: Nest, seed: Tensor, probes: int) -> Tensor:
        """Return an estimate of it, with a sign for every output of every experience."""
        return estimate_rms_sensitivity(network, genome, experience, seed, probes=probes)

    def passes(self, network: Network) -> int:
        """Return the number of probes: none where a network answers few numbers."""
        if self.probes is not None:
            return self.probes
        return 0 if network.output_size is not None and network.output_size <= EXACT else PROBES


@dataclass(frozen=True, kw_only=True)
class SafeMutationRms(RmsMeasure, RmsOptions, ShapedNoise):
    """Divide the noise by the root mean square of the output gradient; see `RmsMeasure`."""


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
