"""Parents -> children: batching, intensity, kept sensitivities.

About half of all children have a parent that had one before. Where a sensitivity depends on the parent alone it is kept
beside the population, and only the lanes whose parent has none yet are measured, in a batch that is just wide enough.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import tensorflow as tf
from typing_extensions import TypeIs

from tfsm.errors import TfsmError
from tfsm.evolution.compile_plan import Plan
from tfsm.evolution.evaluation import Evaluator, FailurePolicy
from tfsm.evolution.initialization import Initializer
from tfsm.evolution.state import State
from tfsm.interfaces import Adapt, Child, Choice, Domain, Evaluation, Mutation, Nest, Selection, SupportsReuse, Tensor
from tfsm.kernels.experience import to_dense
from tfsm.kernels.random import fold_in, gaussian, root_seed, split
from tfsm.kernels.sensitivity import divergence
from tfsm.models.network import Network


class Couple(NamedTuple):
    """Who breeds: places in the population, `[W]`."""

    parent: Tensor
    mate: Tensor
    """The second parent, for operators that recombine; else the same as the first."""


class Drawn(NamedTuple):
    """What a step begins with."""

    couple: Couple
    replaced: Tensor
    """`[W]`"""
    mutate_seed: Tensor
    """`[W, 2]`"""
    evaluate_seed: Tensor
    """`[W, 2]`"""


class Brood(NamedTuple):
    """Parents and their children."""

    parents: Tensor
    """`[W, P]`"""
    experience: Nest
    """What the parents saw, `[W, ...]`."""
    child: Child
    intensity_scale: Tensor
    """`[W]`: how many times the intensity they were made with."""


class Match(NamedTuple):
    """Who breeds, as whoever makes the children needs to know it."""

    parents: Tensor
    """`[W, P]`"""
    experience: Nest
    """What the parents saw, `[W, ...]`."""
    mates: tuple[Nest, ...]
    """Second parents `[W, P]` and what they saw, for an operator that recombines; else `()`."""
    intensity_scale: Tensor
    """`[W]`"""
    parent_fitness: Tensor
    """`[W]`: the parents' fitness."""


class Offspring(NamedTuple):
    """Children, as whoever settles them needs to know them."""

    genomes: Tensor
    """`[W, P]`"""
    intensity_scale: Tensor
    """`[W]`: how many times the intensity they were made with."""
    parent_fitness: Tensor
    """`[W]`: the fitness of their parents when these were chosen."""
    moved: Tensor
    """`[W]`: how far they moved the outputs, below 0 where nobody knows; `()` where intensities do not adapt to it."""
    diagnostics: Mapping[str, Tensor]
    """`[W]` each."""


LANES_AT_ONCE = 2
"""Lanes that may be on their way at once where they are taken one by one; more would take more memory."""


class Mates(NamedTuple):
    """The second parents, for an operator that recombines."""

    genomes: Tensor
    """`[B, P]`"""
    experience: Nest
    """`[B, I, ...]`, or `[1, I, ...]` where all see the same."""


def recombines(mutation: Mutation) -> bool:
    """Say whether an operator needs a second parent."""
    return bool(getattr(mutation, "mates", False))


