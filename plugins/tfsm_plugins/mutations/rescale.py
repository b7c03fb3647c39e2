"""The operators that search for a divergence: SM-R, and the gradient operators with a line search (SM-G-*+R).

Their intensity is the divergence that a child's outputs should have from its parent's.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import ClassVar

import tensorflow as tf

from tfsm.interfaces import Child, Nest, Tensor
from tfsm.kernels.experience import sample_experiences
from tfsm.kernels.line_search import LineSearchResult, line_search
from tfsm.kernels.random import split
from tfsm.kernels.sensitivity import divergence, guard_sensitivity
from tfsm.models.network import Network
from tfsm_plugins.mutations.gradient import (
    GradientMutation,
    SafeMutationAbs,
    SafeMutationRms,
    SafeMutationSecondOrder,
    SafeMutationSum,
)
from tfsm_plugins.mutations.options import (
    GradientRescaleOptions,
    RescaleOptions,
    RmsRescaleOptions,
    SecondOrderRescaleOptions,
    SumRescaleOptions,
)


@dataclass(frozen=True, kw_only=True)
class SafeMutationRescale(RescaleOptions):
    r"""SM-R: move along a random direction until the outputs have moved by the target divergence.

    .. math:: w' = w + m \, u, \quad |u| = 1, \quad D(m u; w) = \text{intensity}

    Needs no gradient. If no magnitude reaches the target (outputs may be bounded, or independent of the weights), the
    child is the nearest one found, and the diagnostic `unreached` is 1.
    """

    batched: ClassVar[bool] = True
    needs_gradient: ClassVar[bool] = False

    def __call__(self, network: Network, parent: Tensor, experience: Nest, intensity: Tensor, seed: Tensor) -> Child:
        """Return the child; `intensity` is the target divergence."""
        noise_seed, sample_seed = split(seed, 2)
        seen = sample_experiences(experience, self.experiences, sample_seed, replacement=self.replacement)
        return rescale(self, network, parent, seen, network.noise(noise_seed), intensity)


class GradientRescale(GradientRescaleOptions, ABC):
    r"""Divide noise by a sensitivity, and move along the result until the outputs have moved by the target divergence.

    .. math:: w' = w + m \, u, \quad u = \frac{z / s}{|z / s|}, \quad D(m u; w) = \text{intensity}

    The gradient says which direction is safe, and the line search how far to go: the paper left it to future work.
    """

    batched: ClassVar[bool] = True
    needs_gradient: ClassVar[bool] = True
    operator: ClassVar[type[GradientMutation]]
    """The gradient operator that provides the sensitivity."""

    def __call__(self, network: Network, parent: Tensor, experience: Nest, intensity: Tensor, seed: Tensor) -> Child:
        """Return the child; `intensity` is the target divergence."""
        noise, seen, sensitivity = self._gradient().measure(network, parent, experience, 1.0, seed)
        direction = noise / guard_sensitivity(sensitivity, self.zero, self.floor)
        return rescale(self, network, parent, seen, direction, intensity)

    def sensitivity(self, network: Network, genome: Tensor, experience: Nest, direction: Tensor) -> Tensor:
        """Return the raw sensitivity `[B, P]`, before any guard."""
        return self._gradient().sensitivity(network, genome, experience, direction)

    def _gradient(self) -> GradientMutation:
        shared = {field.name for field in fields(self.operator)} & {field.name for field in fields(self)}
        return self.operator(**{name: getattr(self, name) for name in shared})


@dataclass(frozen=True, kw_only=True)
class SumRescale(SumRescaleOptions, GradientRescale):
    """SM-G-SUM+R: rescale the direction of SM-G-SUM."""

    operator: ClassVar[type[GradientMutation]] = SafeMutationSum


@dataclass(frozen=True, kw_only=True)
class AbsRescale(GradientRescale):
    """SM-G-ABS+R: rescale the direction of SM-G-ABS."""

    operator: ClassVar[type[GradientMutation]] = SafeMutationAbs
    uses_per_example_gradients: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class RmsRescale(RmsRescaleOptions, GradientRescale):
    """SM-G-RMS+R: rescale the direction of SM-G-RMS."""

    operator: ClassVar[type[GradientMutation]] = SafeMutationRms
    uses_per_example_gradients: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class SecondOrderRescale(SecondOrderRescaleOptions, GradientRescale):
    """SM-G-SO+R: rescale the direction of SM-G-SO."""

    operator: ClassVar[type[GradientMutation]] = SafeMutationSecondOrder


def rescale(
    options: RescaleOptions, network: Network, parent: Tensor, seen: Nest, along: Tensor, intensity: Tensor
) -> Child:
    """Return the child of parents `[B, P]` along directions `[B, P]` at which the divergence is `intensity`."""
    # No direction at all, for instance if the share of every weight is zero, gives the parent and not NaN.
    direction = tf.math.divide_no_nan(along, tf.norm(along, axis=-1, keepdims=True))
    before = network.rows(parent, seen)
    scale = 1.0 / before.shape[-1] if options.mean_over_outputs else 1.0

    def measure(magnitude: Tensor) -> Tensor:
        return scale * divergence(before, network.rows(parent + magnitude[:, None] * direction, seen))

    result = search_magnitude(measure, parent, intensity, tolerance=options.tolerance, max_steps=options.max_steps)
    return Child(parent + result.magnitude[:, None] * direction, search_diagnostics(result))


def search_magnitude(
    measure: Callable[[Tensor], Tensor], parent: Tensor, intensity: Tensor, *, tolerance: float, max_steps: int
) -> LineSearchResult:
    """Search for the magnitudes `[B]` at which `measure` is `intensity`, a scalar or `[B, 1]`."""
    target = tf.broadcast_to(tf.reshape(tf.cast(intensity, parent.dtype), [-1]), tf.shape(parent)[:1])
    return line_search(measure, target, tf.sqrt(target), tolerance=tolerance, max_steps=max_steps)


def search_diagnostics(result: LineSearchResult) -> dict[str, Tensor]:
    """Return the diagnostics `[B]` of a line search, for the log."""
    return {
        "search_steps": tf.cast(result.steps, tf.float32),
        "unreached": tf.cast(~result.reached, tf.float32),
    }
