"""Safe crossover: recombination that keeps what either parent does where it has been."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from tfsm.interfaces import Child, Nest, Tensor
from tfsm.kernels.experience import sample_experiences
from tfsm.kernels.random import split, uniform
from tfsm.kernels.sensitivity import sum_sensitivity
from tfsm.models.network import Network
from tfsm_plugins.mutations.options import CrossoverOptions
from tfsm_plugins.mutations.rescale import search_diagnostics, search_magnitude


@dataclass(frozen=True, kw_only=True)
class SafeCrossover(CrossoverOptions):
    r"""Take weights over from a second parent, the harmless ones first.

    .. math:: w'_p = w_p + b_p \, \min(1, m / (s_p |v_p - w_p|)) \, (v_p - w_p)

    with `v` the second parent, `b` a random choice of weights and `s` SM-G-SUM's sensitivity on both parents'
    experiences. The larger `m`, the more is taken over. It is searched for so that the outputs there move by the wanted
    divergence, each experience measured from whichever parent's answer is nearer: a child may do as either of them.
    Where all of it can be taken over within the divergence, all is, and the diagnostic `unreached` is 1.
    """

    batched: ClassVar[bool] = True
    needs_gradient: ClassVar[bool] = True
    mates: ClassVar[bool] = True

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
        """Return the child; `intensity` is the wanted divergence."""
        mask_seed, own_seed, mate_seed = split(seed, 3)
        seen = [
            sample_experiences(own, self.experiences, sample_seed, replacement=self.replacement)
            for own, sample_seed in ((experience, own_seed), (mate_experience, mate_seed))
        ]
        mask = tf.cast(uniform(mask_seed, network.size) < self.share, parent.dtype)
        asked = network.scale_by_share(mask * (mate - parent))  # [B, P]
        steepness = tf.abs(asked) * tf.add_n([sum_sensitivity(network, parent, own) for own in seen])

        def child(magnitude: Tensor) -> Tensor:
            part = tf.where(steepness > 0, magnitude[:, None] / tf.maximum(steepness, 1e-30), 1.0)
            return parent + asked * tf.minimum(part, 1.0)

        parents = [[network.rows(genome, own) for genome in (parent, mate)] for own in seen]

        def measure(magnitude: Tensor) -> Tensor:
            genome = child(magnitude)
            moved = [_nearest(network.rows(genome, own), of) for own, of in zip(seen, parents, strict=True)]
            return tf.add_n(moved) / len(moved)

        found = search_magnitude(self, measure, parent, intensity)
        everything = tf.fill(tf.shape(found.magnitude), tf.constant(float("inf"), parent.dtype))
        wanted = tf.reshape(tf.cast(intensity, parent.dtype), [-1])
        # The way to another parent may lead further from both than its end.
        all_of_it = (wanted > 0) & (measure(everything) <= wanted)
        genome = child(tf.where(all_of_it, everything, found.magnitude))
        # With no divergence wanted nothing is taken over, not even what would cost nothing.
        genome = tf.where((all_of_it | (found.magnitude > 0))[:, None], genome, parent)
        found = found._replace(reached=found.reached & ~all_of_it)
        taken = tf.reduce_mean(tf.cast(tf.not_equal(genome, parent), tf.float32), axis=-1)
        return Child(genome, {**search_diagnostics(found), "taken_over": taken})


def _nearest(rows: Tensor, of: list[Tensor]) -> Tensor:
    """Return the mean over experiences of the squared distance `[B]` to the nearer of two parents' answers."""
    away = [tf.reduce_sum(tf.square(rows - own), axis=-1) for own in of]  # [B, I] each
    return tf.reduce_mean(tf.minimum(*away), axis=-1)
