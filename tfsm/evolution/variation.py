"""Parents -> children: applies the mutation operator to batches, adapts intensities and caches sensitivities.

About half of all children have a parent that had one before. Where a sensitivity depends on the parent alone, it is
kept beside the population; only the lanes whose parent has none yet are measured, in a batch that is just wide enough.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import tensorflow as tf
from typing_extensions import TypeIs

from tfsm.abilities import SupportsDistinctFrames, SupportsReuse, SupportsRunningStatistics
from tfsm.errors import TfsmError
from tfsm.evolution.compile_plan import Plan, TracedFunction, needs_autograph
from tfsm.interfaces import Adapt, Child, Domain, Evaluation, Mutation, Nest, Tensor
from tfsm.kernels.experience import to_dense
from tfsm.kernels.random import fold_in, gaussian, root_seed, split
from tfsm.kernels.sensitivity import divergence
from tfsm.models.network import Network

if TYPE_CHECKING:
    from tfsm.evolution.divergence import DivergenceTarget
    from tfsm.evolution.evaluation import Evaluator
    from tfsm.evolution.initialization import Initializer
    from tfsm.evolution.state import State

LANES_AT_ONCE = 2
"""Lanes that may run at the same time where they are taken one by one; more would take more memory."""


class Parents(NamedTuple):
    """The parents of `W` children: all that is needed to make these, apart from seeds."""

    genomes: Tensor
    """`[W, P]`"""
    experience: Nest
    """What the parents saw, `[W, ...]`, as the domain keeps it."""
    mates: tuple[Nest, ...]
    """Genomes `[W, P]` and experience of second parents, for an operator that recombines; else `()`."""
    intensity_scale: Tensor
    """`[W]`: factor of the intensity."""


class Offspring(NamedTuple):
    """`W` children, as the engine's `tell` takes them; their evaluation comes separately."""

    genomes: Tensor
    """`[W, P]`"""
    intensity_scale: Tensor
    """`[W]`: factor of the intensity that they were made with."""
    parent_fitness: Tensor
    """`[W]`: the fitness of their parents when these were chosen."""
    divergence: Tensor
    """`[W]`: how far their outputs are from their parents', below 0 where unknown; `()` where nothing adapts to it."""
    diagnostics: Mapping[str, Tensor]
    """`[W]` each, by name."""


# --- Operators on batches


def recombines(mutation: Mutation) -> bool:
    """Return whether an operator needs a second parent."""
    return bool(getattr(mutation, "mates", False))


def mutate_batch(
    mutation: Mutation,
    network: Network,
    parents: Tensor,
    experience: Nest,
    intensity: Tensor,
    seed: Tensor,
    mates: tuple[Tensor, Nest] | None = None,
    target: DivergenceTarget | None = None,
) -> Child:
    """Mutate parents `[B, P]` with an operator that is written for one genome or for a batch.

    Args:
        mutation: the operator.
        network: the network.
        parents: `[B, P]`.
        experience: what they saw: `[B, I, ...]`, or `[1, I, ...]` where all see the same.
        intensity: one number, or `[B, 1]` where each has its own; with a target, the divergence.
        seed: `[B, 2]`.
        mates: genomes and experience of the second parents, for an operator that recombines.
        target: rescales what the operator changes to a divergence; None for an intensity.
    """
    if recombines(mutation) and mates is None:
        raise TfsmError(
            f"the operator {type(mutation).__name__} recombines two parents, but only one is given: it works within "
            "`tfsm run`, `tfsm compare` and `tfsm.evolve`"
        )
    if target is not None and not getattr(mutation, "targets_divergence", False):
        change = _perturb(mutation, network, parents, experience, seed)
        return target.rescale(network, parents, experience, change, intensity)
    if target is not None:
        intensity = target.to_absolute(network, parents, experience, intensity)[:, None]
    if getattr(mutation, "batched", False):
        keywords = {} if mates is None else {"mate": mates[0], "mate_experience": mates[1]}
        return as_child(mutation(network, parents, experience, intensity, seed, **keywords))
    lanes = parents.shape[0] or tf.shape(parents)[0]
    widen = functools.partial(_widen, lanes)
    intensities = tf.broadcast_to(tf.reshape(intensity, [-1]), [lanes])

    def mutate_one(arguments: tuple[Any, ...]) -> Child:
        parent, seen, own_intensity, own_seed, *mate = arguments
        keywords = {"mate": mate[0], "mate_experience": mate[1]} if mate else {}
        return as_child(mutation(network, parent, seen, own_intensity, own_seed, **keywords))

    second = () if mates is None else (mates[0], widen(mates[1]))
    return Child(*tf.vectorized_map(mutate_one, (parents, widen(experience), intensities, seed, *second)))


