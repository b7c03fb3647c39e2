"""What the log says about mutation: how far children are from their parents, and how sensitive a parent is."""

from __future__ import annotations

import tensorflow as tf

from tfsm.evolution.compile_plan import needs_autograph
from tfsm.evolution.variation import Parents, Variation, map_one_by_one
from tfsm.interfaces import Nest, Tensor
from tfsm.kernels.sensitivity import divergence

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