def mutate_batch(
    mutation: Mutation,
    network: Network,
    parents: Tensor,
    experience: Nest,
    intensity: Tensor,
    seed: Tensor,
    mates: Mates | None = None,
) -> Child:
    """Mutate parents `[B, P]` that saw `[B, I, ...]` (or `[1, I, ...]`) with seeds `[B, 2]`.

    Args:
        mutation: the operator.
        network: the network.
        parents: `[B, P]`.
        experience: what they saw.
        intensity: one number, or `[B, 1]` where each has its own.
        seed: `[B, 2]`.
        mates: whom an operator that recombines is given besides.
    """
    if recombines(mutation) and mates is None:
        raise TfsmError(
            f"the operator {type(mutation).__name__} recombines two parents, and here is only one: it works within "
            "`tfsm run`, `tfsm compare` and `tfsm.evolve`"
        )
    if getattr(mutation, "batched", False):
        more = {} if mates is None else {"mate": mates.genomes, "mate_experience": mates.experience}
        return as_child(mutation(network, parents, experience, intensity, seed, **more))
    lanes = parents.shape[0] or tf.shape(parents)[0]

    def wide(nest: Nest) -> Nest:
        return tf.nest.map_structure(lambda x: tf.repeat(x, lanes, axis=0) if x.shape[0] == 1 else x, to_dense(nest))

    own = tf.broadcast_to(tf.reshape(intensity, [-1]), [lanes])

    def one(arguments: tuple[Any, ...]) -> Child:
        parent, seen, intensity_scale, own_seed, *second = arguments
        more = {"mate": second[0], "mate_experience": second[1]} if second else {}
        return as_child(mutation(network, parent, seen, intensity_scale, own_seed, **more))

    second = () if mates is None else (mates.genomes, wide(mates.experience))
    return Child(*tf.vectorized_map(one, (parents, wide(experience), own, seed, *second)))