def _perturb(mutation: Mutation, network: Network, parents: Tensor, experience: Nest, seed: Tensor) -> Tensor:
    from tfsm.evolution.divergence import perturb  # most runs have an intensity

    if getattr(mutation, "batched", False):
        return perturb(mutation, network, parents, experience, seed)

    def perturb_one(arguments: tuple[Any, ...]) -> Tensor:
        parent, seen, own_seed = arguments
        return perturb(mutation, network, parent, seen, own_seed)

    lanes = parents.shape[0] or tf.shape(parents)[0]
    return tf.vectorized_map(perturb_one, (parents, _widen(lanes, experience), seed))


def _widen(lanes: Tensor | int, experience: Nest) -> Nest:
    return tf.nest.map_structure(lambda x: tf.repeat(x, lanes, axis=0) if x.shape[0] == 1 else x, to_dense(experience))


def as_child(result: Tensor | Child) -> Child:
    """Return what an operator returned as a child with diagnostics."""
    if isinstance(result, Child):
        return Child(result.genome, dict(result.diagnostics))
    return Child(result, {})


def map_one_by_one(function: Callable[..., Any], autograph: bool = True) -> Callable[..., Any]:
    """Return a function of batches that takes their lanes one after another.

    For functions that are slow enough to be worth a call per lane: they are traced once for any number of lanes, and
    take the memory of few lanes.
    """
    single = tf.function(function, autograph=autograph)

    def call_alone(arguments: Nest) -> Nest:
        result = single(*tf.nest.map_structure(lambda x: x[None], arguments))
        return tf.nest.map_structure(lambda x: x[0], result)

    def mapped(*arguments: Nest) -> Nest:
        specs = tf.nest.map_structure(lambda x: tf.TensorSpec([1, *x.shape[1:]], x.dtype), arguments)
        outputs = single.get_concrete_function(*specs).structured_outputs
        signature = tf.nest.map_structure(lambda x: tf.TensorSpec(x.shape[1:], x.dtype), outputs)
        return tf.map_fn(call_alone, arguments, fn_output_signature=signature, parallel_iterations=LANES_AT_ONCE)

    return mapped


def choose_observe(domain: Domain, plan: Plan) -> Callable[[Nest], Nest]:
    """Return the function that turns the experience of parents into inputs for an operator.

    Where parents are taken one by one, each distinct frame is needed only once, if the domain supports that.
    """
    if plan.one_by_one and isinstance(domain, SupportsDistinctFrames):
        return domain.observe_distinct
    return domain.observe


# --- Sensitivities that are kept for a parent's next child


def can_reuse(mutation: Mutation, network: Network, available: int) -> TypeIs[SupportsReuse]:
    """Return whether an operator's sensitivity depends on the parent alone, given that many experiences."""
    return isinstance(mutation, SupportsReuse) and mutation.batched and mutation.reusable(network, available)


