"""Divergence: rescale perturbations to reach a given one, and measure it for the log.

An intensity means something else for every operator, architecture and number of weights. A divergence does not: it is
the mean squared change of the outputs on the parent's experience.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tfsm.abilities import SupportsPerturbation
from tfsm.evolution.compile_plan import needs_autograph
from tfsm.evolution.variation import Parents, Variation, map_one_by_one
from tfsm.interfaces import Child, Mutation, Nest, Tensor
from tfsm.kernels.experience import take, take_every
from tfsm.kernels.line_search import PartialOutputs, search_diagnostics, search_outputs
from tfsm.kernels.sensitivity import divergence, variance_of
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


MIN_PROBES, MAX_PROBES = 5, 17
EVALUATIONS_PER_PROBE = 50
"""Children that are evaluated for each one that is made for the log only."""


def probe_count(log_every: int) -> int:
    """Return how many children to make at the end of a logging interval of that many evaluations.

    One more than a multiple of four, so that every quartile of their divergences is one of them.

    >>> [probe_count(log_every) for log_every in (20, 250, 500, 1_000, 100_000)]
    [5, 5, 9, 17, 17]
    """
    return min(MAX_PROBES, max(MIN_PROBES, log_every // EVALUATIONS_PER_PROBE // 4 * 4 + 1))


class DivergenceProbe:
    """Measures children that are made for the log only, and their parents.

    Args:
        variation: the network, the domain, the operator and the plan.
    """

    def __init__(self, variation: Variation) -> None:
        self._network, self._domain = variation.network, variation.domain
        self._sensitivity = getattr(variation.mutation, "sensitivity", None)
        # Plain graphs: so few calls per interval are not worth the seconds that XLA's compiler takes. In a plain graph
        # it matters who shares a batch: where the engine is one, lanes are taken one after another.
        one_by_one = variation.plan.one_by_one
        autograph = needs_autograph(variation.domain, variation.mutation)
        outputs = map_one_by_one(self._observe_outputs, autograph) if one_by_one else self._observe_outputs
        self._outputs = tf.function(outputs, autograph=autograph)
        # Once per interval, and one lane at a time, so that it does not matter how many runs share the batch.
        self._measure = tf.function(map_one_by_one(self._measure_parents, autograph), autograph=autograph)

    @property
    def measures_sensitivity(self) -> bool:
        """Whether the operator measures sensitivities."""
        return callable(self._sensitivity)

    def divergence(self, parents: Parents, children: Tensor) -> Tensor:
        """Return how far the outputs of children `[W, P]` are from their parents', for what these saw: `[W]`."""
        # One function called twice, so that equal genomes have equal outputs to the last digit.
        before, after = (self._outputs(genomes, parents.experience) for genomes in (parents.genomes, children))
        return divergence(before, after)

    def sensitivity(self, genomes: Tensor, experience: Nest, seed: Tensor) -> Tensor:
        """Return the sensitivities `[W, P]` of parents that saw `experience`, along a direction drawn by `seed`."""
        return self._measure(genomes, experience, seed)

    def _observe_outputs(self, genomes: Tensor, experience: Nest) -> Tensor:
        return self._network.rows(genomes, self._domain.observe(experience))

    def _measure_parents(self, genomes: Tensor, experience: Nest, seed: Tensor) -> Tensor:
        assert self._sensitivity is not None
        noise = self._network.noise(seed)
        direction = noise / tf.norm(noise, axis=-1, keepdims=True)
        return self._sensitivity(self._network, genomes, self._domain.observe(experience), direction)
