"""The core of evolution: `ask` which parents have the next children, and `tell` what became of these.

The lock-step loop calls `step`, one compiled function that asks, mutates, evaluates and tells for all runs at once.
The asynchronous loop calls `ask` and `tell` one after the other; workers mutate and evaluate in between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfsm.errors import TfsmError
from tfsm.evolution.compile_plan import TracedFunction, needs_autograph
from tfsm.evolution.divergence_probe import MAX_PROBES, DivergenceProbe
from tfsm.evolution.evaluation import FailurePolicy
from tfsm.evolution.selection import Selector, choose
from tfsm.evolution.state import TALLIES, State, after_evaluation
from tfsm.evolution.variation import Offspring, Parents, SensitivityCache, Variation, can_reuse, derive_seeds
from tfsm.interfaces import (
    Candidate,
    Child,
    Evaluation,
    Population,
    Selection,
    StatefulSelection,
    SupportsBehaviorMap,
    Tensor,
)
from tfsm.kernels.random import fold_in


class Mating(NamedTuple):
    """What is selected and drawn for `W` children: slots in their populations, and seeds."""

    parent: Tensor
    """`[W]`"""
    mate: Tensor
    """`[W]`: the second parent, for operators that recombine; else the same as the first."""
    replaced: Tensor
    """`[W]`: the slot for the child."""
    mutate_seed: Tensor
    """`[W, 2]`"""
    evaluate_seed: Tensor
    """`[W, 2]`"""


class Engine:
    """Populations of a group of runs, and the compiled functions that advance them.

    A run's randomness is keyed by (seed, run, evaluation) alone, so that it does not matter how many runs share the
    batch. A lane is the place of a run in the state; lane 0 holds the run `first_run`. A batch is a vector of lanes
    `[W]`, of which those that are not `live` are idle: what they compute is not kept.

    Args:
        variation: makes and evaluates individuals.
        selection: the selection scheme.
        population: N.
        stop_when_solved: whether a run ends with its first solution.
    """

    def __init__(
        self,
        variation: Variation,
        selection: Selection | StatefulSelection,
        *,
        population: int,
        stop_when_solved: bool = True,
    ) -> None:
        if variation.recombines and population < 2:
            raise TfsmError(
                f"the operator {type(variation.mutation).__name__} recombines two parents, but the population is one: "
                "choose another selection scheme, such as tournament"
            )
        self.variation, self.plan, self.stop_when_solved = variation, variation.plan, stop_when_solved
        self.network, self.domain = variation.network, variation.domain
        self.selector = Selector(selection, self.domain, variation.template, population)
        self._sensitivities: SensitivityCache | None = None
        self.state = self._allocate(population)
        self._first_run = tf.Variable(0, trainable=False)
        self._divergence_probe = DivergenceProbe(variation)
        self._mate = find_or_compile_mating(selection, variation.recombines)
        autograph = needs_autograph(selection)
        # A stateful scheme is many tiny operations; the others compare two numbers.
        self._admit, self._admit_initial = (
            tf.function(function, jit_compile=True, autograph=autograph) if self.selector.is_stateful else function
            for function in (self.selector.admit, self.selector.admit_initial)
        )
        self.initialize = TracedFunction(_repeat(self._initialize))
        """Draw and evaluate the next initial individuals, and tell: (steps, lanes `[W]`, active lanes, budget)."""
        self.step = TracedFunction(_repeat(self._step))
        """Ask, mutate, evaluate and tell: (steps, lanes `[W]`, active lanes, budget)."""
        self.ask = TracedFunction(self._ask_parents)
        self.tell_initial = TracedFunction(self._tell_initial_batch)
        self.tell = TracedFunction(self._tell_batch)
        self.probe = TracedFunction(self._probe)

    @property
    def reuses_sensitivities(self) -> bool:
        """Whether sensitivities are kept for a parent's next child."""
        return self._sensitivities is not None

    @property
    def diagnostics(self) -> list[str]:
        """Names of the operator's diagnostics, in order."""
        return [name for name in self.state.tallies if name not in (*TALLIES, "intensity")]

    @property
    def uses_per_example_gradients(self) -> bool:
        """Whether the operator needs gradients of single experiences."""
        return bool(getattr(self.variation.mutation, "uses_per_example_gradients", False))

    @property
    def compiled_domain(self) -> bool:
        """Whether the domain is compiled with the loop."""
        return self.variation.evaluate.is_compiled

    @property
    def failure_policy(self) -> FailurePolicy:
        """What happens when the domain fails, and what did."""
        return self.variation.evaluate.failure_policy

    def set_intensity(self, intensity: float) -> None:
        """Change the intensity; nothing is compiled again."""
        self.variation.intensity.assign(intensity)

    def reset(self, first_run: int) -> None:
        """Clear the state for the runs from `first_run` on."""
        self._first_run.assign(first_run)
        self.failure_policy.failed = False
        self.state.clear()

    def start(self, lanes: Sequence[int]) -> None:
        """Prepare lanes with complete initial populations for children; raise an error if all of one are broken."""
        lanes = list(lanes)
        healthy = np.isfinite(self.state.fitness.sparse_read(lanes).numpy()).any(axis=1)
        solved = self.state.solved.sparse_read(lanes).numpy()
        for lane, usable in zip(lanes, healthy | solved, strict=True):
            if not usable:
                run, count = int(self._first_run) + lane, self.selector.initial_population
                raise TfsmError(
                    f"run {run}: none of the {count} initial networks has a finite fitness; their outputs are NaN or "
                    "infinite"
                )
        self.state.set_baseline(lanes)

    # --- All runs in lock step: compiled with the domain, many steps per call

    def _initialize(self, lanes: Tensor, active: Tensor, budget: Tensor) -> None:
        number, live = self._next_numbers(lanes, active, budget)
        draw_seed, evaluate_seed = self.variation.initial_seeds(self._first_run + lanes, number)
        genomes, evaluation = self.variation.make_initial(draw_seed, evaluate_seed, live)
        self._tell_initial(lanes, live, number, self._view(lanes), evaluate_seed, genomes, evaluation)

    def _step(self, lanes: Tensor, active: Tensor, budget: Tensor) -> None:
        number, live = self._next_numbers(lanes, active, budget)
        view = self._view(lanes)
        mating = self._ask(view, self._first_run + lanes, number)
        parents = self._parents(lanes, mating)
        child = self._mutate(lanes, mating, parents)
        evaluation = self.variation.evaluate(child.genome, mating.evaluate_seed, live)
        offspring = Offspring(
            genomes=child.genome,
            intensity_scale=parents.intensity_scale,
            parent_fitness=self._fitness(lanes, mating.parent),
            divergence=self.variation.divergence(parents, child.genome) if self._adapts_to_divergence else (),
            diagnostics=child.diagnostics,
        )
        self._tell(lanes, live, view, mating, offspring, evaluation)

    def _next_numbers(self, lanes: Tensor, active: Tensor, budget: Tensor) -> tuple[Tensor, Tensor]:
        """Return the numbers `[W]` of the next individuals, and which lanes are live, at most the first `active`."""
        number = self.state.evaluations.sparse_read(lanes)
        live = number < budget
        if self.stop_when_solved:
            live &= ~self.state.solved.sparse_read(lanes)
        return number, live & (tf.range(tf.shape(lanes)[0]) < active)

    # --- Single children: `keys` are lanes, numbers, and which of them are live, `[3, W]`

    def _ask_parents(self, keys: Tensor) -> tuple[Parents, Tensor]:
        """Return the parents of these children, and the parents' fitness, without the lanes that are not live.

        A lane may occur more than once. All children have parents from the populations as they are now.
        """
        lanes, number, live = _unpack_keys(keys)
        mating = self._ask(self._view(lanes), self._first_run + lanes, number)
        scale = self._intensity_scale(lanes, mating)
        lanes, mating, scale = tf.nest.map_structure(lambda x: x[live], (lanes, mating, scale))
        return self._parents(lanes, mating, scale), self._fitness(lanes, mating.parent)

    def _tell_initial_batch(self, keys: Tensor, genomes: Tensor, *evaluation: Tensor) -> None:
        """Record initial individuals `[W, P]` of different runs, given the leaves of their evaluation."""
        lanes, number, live = _unpack_keys(keys)
        _, evaluate_seed = self.variation.initial_seeds(self._first_run + lanes, number)
        packed = tf.nest.pack_sequence_as(self.variation.template, evaluation)
        self._tell_initial(lanes, live, number, self._view(lanes), evaluate_seed, genomes, packed)

    def _tell_batch(self, keys: Tensor, numbers: Tensor, genomes: Tensor, *evaluation: Tensor) -> None:
        """Record children of different runs; the slot for each is chosen in the populations as they are now.

        Args:
            keys: lanes, numbers, and which of them are live: `[3, W]`. Few arguments, since each takes its time.
            numbers: intensity scale, parent's fitness, divergence, and diagnostics: `[3 + D, W]`.
            genomes: `[W, P]`.
            evaluation: the leaves of their evaluation.
        """
        lanes, number, live = _unpack_keys(keys)
        view = self._view(lanes)
        mating = self._ask(view, self._first_run + lanes, number)
        scale, parent_fitness, divergence, *values = tf.unstack(numbers)
        diagnostics = dict(zip(self.diagnostics, values, strict=True))
        offspring = Offspring(genomes, scale, parent_fitness, divergence, diagnostics)
        packed = tf.nest.pack_sequence_as(self.variation.template, evaluation)
        self._tell(lanes, live, view, mating, offspring, packed)

    # --- Ask

    def _ask(self, view: Population, runs: Tensor, number: Tensor) -> Mating:
        """Select parents and slots for the children of these numbers, and draw their seeds."""
        return Mating(*self._mate(self.variation.root_seed, view, runs, number))

    def _parents(self, lanes: Tensor, mating: Mating, scale: Tensor | None = None) -> Parents:
        genomes, experience = self.state.individuals(lanes, mating.parent)
        scale = self._intensity_scale(lanes, mating) if scale is None else scale
        mates = self.state.individuals(lanes, mating.mate) if self.variation.recombines else ()
        return Parents(genomes, experience, mates, scale)

    def _mutate(self, lanes: Tensor, mating: Mating, parents: Parents) -> Child:
        if self._sensitivities is None:
            return self.variation.mutate(parents, mating.mutate_seed)
        sensitivity = self._sensitivities.look_up(self.state, lanes, mating.parent, parents)
        return self.variation.mutate_known(parents, sensitivity, mating.mutate_seed)

    def _intensity_scale(self, lanes: Tensor, mating: Mating) -> Tensor:
        """Return the factors of the intensity for these children: `[W]`."""
        if self.variation.adaptation.mode == "self":
            scale = self.state.intensity_scale.gather_nd(tf.stack([lanes, mating.parent], axis=-1))
            return self.variation.inherit_scale(scale, mating.mutate_seed)
        return self.state.run_intensity_scale.sparse_read(lanes)

    def _fitness(self, lanes: Tensor, slots: Tensor) -> Tensor:
        return self.state.fitness.gather_nd(tf.stack([lanes, slots], axis=-1))

    def _view(self, lanes: Tensor) -> Population:
        return self.state.view(lanes, self.selector.needs)

    # --- Tell

    def _tell_initial(
        self,
        lanes: Tensor,
        live: Tensor,
        number: Tensor,
        view: Population,
        seed: Tensor,
        genomes: Tensor,
        evaluation: Evaluation,
    ) -> None:
        """Admit initial individuals, and record them.

        Args:
            lanes: `[W]`, all different.
            live: which of them count, `[W]`.
            number: of the individuals, `[W]`.
            view: the populations.
            seed: the seeds that they were evaluated with, `[W, 2]`.
            genomes: `[W, P]`.
            evaluation: their evaluation.
        """
        evaluation = _mark_broken(evaluation)
        admission = self._admit_initial(view, _candidate(evaluation, number % self.state.population), seed)
        self.state.record(lanes, live, admission, genomes, evaluation)

    def _tell(
        self,
        lanes: Tensor,
        live: Tensor,
        view: Population,
        mating: Mating,
        offspring: Offspring,
        evaluation: Evaluation,
    ) -> None:
        """Admit children or not, count them for the log, and record them.

        Args:
            lanes: `[W]`, all different.
            live: which of them count, `[W]`.
            view: the populations.
            mating: the slots that they may take.
            offspring: the children.
            evaluation: their evaluation.
        """
        adaptation, scale = self.variation.adaptation, offspring.intensity_scale
        evaluation = _mark_broken(evaluation)
        admission = self._admit(view, _candidate(evaluation, mating.replaced), mating.evaluate_seed)
        tallies = dict(offspring.diagnostics)
        if adaptation.on:
            tallies["intensity"] = tf.cast(self.variation.intensity, tf.float32) * scale
        self.state.tally(lanes, live, evaluation.fitness, offspring.parent_fitness, tallies)
        if self._adapts_to_divergence:
            with after_evaluation(evaluation.fitness):
                corrected = self.variation.correct_scale(scale, offspring.divergence)
                self.state.set_run_intensity_scale(lanes, live & ~(offspring.divergence < 0), corrected)
        self.state.record(lanes, live, admission, offspring.genomes, evaluation, scale)

    @property
    def _adapts_to_divergence(self) -> bool:
        return self.variation.adaptation.mode == "divergence"

    # --- Children for the log only

    def _probe(self, lanes: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
        """Make children of the populations without evaluating or keeping any.

        Args:
            lanes: `[W]`.
            count: number of children per lane, at most `MAX_PROBES`.

        Returns:
            How far the children `[W, count]` are from their parents, and the sensitivities `[W, P]` of the first
            child's parent: `[W, 0]` where the operator measures none.
        """
        evaluations = self.state.evaluations.sparse_read(lanes)

        def draw(i: Tensor) -> Mating:
            # Evaluation numbers below zero are never run, so no real child is drawn by these seeds.
            number = -1 - (MAX_PROBES * evaluations + i)
            return self._ask(self._view(lanes), self._first_run + lanes, number)

        def measure(i: Tensor) -> Tensor:
            mating = draw(i)
            parents = self._parents(lanes, mating)
            return self._divergence_probe.divergence(parents, self._mutate(lanes, mating, parents).genome)

        # A loop and not a row of copies, which would take as many times as long to trace.
        divergence = tf.map_fn(
            measure,
            tf.range(count),
            fn_output_signature=tf.TensorSpec(lanes.shape, self.network.dtype),
            parallel_iterations=1,
        )
        return tf.transpose(divergence), self._probe_sensitivity(lanes, draw(tf.constant(0)))

    def _probe_sensitivity(self, lanes: Tensor, mating: Mating) -> Tensor:
        if not self._divergence_probe.measures_sensitivity:
            return tf.zeros([lanes.shape[0], 0], self.network.dtype)
        if self.reuses_sensitivities:  # measured for the first child at the latest
            return self.state.sensitivity.gather_nd(tf.stack([lanes, mating.parent], axis=-1))
        genomes, experience = self.state.individuals(lanes, mating.parent)
        return self._divergence_probe.sensitivity(genomes, experience, mating.mutate_seed)

    # --- Construction

    def _allocate(self, population: int) -> State:
        variation, diagnostics = self.variation, list[str]()
        mutation = variation.mutation
        if self.plan.reuse and can_reuse(mutation, self.network, variation.count_experiences()):
            self._sensitivities = SensitivityCache(variation.evaluate, mutation, self.plan)
        if self._sensitivities is None or variation.has_target:
            diagnostics = variation.diagnostic_names()
        if variation.adaptation.on:
            diagnostics = [*diagnostics, "intensity"]
        return State(
            self.plan.runs,
            population,
            self.network.size,
            self.network.dtype,
            variation.template,
            diagnostics,
            reuse=self.reuses_sensitivities,
            behavior=isinstance(self.domain, SupportsBehaviorMap) or "behavior" in self.selector.needs,
            cases="cases" in self.selector.needs,
            selection_state=self.selector.initial_state,
        )


def find_or_compile_mating(selection: Any, recombines: bool) -> TracedFunction:
    """Return the function that selects and draws for a scheme; engines with equal schemes share what is compiled."""
    try:
        return _share_mating(selection, recombines)
    except TypeError:  # a scheme that is not hashable
        return _compile_mating(selection, recombines)


def _compile_mating(selection: Any, recombines: bool) -> TracedFunction:
    def mate(root: Tensor, view: Population, runs: Tensor, number: Tensor) -> Mating:
        select_seed, mutate_seed, evaluate_seed = derive_seeds(root, runs, number)
        choice = choose(selection, view, select_seed)
        second = choose(selection, view, fold_in(select_seed, 1)).parent if recombines else choice.parent
        return Mating(choice.parent, second, choice.replaced, mutate_seed, evaluate_seed)

    # XLA whatever the plan: a few hundred tiny operations that would each cost more to dispatch than to run.
    return TracedFunction(mate, jit=True, autograph=needs_autograph(selection))


_share_mating = lru_cache(maxsize=32)(_compile_mating)


def _repeat(step: Callable[[Tensor, Tensor, Tensor], None]) -> Callable[..., None]:
    def body(i: Tensor, *arguments: Tensor) -> tuple[Tensor, ...]:
        step(*arguments)
        return i + 1, *arguments

    def repeat(steps: Tensor, lanes: Tensor, active: Tensor, budget: Tensor) -> None:
        tf.while_loop(lambda i, *_: i < steps, body, (tf.constant(0), lanes, active, budget))

    return repeat


def _mark_broken(evaluation: Evaluation) -> Evaluation:
    """Return the evaluation with minus infinity for a fitness that is not finite."""
    fitness = tf.where(tf.math.is_finite(evaluation.fitness), evaluation.fitness, float("-inf"))
    return evaluation._replace(fitness=fitness)


def _candidate(evaluation: Evaluation, slots: Tensor) -> Candidate:
    cases = evaluation.cases
    if isinstance(cases, tuple):
        cases = tf.zeros([*evaluation.fitness.shape, 0])
    return Candidate(evaluation.fitness, evaluation.behavior, cases, slots)


def _unpack_keys(keys: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    lanes, number, live = tf.unstack(keys)
    return lanes, number, tf.cast(live, tf.bool)