class SensitivityCache:
    """Looks up the sensitivities of parents, and measures the missing ones.

    Args:
        evaluator: the network and the domain.
        mutation: an operator for which `can_reuse` holds.
        plan: how to compile.
        offspring: children of a lane that are made at once, `K`.
    """

    def __init__(self, evaluator: Evaluator, mutation: SupportsReuse, plan: Plan, offspring: int = 1) -> None:
        self._offspring = offspring
        self._network, self._mutation = evaluator.network, mutation
        self._observe = choose_observe(evaluator.domain, plan)
        self._least_width = plan.least_width
        self._one_by_one = plan.one_by_one
        autograph = needs_autograph(evaluator.domain, mutation)
        measure = map_one_by_one(self._measure_parents, autograph) if plan.one_by_one else self._measure_parents
        self._measure = tf.function(measure, jit_compile=plan.jit, autograph=autograph)
        self._warmed_up = {width: tf.Variable(False, trainable=False) for width in plan.widths()}

    def look_up(self, state: State, lanes: Tensor, slots: Tensor, parents: Parents) -> Tensor:
        """Return the sensitivities `[B, P]` of the parents in these lanes and slots; each is measured at most once."""
        place = tf.stack([lanes, slots], axis=-1)
        known = state.has_sensitivity.gather_nd(place)
        measure = self._measure_in_batch
        if self._offspring > 1 or int(place.shape[0]) not in self._warmed_up:
            known |= _occurs_before(lanes * state.population + slots)
            measure = self._measure_in_portions
        if self._one_by_one:
            measure = self._measure_missing
        missing = tf.cast(tf.where(~known)[:, 0], tf.int32)
        with tf.control_dependencies([measure(state, place, known, missing, parents)]):
            state.mark_sensitivities(place)
            sensitivity = state.sensitivity.gather_nd(place)
        return sensitivity

    def _measure_missing(self, state: State, place: Tensor, known: Tensor, missing: Tensor, parents: Parents) -> Tensor:
        genomes, experience = tf.nest.map_structure(
            lambda x: tf.gather(x, missing), (parents.genomes, parents.experience)
        )
        state.store_sensitivities(tf.gather(place, missing), self._measure(genomes, experience))
        return tf.shape(missing)[0]

    def _measure_in_batch(
        self, state: State, place: Tensor, known: Tensor, missing: Tensor, parents: Parents
    ) -> Tensor:
        count, width = tf.shape(missing)[0], int(place.shape[0])
        widths = self._batch_widths(width)

        def measure(width: int) -> Any:
            def branch() -> Tensor:
                # Known lanes fill the batch up; measuring them again changes nothing.
                order = tf.argsort(tf.cast(known, tf.int32), stable=True)[:width]
                sensitivity = self._measure(
                    tf.gather(parents.genomes, order),
                    tf.nest.map_structure(lambda x: tf.gather(x, order), parents.experience),
                )
                state.store_sensitivities(tf.gather(place, order), sensitivity)
                return count

            return branch

        measures = [measure(width) for width in widths]
        self._warm_up(self._warmed_up[width], measures, count)
        branches = [lambda: count, *measures]
        chosen = tf.add_n([tf.cast(count > bound, tf.int32) for bound in (0, *widths[:-1])])
        return tf.switch_case(chosen, branches)

    def _measure_in_portions(
        self, state: State, place: Tensor, known: Tensor, missing: Tensor, parents: Parents
    ) -> Tensor:
        """Measure the parents without a sensitivity in as many portions of a quarter of the batch as it takes."""
        batch = int(place.shape[0])
        width = min(batch, max(self._least_width, -(-batch // 4)))
        # Known ones fill the last portion up; measuring them again changes nothing.
        order = tf.argsort(tf.cast(known, tf.int32), stable=True)

        def measure(start: Tensor) -> tuple[Tensor]:
            chosen = tf.gather(order, (start + tf.range(width)) % batch)
            sensitivity = self._measure(
                tf.gather(parents.genomes, chosen),
                tf.nest.map_structure(lambda x: tf.gather(x, chosen), parents.experience),
            )
            state.store_sensitivities(tf.gather(place, chosen), sensitivity)
            return (start + width,)

        count = tf.shape(missing)[0]
        (measured,) = tf.while_loop(lambda start: start < count, measure, (tf.constant(0),), parallel_iterations=1)
        return measured

    def _warm_up(self, warmed_up: tf.Variable, measures: list[Any], count: Tensor) -> None:
        """Take every branch in the first step of a width, whose call then pays for compiling them.

        A branch is compiled when it is first taken, which would otherwise be in the middle of a later call.
        """

        def take_all() -> Tensor:
            warmed_up.assign(True)
            return tf.add_n([measure() for measure in measures])

        tf.cond(warmed_up, lambda: count, take_all)

    def _batch_widths(self, width: int) -> tuple[int, ...]:
        """Return the widths that are compiled: half of the lanes, which mostly suffices, and all of them."""
        return tuple(sorted({max(self._least_width, -(-width // 2)), width}))

    def _measure_parents(self, parents: Tensor, experience: Nest) -> Tensor:
        seen = self._observe(experience)
        return self._mutation.sensitivity(self._network, parents, seen, tf.zeros_like(parents))


def _occurs_before(keys: Tensor) -> Tensor:
    """Return which of some integers `[B]` are equal to one before them."""
    order = tf.argsort(keys, stable=True)
    in_order = tf.gather(keys, order)
    repeated = tf.concat([[False], in_order[1:] == in_order[:-1]], axis=0)
    return tf.gather(repeated, tf.argsort(order))


# --- Intensities that adapt

MAX_SCALE: Final = 1e4
"""Factor of the intensity, up or down, beyond which nothing adapts."""
_INHERITANCE_STREAM: Final = 11
"""Keeps the noise drawn here apart from what an operator draws by the same seed."""


@dataclass(frozen=True)
class Adaptation:
    r"""How intensities adapt, as factors of the configured intensity.

    - `self`: each individual carries its own factor, :math:`\sigma' = \sigma \exp(\tau z)`, which it was made with;
      factors that make good children spread with them.
    - `divergence`: all children of a run share one factor, which is corrected after each of them so that the outputs
      move by the target divergence `D`: :math:`\sigma' = \sigma (D / d)^{\tau / 2}` after a child that moved them by
      `d`.
    """

    mode: Adapt = "none"
    rate: float = 0.2
    """:math:`\\tau`."""
    target: float = 0.0
    """The target divergence."""

    @property
    def on(self) -> bool:
        """Whether intensities adapt at all."""
        return self.mode != "none"

    def inherit(self, scale: Tensor, seed: Tensor) -> Tensor:
        """Return the intensity scales of children `[B]` from those of their parents, with seeds `[B, 2]`."""
        noise = gaussian(fold_in(seed, _INHERITANCE_STREAM), 1)[..., 0]
        return _clip_scale(scale * tf.exp(self.rate * noise))

    def correct(self, scale: Tensor, divergence: Tensor) -> Tensor:
        """Return the intensity scales `[B]` of the next children, given the divergence of the last ones."""
        divergence = tf.cast(divergence, scale.dtype)
        # A child that moves nothing at all, or breaks, only shows that the scale was far too small or too large.
        known = tf.where(tf.math.is_finite(divergence), tf.maximum(divergence, 1e-30), 1e30)
        step = (self.rate / 2.0) * (tf.math.log(self.target) - tf.math.log(known))
        return _clip_scale(scale * tf.exp(tf.clip_by_value(step, -1.0, 1.0)))


def _clip_scale(scale: Tensor) -> Tensor:
    return tf.clip_by_value(scale, 1.0 / MAX_SCALE, MAX_SCALE)


# --- Variation


def derive_seeds(root: Tensor, runs: Tensor, number: Tensor) -> tuple[Tensor, ...]:
    """Return the seeds `[W, 2]` that select parents for, mutate and evaluate the children of these numbers."""
    return split(fold_in(root, runs, number), 3)


# XLA whatever the plan: a few hundred tiny operations that would each cost more to dispatch than to run. All engines
# share what is compiled.
derive_initial_seeds = TracedFunction(lambda root, runs, number: split(fold_in(root, runs, number), 2), jit=True)


class Variation:
    """Makes `W` individuals at once, first ones and children; holds no population, so that workers can have one too.

    An individual's randomness is keyed by (seed, run, number) alone; its number counts the run's evaluations before it.

    Args:
        evaluator: the network, and the domain that evaluates it.
        mutation: the operator.
        intensity: the operator's intensity.
        initializer: how initial genomes are drawn.
        seed: the experiment's seed.
        plan: how to compile.
        adaptation: how the intensity adapts.
        target: rescales children to a divergence, which `intensity` then is; None for an intensity.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        mutation: Mutation,
        *,
        intensity: float,
        initializer: Initializer,
        seed: int,
        plan: Plan,
        adaptation: Adaptation | None = None,
        target: DivergenceTarget | None = None,
    ) -> None:
        self._target = target
        self.evaluate, self.network, self.domain = evaluator, evaluator.network, evaluator.domain
        self.mutation, self.plan = mutation, plan
        self.adaptation = adaptation or Adaptation()
        self.recombines = recombines(mutation)
        """Whether children have two parents."""
        self.intensity = tf.Variable(intensity, trainable=False, dtype=self.network.dtype)
        self._initializer = initializer
        self._observe_parents = choose_observe(self.domain, plan)
        self.root_seed = root_seed(seed)
        """The experiment's seed."""
        autograph = needs_autograph(self.domain, mutation)
        apply = map_one_by_one(self._apply_operator, autograph) if plan.one_by_one else self._apply_operator
        self._outputs = tf.function(self._observe_outputs, jit_compile=plan.jit, autograph=autograph)
        self._mutate = tf.function(apply, jit_compile=plan.jit, autograph=autograph)
        self._mutate_known = tf.function(self._apply_to_known, jit_compile=plan.jit, autograph=autograph)
        # XLA: a plain graph may round exponentials and logarithms at the end of an array otherwise than within it.
        self.inherit_scale = tf.function(self.adaptation.inherit, jit_compile=True, autograph=False)
        """From intensity scales `[W]` of parents and seeds `[W, 2]` to those of their children."""
        self.correct_scale = tf.function(self.adaptation.correct, jit_compile=True, autograph=False)
        """From intensity scales `[W]` of children and their divergence `[W]` to the scales of the next ones."""
        self.template = evaluator.template
        """What an evaluation returns for one genome, as `tf.TensorSpec`s."""

    @property
    def has_target(self) -> bool:
        """Whether children are rescaled to a divergence."""
        return self._target is not None

    def initial_seeds(self, runs: Tensor, number: Tensor) -> tuple[Tensor, Tensor]:
        """Return the seeds `[W, 2]` that draw and evaluate the initial individuals of these numbers."""
        draw_seed, evaluate_seed = derive_initial_seeds(self.root_seed, runs, number)
        return draw_seed, evaluate_seed

    def make_initial(self, draw_seed: Tensor, evaluate_seed: Tensor, live: Tensor) -> tuple[Tensor, Evaluation]:
        """Draw initial individuals `[W, P]`, and evaluate those that are `live`."""
        genomes = self._initializer.genomes(self.network, draw_seed)
        return genomes, self.evaluate(genomes, evaluate_seed, live)

    def mutate(self, parents: Parents, seed: Tensor) -> Child:
        """Return a child of each of the parents, with seeds `[W, 2]`."""
        scale = (self._as_factor(parents.intensity_scale),) if self.adaptation.on else ()
        child = self._mutate(parents.genomes, parents.experience, seed, *scale, *parents.mates)
        return self._update_statistics(parents, child)

    def mutate_known(self, parents: Parents, sensitivity: Tensor, seed: Tensor) -> Child:
        """Return a child of each of the parents, whose sensitivities `[W, P]` are known."""
        intensity = self.intensity.read_value()
        if self.adaptation.on:
            intensity = intensity * self._as_factor(parents.intensity_scale)
        experience = () if self._target is None else (parents.experience,)
        child = self._mutate_known(parents.genomes, sensitivity, intensity, seed, *experience)
        return self._update_statistics(parents, child)

    def divergence(self, parents: Parents, children: Tensor) -> Tensor:
        """Return how far the outputs of children `[W, P]` are from their parents', for what these saw: `[W]`."""
        before, after = (self._outputs(genomes, parents.experience) for genomes in (parents.genomes, children))
        return divergence(before, after)

    def count_experiences(self) -> int:
        """Return the number of experiences that an operator is given."""
        observe = tf.function(self.domain.observe, autograph=needs_autograph(self.domain))
        observed = observe.get_concrete_function(self._experience_specs())
        return int(tf.nest.flatten(observed.structured_outputs)[0].shape[1])

    def diagnostic_names(self) -> list[str]:
        """Return the names of the operator's diagnostics, in order."""
        if self._target is not None and not getattr(self.mutation, "targets_divergence", False):
            from tfsm.kernels.line_search import SEARCH_DIAGNOSTICS

            return sorted(SEARCH_DIAGNOSTICS)
        lanes, seen = self.plan.width, self._experience_specs()
        parents = tf.TensorSpec([lanes, self.network.size], self.network.dtype)
        more: tuple[Any, ...] = (tf.TensorSpec([lanes, 1], self.network.dtype),) if self.adaptation.on else ()
        more += (parents, seen) if self.recombines else ()
        traced = self._mutate.get_concrete_function(parents, seen, tf.TensorSpec([lanes, 2], tf.int32), *more)
        return sorted(traced.structured_outputs.diagnostics)

    def _update_statistics(self, parents: Parents, child: Child) -> Child:
        """Return children with the statistics of what their parents have seen, where a network has any."""
        domain, place = self.domain, self.network.statistics
        if place is None or not isinstance(domain, SupportsRunningStatistics):
            return child
        leaves = tf.nest.flatten(parents.experience)

        def update(genomes: np.ndarray, *seen: np.ndarray) -> np.ndarray:
            experience = tf.nest.pack_sequence_as(parents.experience, seen)
            return domain.update_statistics(genomes[:, place], experience).astype(genomes.dtype)

        # In NumPy, one genome at a time: the result must not depend on who shares the batch.
        statistics = tf.numpy_function(update, [parents.genomes, *leaves], parents.genomes.dtype)
        statistics.set_shape([*child.genome.shape[:1], place.stop - place.start])
        genome = tf.concat([child.genome[:, : place.start], statistics, child.genome[:, place.stop :]], axis=1)
        return child._replace(genome=genome)

    def _experience_specs(self) -> Nest:
        lanes = self.plan.width
        return tf.nest.map_structure(lambda s: tf.TensorSpec([lanes, *s.shape], s.dtype), self.template.experience)

    def _as_factor(self, scale: Tensor) -> Tensor:
        """Return intensity scales `[W]` as operators multiply by them: `[W, 1]`."""
        return tf.cast(scale, self.network.dtype)[:, None]

    def _apply_operator(self, parents: Tensor, experience: Nest, seed: Tensor, *more: Nest) -> Child:
        """Return children; `more` is the intensity scale where it adapts, then mates and their experience."""
        intensity = self.intensity.read_value()
        if self.adaptation.on:
            intensity, more = intensity * more[0], more[1:]
        mates = (more[0], self.domain.observe(more[1])) if more else None
        seen = self._observe_parents(experience)
        return mutate_batch(self.mutation, self.network, parents, seen, intensity, seed, mates, self._target)

    def _apply_to_known(
        self, parents: Tensor, sensitivity: Tensor, intensity: Tensor, seed: Tensor, *experience: Nest
    ) -> Child:
        """Return children of parents with known sensitivities; `experience` is needed for a target divergence only."""
        mutation: Any = self.mutation
        if self._target is None:
            return Child(mutation.child(self.network, parents, sensitivity, intensity, seed), {})
        change = mutation.perturb_known(self.network, sensitivity, seed)
        return self._target.rescale(self.network, parents, self.domain.observe(experience[0]), change, intensity)

    def _observe_outputs(self, genomes: Tensor, experience: Nest) -> Tensor:
        return self.network.rows(genomes, self.domain.observe(experience))
