"""Mutants of a network that has been evolved: made, and tried out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import tensorflow as tf

from tfsm.contracts import Domain, Evaluation, Mutation, Nest, Tensor
from tfsm.evolution.evaluating import Evaluator
from tfsm.evolution.mapping import mutated
from tfsm.experiments.parts import build_part
from tfsm.experiments.settings import Settings, resolve
from tfsm.kernels.noise import fold
from tfsm.models.network import Network
from tfsm.plugins import Plugins


def operator_for(
    plugins: Plugins, settings: Settings, name: str, intensity: float | None, config: Path | None
) -> tuple[Settings, Mutation]:
    """Return an operator with the settings that it has for a domain; those of a run where it is the run's own."""
    if name != settings.mutation or intensity is not None:
        overrides = {"intensity": intensity}
        settings = resolve(plugins, domain=settings.domain, mutation=name, overrides=overrides, config=config).settings
    return settings, build_part(plugins.mutations[name], settings.mutation_options)


class Tryout:
    """Evaluates networks of one architecture, and makes mutants of them.

    Args:
        domain: the domain.
        network: a network of the architecture.
        jit: whether evaluations are compiled by XLA, as they were in the run.
    """

    def __init__(self, domain: Domain, network: Network, *, jit: bool) -> None:
        self._domain, self.network = domain, network
        self._evaluate = Evaluator(domain, network, jit=jit)
        self._evaluate.template(tf.constant(network.genome[None], network.dtype), tf.zeros([1, 2], tf.int32))
        self._makers: dict[tuple[int, int], Callable[..., Tensor]] = {}

    def evaluate(self, genomes: Tensor) -> Evaluation:
        """Evaluate genomes `[B, P]`."""
        count = genomes.shape[0]
        return self._evaluate(genomes, tf.zeros([count, 2], tf.int32), tf.ones([count], tf.bool))

    def seen_by(self, genome: Tensor, count: int) -> tuple[Tensor, Nest]:
        """Return a genome `[P]` so many times, and what each saw."""
        # One alone would be rounded in another way.
        parents = tf.repeat(tf.convert_to_tensor(genome)[None], max(2, count), axis=0)
        return parents, self.evaluate(parents).experience

    def mutants(self, mutation: Mutation, intensity: float, parents: Tensor, seen: Nest, seed: Tensor) -> Tensor:
        """Return a mutant `[B, P]` of each of parents `[B, P]` that saw `seen`; each decided by the seed `[2]`."""
        given = (parents, seen, tf.constant(intensity, self.network.dtype), fold(seed, 0, tf.range(parents.shape[0])))
        key = (id(mutation), parents.shape[0])
        if key not in self._makers:
            # Traced by hand: TensorFlow counts by the line of code, and would warn of retracing where there is none.
            specs = tf.nest.map_structure(lambda x: tf.TensorSpec(x.shape, x.dtype), given)
            make = tf.function(_maker(mutation, self.network, self._domain))
            self._makers[key] = make.get_concrete_function(*specs)
        return self._makers[key](*given)


def _maker(mutation: Mutation, network: Network, domain: Domain) -> Callable[..., Tensor]:
    def make(parents: Tensor, experience: Nest, strength: Tensor, seeds: Tensor) -> Tensor:
        return mutated(mutation, network, parents, domain.observe(experience), strength, seeds).genome

    return make
