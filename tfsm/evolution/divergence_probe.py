"""What the log tells of mutation: how far children are from their parents, and how sensitive a parent is."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from tfsm.evolution.state import State
from tfsm.evolution.variation import Brood, Couple, map_one_by_one
from tfsm.interfaces import Domain, Mutation, Nest, Tensor
from tfsm.kernels.sensitivity import divergence
from tfsm.models.network import Network

MIN_PROBES, MAX_PROBES = 5, 17
EVALUATIONS_PER_PROBE = 50
"""Children that are evaluated for each one that is made for the log only."""


def probe_count(log_every: int) -> int:
    """Return how many children to make at the end of an interval of so many evaluations.

    One more than a multiple of four, so that every quartile of their divergences is one of them.

    >>> [probes(log_every) for log_every in (20, 250, 500, 1_000, 100_000)]
    [5, 5, 9, 17, 17]
    """
    return min(MAX_PROBES, max(MIN_PROBES, log_every // EVALUATIONS_PER_PROBE // 4 * 4 + 1))


class DivergenceProbe:
    """Makes children of the populations without evaluating or keeping any.

    Args:
        network: the network.
        domain: the domain.
        mutation: the operator.
        state: the populations.
        draw: from lanes `[W]` and evaluation numbers `[W]` to the parents' slots and seeds `[W, 2]`.
        children: from lanes, slots and seeds to parents, what they saw, and a child of each.
        apart: whether lanes are to answer one after another: where the engine is a plain graph, it matters who shares
            a batch.
    """

    def __init__(
        self,
        network: Network,
        domain: Domain,
        mutation: Mutation,
        state: State,
        *,
        draw: Callable[[Tensor, Tensor], tuple[Couple, Tensor]],
        children: Callable[[Tensor, Couple, Tensor], Brood],
        apart: bool = False,
    ) -> None:
        self._network, self._domain, self._state = network, domain, state
        self._draw, self._children = draw, children
        self._sensitivity = getattr(mutation, "sensitivity", None)
        # Plain graphs: so few calls in an interval are not worth the seconds that XLA's compiler takes.
        self._rows = tf.function(map_one_by_one(self._answers) if apart else self._answers)
        # Once an interval, and one lane at a time, so that it does not matter how many runs share the batch.
        self._measure = tf.function(map_one_by_one(self._measured))

    def run(self, lanes: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
        """Return divergences and sensitivities.

        Args:
            lanes: `[W]`.
            count: how many children of each to make, `MOST` at the most.

        Returns:
            How far the children `[W, count]` are from their parents, and the sensitivities `[W, P]` of the first one's
            parent: `[W, 0]` where the operator measures none.
        """
        evaluations = self._state.evaluations.sparse_read(lanes)

        def drawn(i: Tensor) -> tuple[Couple, Tensor]:
            # Evaluation numbers below zero are never run, so these children are nobody's.
            return self._draw(lanes, -1 - (MAX_PROBES * evaluations + i))

        def diverged(i: Tensor) -> Tensor:
            brood = self._children(lanes, *drawn(i))
            # One function called twice, so that equal genomes have equal outputs to the last digit.
            return divergence(*(self._rows(own, brood.experience) for own in (brood.parents, brood.child.genome)))

        # A loop and not a row of copies, which would take as many times as long to trace.
        found = tf.map_fn(
            diverged,
            tf.range(count),
            fn_output_signature=tf.TensorSpec(lanes.shape, self._network.dtype),
            parallel_iterations=1,
        )
        return tf.transpose(found), self._sensitivities(lanes, *drawn(tf.constant(0)))

    def _sensitivities(self, lanes: Tensor, couple: Couple, seed: Tensor) -> Tensor:
        if not callable(self._sensitivity):
            return tf.zeros([lanes.shape[0], 0], self._network.dtype)
        if self._state.is_measured.shape[0]:  # kept, and measured for the first child at the latest
            return self._state.sensitivity.gather_nd(tf.stack([lanes, couple.parent], axis=-1))
        return self._measure(*self._state.individuals(lanes, couple.parent), seed)

    def _answers(self, genomes: Tensor, experience: Nest) -> Tensor:
        return self._network.rows(genomes, self._domain.observe(experience))

    def _measured(self, genomes: Tensor, experience: Nest, seed: Tensor) -> Tensor:
        assert self._sensitivity is not None
        noise = self._network.noise(seed)
        along = noise / tf.norm(noise, axis=-1, keepdims=True)
        return self._sensitivity(self._network, genomes, self._domain.observe(experience), along)
