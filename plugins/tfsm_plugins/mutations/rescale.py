"""Sm-r, sm-g-*+r."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from tfsm.interfaces import Child, Nest, Tensor
from tfsm.kernels.experience import sample_experiences
from tfsm.kernels.line_search import LineSearchResult, line_search
from tfsm.kernels.random import split
from tfsm.kernels.sensitivity import divergence, guard_sensitivity
from tfsm.models.network import Network
from tfsm_plugins.mutations.gradient import AbsMeasure, Measuring, RmsMeasure, SecondOrderMeasure, SumMeasure
from tfsm_plugins.mutations.options import (
    AbsRescaledOptions,
    RescaleOptions,
    RmsRescaledOptions,
    SearchOptions,
    SecondOrderRescaledOptions,
    SumRescaledOptions,
)


@dataclass(frozen=True, kw_only=True)
class SafeMutationRescale(RescaleOptions):
    r"""Go along a random direction until the outputs have moved by the wanted divergence.

    .. math:: w' = w + m \, u, \quad |u| = 1, \quad D(m u; w) = \text{intensity}

    Needs no gradient. Where no magnitude reaches the wanted divergence (outputs may be bounded, or not depend on the
    weights) the child is the nearest one found, and the diagnostic `unreached` is 1.
    """

    batched: ClassVar[bool] = True
    needs_gradient: ClassVar[bool] = False

    def __call__(self, network: Network, parent: Tensor, experience: Nest, intensity: Tensor, seed: Tensor) -> Child:
        """Return the child; `intensity` is the wanted divergence."""
        noise_seed, sample_seed = split(seed, 2)
        seen = sample_experiences(experience, self.experiences, sample_seed, replacement=self.replacement)
        return rescale(self, network, parent, seen, network.noise(noise_seed), intensity)


def rescale(
    options: RescaleOptions, network: Network, parent: Tensor, seen: Nest, along: Tensor, intensity: Tensor
) -> Child:
    """Return the child of parents `[B, P]` along directions `[B, P]` at which the divergence is `intensity`."""
    # No direction at all, as where every weight's share is zero, gives the parent and not NaN.
    direction = tf.math.divide_no_nan(along, tf.norm(along, axis=-1, keepdims=True))
    before = network.rows(parent, seen)
    scale = 1.0 / before.shape[-1] if options.mean_over_outputs else 1.0

    def measure(magnitude: Tensor) -> Tensor:
        return scale * divergence(before, network.rows(parent + magnitude[:, None] * direction, seen))

    found = search_magnitude(options, measure, parent, intensity)
    return Child(parent + found.magnitude[:, None] * direction, search_diagnostics(found))


def search_magnitude(
    options: SearchOptions, measure: Callable[[Tensor], Tensor], parent: Tensor, intensity: Tensor
) -> LineSearchResult:
    """Search for the magnitudes `[B]` that measure as much as `intensity`, one number or `[B, 1]`."""
    wanted = tf.broadcast_to(tf.reshape(tf.cast(intensity, parent.dtype), [-1]), tf.shape(parent)[:1])
    return line_search(measure, wanted, tf.sqrt(wanted), tolerance=options.tolerance, max_steps=options.max_steps)


def search_diagnostics(found: LineSearchResult) -> dict[str, Tensor]:
    """Return what a search has to say, for the log."""
    return {
        "search_steps": tf.cast(found.steps, tf.float32),
        "unreached": tf.cast(~found.reached, tf.float32),
    }


class ShapedRescale(Measuring, RescaleOptions, ABC):
    r"""Divide noise by a sensitivity, and go along that until the outputs have moved by the wanted divergence.

    .. math:: w' = w + m \, u, \quad u = \frac{z / s}{|z / s|}, \quad D(m u; w) = \text{intensity}

    The gradient says which way is safe, the line search how far to go: the paper left it to future work.
    """

    def __call__(self, network: Network, parent: Tensor, experience: Nest, intensity: Tensor, seed: Tensor) -> Child:
        """Return the child; `intensity` is the wanted divergence."""
        noise, seen, sensitivity = self.drawn(network, parent, experience, seed, 1.0)
        return rescale(
            self, network, parent, seen, noise / guard_sensitivity(sensitivity, self.zero, self.floor), intensity
        )


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