def map_one_by_one(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of batches that takes their lanes one after another.

    For what is slow enough to be worth a call of its own: it is traced once, however many lanes there are, and takes
    the memory of few lanes.
    """
    single = tf.function(function)

    def alone(arguments: Nest) -> Nest:
        found = single(*tf.nest.map_structure(lambda x: x[None], arguments))
        return tf.nest.map_structure(lambda x: x[0], found)

    def mapped(*arguments: Nest) -> Nest:
        specs = tf.nest.map_structure(lambda x: tf.TensorSpec([1, *x.shape[1:]], x.dtype), arguments)
        found = single.get_concrete_function(*specs).structured_outputs
        signature = tf.nest.map_structure(lambda x: tf.TensorSpec(x.shape[1:], x.dtype), found)
        return tf.map_fn(alone, arguments, fn_output_signature=signature, parallel_iterations=LANES_AT_ONCE)

    return mapped


def as_child(result: Tensor | Child) -> Child:
    """Return what an operator gave as a child with diagnostics."""
    if isinstance(result, Child):
        return Child(result.genome, dict(result.diagnostics))
    return Child(result, {})


def choose_batch(selection: Selection, fitness: Tensor, seed: Tensor) -> Choice:
    """Choose in populations `[B, N]` with seeds `[B, 2]`; indices are int32."""
    if getattr(selection, "batched", False):
        parent, replaced = selection.choose(fitness, seed)
    else:
        parent, replaced = tf.vectorized_map(lambda pair: selection.choose(*pair), (fitness, seed))
    return Choice(tf.cast(parent, tf.int32), tf.cast(replaced, tf.int32))


class Reuse:
    """Mutates with kept sensitivities.

    Args:
        network: the network.
        domain: the domain.
        mutation: an operator for which `can_reuse` holds.
        plan: how to compile.
    """

    def __init__(self, network: Network, domain: Domain, mutation: SupportsReuse, plan: Plan) -> None:
        self._network, self._domain, self._mutation = network, domain, mutation
        self._least = plan.least_width
        self._one_by_one = plan.one_by_one
        measure = map_one_by_one(self._measured) if plan.one_by_one else self._measured
        self._measure = tf.function(measure, jit_compile=plan.jit)
        self._child = tf.function(self._children, jit_compile=plan.jit)
        self._begun = {width: tf.Variable(False, trainable=False) for width in plan.widths()}

    def children(
        self,
        state: State,
        lanes: Tensor,
        slots: Tensor,
        parents: Tensor,
        experience: Nest,
        intensity_scale: Tensor,
        seed: Tensor,
    ) -> Tensor:
        """Return children `[W, P]` of the parents at these places, measuring those that were not measured before."""
        place = tf.stack([lanes, slots], axis=-1)
        known = state.is_measured.gather_nd(place)
        missing = tf.cast(tf.where(~known)[:, 0], tf.int32)
        measure = self._measure_missing if self._one_by_one else self._measure_in_batch
        with tf.control_dependencies([measure(state, place, known, missing, parents, experience)]):
            state.is_measured.scatter_nd_update(place, tf.ones_like(known))
            sensitivity = state.sensitivity.gather_nd(place)
        return self._child(parents, sensitivity, intensity_scale, seed)

    def _measure_missing(
        self, state: State, place: Tensor, known: Tensor, missing: Tensor, parents: Tensor, experience: Nest
    ) -> Tensor:
        own, seen = tf.nest.map_structure(lambda x: tf.gather(x, missing), (parents, experience))
        state.sensitivity.scatter_nd_update(tf.gather(place, missing), self._measure(own, seen))
        return tf.shape(missing)[0]

    def _measure_in_batch(
        self, state: State, place: Tensor, known: Tensor, missing: Tensor, parents: Tensor, experience: Nest
    ) -> Tensor:
        count, width = tf.shape(missing)[0], int(place.shape[0])
        widths = self._widths(width)

        def measure(width: int) -> Any:
            def branch() -> Tensor:
                # Lanes that are known fill the batch up; measuring them again changes nothing.
                order = tf.argsort(tf.cast(known, tf.int32), stable=True)[:width]
                found = self._measure(
                    tf.gather(parents, order), tf.nest.map_structure(lambda x: tf.gather(x, order), experience)
                )
                state.sensitivity.scatter_nd_update(tf.gather(place, order), found)
                return count

            return branch

        measures = [measure(width) for width in widths]
        self._once(self._begun[width], measures, count)
        branches = [lambda: count, *measures]
        choose_batch = tf.add_n([tf.cast(count > bound, tf.int32) for bound in (0, *widths[:-1])])
        return tf.switch_case(choose_batch, branches)

    def _once(self, begun: tf.Variable, measures: list[Any], count: Tensor) -> None:
        """Measure in every way in the first step of a width, whose call then pays for compiling them.

        A branch is compiled when it is first taken, which would otherwise be in the midst of a later call.
        """

        def all_of_them() -> Tensor:
            begun.assign(True)
            return tf.add_n([measure() for measure in measures])

        tf.cond(begun, lambda: count, all_of_them)

    def _widths(self, width: int) -> tuple[int, ...]:
        """Return the widths that are compiled: half of the lanes, which mostly suffices, and all of them."""
        return tuple(sorted({max(self._least, -(-width // 2)), width}))

    def _measured(self, parents: Tensor, experience: Nest) -> Tensor:
        seen = self._domain.observe(experience)
        return self._mutation.sensitivity(self._network, parents, seen, tf.zeros_like(parents))

    def _children(self, parents: Tensor, sensitivity: Tensor, intensity_scale: Tensor, seed: Tensor) -> Tensor:
        return self._mutation.child(self._network, parents, sensitivity, intensity_scale, seed)


def can_reuse(mutation: Mutation, network: Network, available: int) -> TypeIs[SupportsReuse]:
    """Say whether an operator's sensitivity depends on the parent alone, given so many experiences."""
    return isinstance(mutation, SupportsReuse) and mutation.batched and mutation.reusable(network, available)


MAX_SCALE: Final = 1e4
"""Times the intensity, up or down, beyond which nothing adapts."""
_OWN: Final = 11
"""Keeps what is drawn here apart from what an operator draws by the same seed."""


@dataclass(frozen=True)
class Adaptation:
    r"""How intensities adapt.

    - `self`: each individual carries its own, :math:`\sigma' = \sigma \exp(\tau z)`, by which it was made itself; those
      that make good children spread with them.
    - `divergence`: all children of a run have one, which is corrected after each of them so that the outputs move by
      the wanted divergence `D`: :math:`\sigma' = \sigma (D / d)^{\tau / 2}` after a child that moved them by `d`.
    """

    mode: Adapt = "none"
    rate: float = 0.2
    """:math:`\\tau`."""
    target: float = 0.0
    """The wanted divergence."""

    @property
    def on(self) -> bool:
        """Whether there is anything to do."""
        return self.mode != "none"

    def inherited(self, intensity_scale: Tensor, seed: Tensor) -> Tensor:
        """Return the strengths of children `[B]` from those of their parents, with seeds `[B, 2]`."""
        drawn = gaussian(fold_in(seed, _OWN), 1)[..., 0]
        return _bounded(intensity_scale * tf.exp(self.rate * drawn))

    def corrected(self, intensity_scale: Tensor, divergence: Tensor) -> Tensor:
        """Return the strengths `[B]` of the next children, after ones that moved the outputs so far."""
        moved = tf.cast(divergence, intensity_scale.dtype)
        # What moves nothing at all, or breaks, tells no more than that it was far too little or too much.
        known = tf.where(tf.math.is_finite(moved), tf.maximum(moved, 1e-30), 1e30)
        step = (self.rate / 2.0) * (tf.math.log(self.target) - tf.math.log(known))
        return _bounded(intensity_scale * tf.exp(tf.clip_by_value(step, -1.0, 1.0)))


def _bounded(intensity_scale: Tensor) -> Tensor:
    return tf.clip_by_value(intensity_scale, 1.0 / MAX_SCALE, MAX_SCALE)


class Variation:
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
        failure_policy: what to do where a domain that is plain Python fails.
    """

    def __init__(
        self,
        network: Network,
        domain: Domain,
        mutation: Mutation,
        *,
        intensity: float,
        initial: Initializer,
        seed: int,
        plan: Plan,
        adaptation: Adaptation | None = None,
        failure_policy: FailurePolicy | None = None,
    ) -> None:
        self.network, self.domain, self.mutation, self.plan = network, domain, mutation, plan
        self.adaptation = adaptation or Adaptation()
        self.recombines = recombines(mutation)
        """Whether children have two parents."""
        self.intensity = tf.Variable(intensity, trainable=False, dtype=network.dtype)
        self._initial, self._root = initial, root_seed(seed)
        self.evaluate = Evaluator(domain, network, jit=plan.jit, failure_policy=failure_policy)
        self._answers = tf.function(self._answered, jit_compile=plan.jit)
        self._mutate = tf.function(
            map_one_by_one(self._mutated) if plan.one_by_one else self._mutated, jit_compile=plan.jit
        )
        # Whatever the plan: a few hundred tiny operations that would each cost more than they do.
        self.initial_seeds = tf.function(self._seeded, jit_compile=True, autograph=False)
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
        return split(fold_in(self._root, runs, number), 3)

    def children(
        self, parents: Tensor, experience: Nest, intensity_scale: Tensor, seed: Tensor, mates: tuple[Nest, ...] = ()
    ) -> Child:
        """Mutate parents `[W, P]` that saw `experience`.

        Args:
            parents: the parents.
            experience: what they saw, as the domain keeps it.
            intensity_scale: how many times the intensity their children get, `[W]`.
            seed: `[W, 2]`.
            mates: genomes of second parents and what these saw, for an operator that recombines.
        """
        times = (self.times(intensity_scale),) if self.adaptation.on else ()
        return self._mutate(parents, experience, seed, *times, *mates)

    def times(self, intensity_scale: Tensor) -> Tensor:
        """Return strengths `[W]` as operators multiply by them: `[W, 1]`."""
        return tf.cast(intensity_scale, self.network.dtype)[:, None]

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
        first, second = split(fold_in(self._root, runs, number), 2)
        return first, second

    def _mutated(self, parents: Tensor, experience: Nest, seed: Tensor, *more: Nest) -> Child:
        """Return children; more are the times of the intensity where it adapts, and mates and what they saw."""
        intensity = self.intensity.read_value()
        if self.adaptation.on:
            intensity, more = intensity * more[0], more[1:]
        mates = Mates(more[0], self.domain.observe(more[1])) if more else None
        seen = self.domain.observe(experience)
        return mutate_batch(self.mutation, self.network, parents, seen, intensity, seed, mates)

    def _answered(self, genomes: Tensor, experience: Nest) -> Tensor:
        return self.network.rows(genomes, self.domain.observe(experience))


def _seeds_of(lanes: int) -> Tensor:
    return tf.stack([tf.range(lanes), tf.zeros(lanes, tf.int32)], axis=-1)
