"""Rescale perturbations so that the outputs move by a given divergence, whatever the operator and the network.

An intensity means something else for every operator, architecture and number of weights. A divergence does not: it is
the mean squared change of the outputs on the parent's experience.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tfsm.interfaces import Child, Mutation, Nest, SupportsPerturbation, Tensor
from tfsm.kernels.experience import take, take_every
from tfsm.kernels.line_search import PartialOutputs, search_diagnostics, search_outputs
from tfsm.kernels.sensitivity import variance_of
from tfsm.models.network import Network

SMALL_INTENSITY = 0.01
"""The intensity at which an operator without `perturb` is called."""
FIRST_STEP = 0.5
"""The first trial changes the weights by this share of their length, times the root of the relative divergence.

On trained and untrained networks alike, a first trial of this size is mostly within a factor of three of the result.
"""
THINNING = 8
"""The search begins with every eighth experience, where a trial costs an eighth of a forward pass."""
LEAST_EXPERIENCES = 4
"""With fewer than this many experiences left by thinning, the search begins with all of them."""
ROUGH_TOLERANCE = 0.3
ROUGH_STEPS = 8
"""The end of the search on few experiences: they do not determine the divergence on all of them more closely."""


@dataclass(frozen=True)
class DivergenceTarget:
    """How far the outputs of children move.

    Args:
        relative: whether the divergence is a share of the variance of the parent's outputs over its experience.
        tolerance: the relative error of the divergence that ends the search.
        max_steps: maximum number of trials.
    """

    relative: bool = False
    tolerance: float = 0.05
    max_steps: int = 40

    def rescale(self, network: Network, parents: Tensor, experience: Nest, change: Tensor, value: Tensor) -> Child:
        """Return children of parents `[B, P]` along changes `[B, P]`, whose outputs move by the divergence.

        If no magnitude reaches it, because outputs are bounded or do not depend on the weights, the child is the
        nearest one found, and the diagnostic `unreached` is 1.

        Args:
            network: the network.
            parents: `[B, P]`.
            experience: `[B, I, ...]`, or `[1, I, ...]` where all see the same.
            change: `[B, P]`, of any length.
            value: the divergence: a scalar, or `[B, 1]`.
        """
        direction = to_unit_length(change)
        before = network.rows(parents, experience)
        target = self._scale(before, value)

        def child(magnitude: Tensor) -> Tensor:
            return parents + magnitude[:, None] * direction

        length = tf.norm(parents, axis=-1)
        length = tf.where(length > 0, length, tf.ones_like(length))
        start = FIRST_STEP * length * tf.minimum(tf.sqrt(target / variance_of(before)), 1.0)
        passes, growth, part = tf.zeros_like(target, tf.float32), None, None
        count = tf.nest.flatten(experience)[0].shape[1]
        if None not in (count, before.shape[1]) and count >= THINNING * LEAST_EXPERIENCES:
            few = take_every(experience, THINNING)
            rough = search_outputs(
                lambda magnitude: network.rows(child(magnitude), few),
                _rows_of_every(before, count, THINNING),
                target,
                start,
                tolerance=ROUGH_TOLERANCE,
                max_steps=ROUGH_STEPS,
            )
            start, growth = tf.where(rough.magnitude > 0, rough.magnitude, start), rough.growth
            part_size = -(-count // THINNING)
            part = PartialOutputs(lambda m, which: network.rows(child(m), take(experience, which)), count, part_size)
            passes = tf.cast(rough.steps, tf.float32) * (part_size / count)
        result = search_outputs(
            lambda magnitude: network.rows(child(magnitude), experience),
            before,
            target,
            start,
            tolerance=self.tolerance,
            max_steps=self.max_steps,
            growth=growth,
            part=part,
        )
        passes += tf.cast(result.steps, tf.float32)
        if part is not None:
            passes += tf.cast(result.part_steps, tf.float32) * (part.size / part.experiences)
        return Child(child(result.magnitude), search_diagnostics(result, passes))

    def to_absolute(self, network: Network, parents: Tensor, experience: Nest, value: Tensor) -> Tensor:
        """Return the divergence `[B]` that a value, a scalar or `[B, 1]`, means for these parents."""
        return self._scale(network.rows(parents, experience), value)

    def _scale(self, rows: Tensor, value: Tensor) -> Tensor:
        target = tf.broadcast_to(tf.reshape(tf.cast(value, rows.dtype), [-1]), tf.shape(rows)[:1])
        return target * variance_of(rows) if self.relative else target


def _rows_of_every(rows: Tensor, experiences: int, step: int) -> Tensor:
    """Return the rows `[B, J, K]` of every `step`th experience, each of which has equally many rows of `[B, I, K]`."""
    lanes, count, outputs = rows.shape[0] or tf.shape(rows)[0], rows.shape[1] // experiences, rows.shape[2]
    few = tf.reshape(rows, [lanes, experiences, count, outputs])[:, ::step]
    return tf.reshape(few, [lanes, few.shape[1] * count, outputs])


def perturb(mutation: Mutation, network: Network, parents: Tensor, experience: Nest, seed: Tensor) -> Tensor:
    """Return what an operator changes about a parent `[P]`, or parents `[B, P]` if it is batched; of any length."""
    if isinstance(mutation, SupportsPerturbation):
        return mutation.perturb(network, parents, experience, seed)
    result: Any = mutation(network, parents, experience, tf.constant(SMALL_INTENSITY, parents.dtype), seed)
    return (result.genome if isinstance(result, Child) else result) - parents


def to_unit_length(change: Tensor) -> Tensor:
    """Return changes `[B, P]` with a length of one; a change of zero stays zero."""
    # Sensitivities may be so small that the square of a change overflows.
    scaled = tf.math.divide_no_nan(change, tf.reduce_max(tf.abs(change), axis=-1, keepdims=True))
    return tf.math.divide_no_nan(scaled, tf.norm(scaled, axis=-1, keepdims=True))
