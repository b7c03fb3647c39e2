"""Safe crossover: recombination that preserves what either parent does on its experience."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from tfsm.interfaces import Child, Nest, Tensor
from tfsm.kernels.experience import sample_experiences
from tfsm.kernels.line_search import search_diagnostics, search_magnitude
from tfsm.kernels.random import split, uniform
from tfsm.kernels.sensitivity import sum_sensitivity
from tfsm.models.network import Network
from tfsm_plugins.mutations import CrossoverOptions


@dataclass(frozen=True, kw_only=True)
class SafeCrossover(CrossoverOptions):
    r"""Adopt weights of a second parent, the harmless ones first.

    .. math:: w'_p = w_p + b_p \, \min(1, m / (s_p |v_p - w_p|)) \, (v_p - w_p)

    Here `v` is the second parent, `b` a random choice of weights, and `s` SM-G-SUM's sensitivity on the experiences of
    both parents. The larger `m`, the more is adopted. A line search finds the `m` at which the outputs move by the
    target divergence, where each experience is compared with the nearer of the two parents' outputs: a child may do as
    either of them. If all chosen weights fit within the divergence, all are adopted, and the diagnostic `unreached`
    is 1.
    """

    batched: ClassVar[bool] = True
    needs_gradient: ClassVar[bool] = True
    mates: ClassVar[bool] = True
    targets_divergence: ClassVar[bool] = True

    def __call__(
        self,
        network: Network,
        parent: Tensor,
        experience: Nest,
        intensity: Tensor,
        seed: Tensor,
        mate: Tensor,
        mate_experience: Nest,
    ) -> Child:
        """Return the child; `intensity` is the target divergence."""
        mask_seed, parent_seed, mate_seed = split(seed, 3)
        seen = [
            sample_experiences(inputs, self.experiences, sample_seed, replacement=self.replacement)
            for inputs, sample_seed in ((experience, parent_seed), (mate_experience, mate_seed))
        ]
        mask = tf.cast(uniform(mask_seed, network.size) < self.share, parent.dtype)
        difference = network.scale_by_share(mask * (mate - parent))  # [B, P]
        steepness = tf.abs(difference) * tf.add_n([sum_sensitivity(network, parent, inputs) for inputs in seen])

        def child(magnitude: Tensor) -> Tensor:
            part = tf.where(steepness > 0, magnitude[:, None] / tf.maximum(steepness, 1e-30), 1.0)
            return parent + difference * tf.minimum(part, 1.0)

        parent_rows = [[network.rows(genome, inputs) for genome in (parent, mate)] for inputs in seen]

        def measure(magnitude: Tensor) -> Tensor:
            genome = child(magnitude)
            distances = [
                _nearest_distance(network.rows(genome, inputs), rows)
                for inputs, rows in zip(seen, parent_rows, strict=True)
            ]
            return tf.add_n(distances) / len(distances)

        result = search_magnitude(measure, parent, intensity, tolerance=self.tolerance, max_steps=self.max_steps)
        everything = tf.fill(tf.shape(result.magnitude), tf.constant(float("inf"), parent.dtype))
        target = tf.reshape(tf.cast(intensity, parent.dtype), [-1])
        # The path to the other parent may lead further away from both than its end.
        adopt_all = (target > 0) & (measure(everything) <= target)
        genome = child(tf.where(adopt_all, everything, result.magnitude))
        # With a target of zero nothing is adopted, not even what would not move the outputs.
        genome = tf.where((adopt_all | (result.magnitude > 0))[:, None], genome, parent)
        result = result._replace(reached=result.reached & ~adopt_all)
        adopted = tf.reduce_mean(tf.cast(tf.not_equal(genome, parent), tf.float32), axis=-1)
        return Child(genome, {**search_diagnostics(result), "taken_over": adopted})


def _nearest_distance(rows: Tensor, parent_rows: list[Tensor]) -> Tensor:
    """Return the mean over experiences of the squared distance `[B]` to the nearer of two parents' outputs."""
    distances = [tf.reduce_sum(tf.square(rows - other), axis=-1) for other in parent_rows]  # [B, I] each
    return tf.reduce_mean(tf.minimum(*distances), axis=-1)
