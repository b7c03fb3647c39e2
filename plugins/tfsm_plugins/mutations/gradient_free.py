"""The operators without gradients: plain noise (control), and SM-R, which rescales it to a target divergence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from tfsm.interfaces import Child, Nest, Tensor
from tfsm.kernels.experience import sample_experiences
from tfsm.kernels.line_search import search_diagnostics, search_magnitude
from tfsm.kernels.random import split
from tfsm.kernels.sensitivity import divergence
from tfsm.models.network import Network
from tfsm_plugins.mutations import ControlOptions, RescaleOptions


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
        noise = network.noise(noise_seed)
        # No direction at all, for instance if the share of every weight is zero, gives the parent and not NaN.
        direction = tf.math.divide_no_nan(noise, tf.norm(noise, axis=-1, keepdims=True))
        before = network.rows(parent, seen)
        scale = 1.0 / before.shape[-1] if self.mean_over_outputs else 1.0

        def measure(magnitude: Tensor) -> Tensor:
            return scale * divergence(before, network.rows(parent + magnitude[:, None] * direction, seen))

        result = search_magnitude(measure, parent, intensity, tolerance=self.tolerance, max_steps=self.max_steps)
        return Child(parent + result.magnitude[:, None] * direction, search_diagnostics(result))

    def perturb(self, network: Network, parent: Tensor, experience: Nest, seed: Tensor) -> Tensor:
        """Return the perturbation `[B, P]` that is rescaled."""
        return network.noise(split(seed, 2)[0])
