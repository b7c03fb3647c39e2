"""Making and evaluating individuals, whatever population they are for."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfsm.contracts import Child, Domain, Evaluation, Mutation, Nest, Tensor
from tfsm.evolution.adapting import Adaptation
from tfsm.evolution.breeding import Brood
from tfsm.evolution.care import Care
from tfsm.evolution.evaluating import Evaluator
from tfsm.evolution.initial import Initial
from tfsm.evolution.mapping import Mates, mutated, one_by_one, recombines
from tfsm.evolution.plan import Plan
from tfsm.kernels.divergence import divergence
from tfsm.kernels.noise import fold, root_seed, split
from tfsm.models.network import Network


class Breeder:
    """Mutates and evaluates `W` genomes at once; holds no population, so that anybody can have one.

    An individual's randomness is keyed by (seed, run, number) alone, its number being the run's evaluations before it.

    Args:
        network: the network.
        domain: what evaluates it.
        mutation: the operator.
        intensity: the operator's intensity.
        initial: how first individuals are drawn.
        seed: the experiment's seed.
        plan: how to compile.
        adaptation: how the intensity adapts.
        care: what to do where a domain that is plain Python fails.
    """

    def __init__(
        self,
        network: Network,
        domain: Domain,
        mutation: Mutation,
        *,
        intensity: float,
        initial: Initial,
        seed: int,
        plan: Plan,
        adaptation: Adaptation | None = None,
        care: Care | None = None,
    ) -> None:
        self.network, self.domain, self.mutation, self.plan = network, domain, mutation, plan
        self.adaptation = adaptation or Adaptation()
        self.recombines = recombines(mutation)
        """Whether children have two parents."""
        self.intensity = tf.Variable(intensity, trainable=False, dtype=network.dtype)
        self._initial, self._root = initial, root_seed(seed)
        self.evaluate = Evaluator(domain, network, jit=plan.jit, care=care)
        self._answers = tf.function(self._answered, jit_compile=plan.jit)
        self._mutate = tf.function(
            one_by_one(self._mutated) if plan.one_by_one else self._mutated, jit_compile=plan.jit
        )
        # Whatever the plan: a few hundred tiny operations that would each cost more than they do.
        self.first_seeds = tf.function(self._seeded, jit_compile=True, autograph=False)
        """From runs `[W]` and numbers `[W]` to seeds `[W, 2]` by which first individuals are drawn and evaluated."""
        # Plain Python is evaluated for this, which may be dear; TensorFlow code is traced as wide as it will be called.
        lanes = plan.width if self.evaluate.compiled else 1
        # Exponentials and logarithms of a plain graph may be rounded otherwise at the end of an array than within it.
        self.inherited = tf.function(self.adaptation.inherited, jit_compile=True, autograph=False)
        """From strengths `[W]` of parents and seeds `[W, 2]` to those of their children."""
        self.corrected = tf.function(self.adaptation.corrected, jit_compile=True, autograph=False)
        """From strengths `[W]` and how far children moved the outputs `[W]` to the strengths of the next ones."""
        self.template: Evaluation = self.evaluate.template(
            tf.zeros([lanes, network.size], network.dtype), _seeds_of(lanes)
        )
        """What an evaluation gives for one genome, as `tf.TensorSpec`s."""

    def first(self, draw_seed: Tensor, evaluate_seed: Tensor, live: Tensor) -> tuple[Tensor, Evaluation]:
        """Draw first individuals `[W, P]`, and evaluate those that are `live`."""
        genomes = self._initial.genomes(self.network, draw_seed)
        return genomes, self.evaluate(genomes, evaluate_seed, live)

    def seeds(self, runs: Tensor, number: Tensor) -> tuple[Tensor, ...]:
        """Return the seeds `[W, 2]` by which children are selected, mutated and evaluated."""
        return split(fold(self._root, runs, number), 3)

    def children(
        self, parents: Tensor, experience: Nest, strength: Tensor, seed: Tensor, mates: tuple[Nest, ...] = ()
    ) -> Child:
        """Mutate parents `[W, P]` that saw `experience`.

        Args:
            parents: the parents.
            experience: what they saw, as the domain keeps it.
            strength: how many times the intensity their children get, `[W]`.
            seed: `[W, 2]`.
            mates: genomes of second parents and what these saw, for an operator that recombines.
        """
        times = (self.times(strength),) if self.adaptation.on else ()
        return self._mutate(parents, experience, seed, *times, *mates)

    def times(self, strength: Tensor) -> Tensor:
        """Return strengths `[W]` as operators multiply by them: `[W, 1]`."""
        return tf.cast(strength, self.network.dtype)[:, None]

    def moved(self, brood: Brood) -> Tensor:
        """Return how far children moved the outputs for what their parents saw, `[W]`."""
        before, after = (self._answers(own, brood.experience) for own in (brood.parents, brood.child.genome))
        return divergence(before, after)

    def seen(self, lanes: int) -> Nest:
        """Return what so many individuals saw, as `tf.TensorSpec`s."""
        return tf.nest.map_structure(lambda s: tf.TensorSpec([lanes, *s.shape], s.dtype), self.template.experience)

    def available(self) -> int:
        """Return how many experiences an operator is given."""
        observed = tf.function(self.domain.observe).get_concrete_function(self.seen(self.plan.width))
        return int(tf.nest.flatten(observed.structured_outputs)[0].shape[1])

    def diagnostics(self) -> list[str]:
        """Return the names of what the operator reports, in order."""
        lanes, seen = self.plan.width, self.seen(self.plan.width)
        parents = tf.TensorSpec([lanes, self.network.size], self.network.dtype)
        more: tuple[Any, ...] = (tf.TensorSpec([lanes, 1], self.network.dtype),) if self.adaptation.on else ()
        more += (parents, seen) if self.recombines else ()
        traced = self._mutate.get_concrete_function(parents, seen, tf.TensorSpec([lanes, 2], tf.int32), *more)
        return sorted(traced.structured_outputs.diagnostics)

    def _seeded(self, runs: Tensor, number: Tensor) -> tuple[Tensor, Tensor]:
        first, second = split(fold(self._root, runs, number), 2)
        return first, second

    def _mutated(self, parents: Tensor, experience: Nest, seed: Tensor, *more: Nest) -> Child:
        """Return children; more are the times of the intensity where it adapts, and mates and what they saw."""
        intensity = self.intensity.read_value()
        if self.adaptation.on:
            intensity, more = intensity * more[0], more[1:]
        mates = Mates(more[0], self.domain.observe(more[1])) if more else None
        seen = self.domain.observe(experience)
        return mutated(self.mutation, self.network, parents, seen, intensity, seed, mates)

    def _answered(self, genomes: Tensor, experience: Nest) -> Tensor:
        return self.network.rows(genomes, self.domain.observe(experience))


def _seeds_of(lanes: int) -> Tensor:
    return tf.stack([tf.range(lanes), tf.zeros(lanes, tf.int32)], axis=-1)
