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

from tfsm.abilities import Population, StatefulSelection, SupportsBehaviorMap
from tfsm.errors import TfsmError
from tfsm.evolution.admission import (
    COUNTS,
    TALLIES,
    Individuals,
    Outcome,
    Records,
    double_lanes,
    find_or_compile_tell,
    take_lane,
)
from tfsm.evolution.batches import Batches, plan_batches
from tfsm.evolution.compile_plan import TracedFunction, needs_autograph
from tfsm.evolution.divergence import MAX_PROBES, DivergenceProbe
from tfsm.evolution.evaluation import FailurePolicy
from tfsm.evolution.selection import Selector, choose
from tfsm.evolution.state import State
from tfsm.evolution.variation import Offspring, Parents, SensitivityCache, Variation, can_reuse, derive_seeds
from tfsm.interfaces import Child, Evaluation, Selection, Tensor
from tfsm.kernels.random import fold_in


class Mating(NamedTuple):
    """What is selected and drawn for `B` children: slots in their populations, and seeds."""

    parent: Tensor
    """`[B]`"""
    mate: Tensor
    """`[B]`: the second parent, for operators that recombine; else the same as the first."""
    replaced: Tensor
    """`[B]`: the slot for the child."""
    select_seed: Tensor
    """`[B, 2]`"""
    mutate_seed: Tensor
    """`[B, 2]`"""
    evaluate_seed: Tensor
    """`[B, 2]`"""


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
        offspring: children that a run asks for at once, `K`. None: one, or a generation where the scheme has them.
    """

    def __init__(
        self,
        variation: Variation,
        selection: Selection | StatefulSelection,
        *,
        population: int,
        stop_when_solved: bool = True,
        offspring: int | None = None,
    ) -> None:
        if variation.recombines and population < 2:
            raise TfsmError(
                f"the operator {type(variation.mutation).__name__} recombines two parents, but the population is one: "
                "choose another selection scheme, such as tournament"
            )
        self.variation, self.plan, self.stop_when_solved = variation, variation.plan, stop_when_solved
        self.network, self.domain = variation.network, variation.domain
        self._selection = selection
        self.selector = Selector(selection, self.domain, variation.template, population)
        self.batches = plan_batches(
            selection,
            population,
            offspring,
            lanes=self.plan.width,
            adapts_to_divergence=self._adapts_to_divergence,
        )
        """Which children of a run are asked for at once."""
        self._sensitivities: SensitivityCache | None = None
        self.state = self._allocate(population)
        self._first_run = tf.Variable(0, trainable=False)
        self._divergence_probe = DivergenceProbe(variation)
        self._mate = find_or_compile_mating(selection, variation.recombines)
        self.initialize = TracedFunction(_repeat(self._initialize))
        """Draw and evaluate the next initial individuals, and tell: (steps, lanes `[W]`, active lanes, budget)."""
        self.step = TracedFunction(_repeat(self._step))
        """Ask, mutate, evaluate and tell: (steps, lanes `[W]`, active lanes, budget)."""
        self.ask = TracedFunction(self._ask_parents)
        self.breed = TracedFunction(self._ask_children)
        self.tell_initial = TracedFunction(self._tell_initial_batch)
        self.tell = TracedFunction(self._tell_batch)
        self.probe = TracedFunction(self._probe)

    @property
    def widths(self) -> tuple[int, ...]:
        """The numbers of lanes that a step may have, falling: a batch of several children needs no idle lane."""
        widths = self.plan.widths()
        return (*widths[:-1], self.plan.runs) if self.batches.size > 1 and widths[-1] > self.plan.runs else widths

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

    # --- All runs in lock step: compiled with the domain, many steps per call. A batch is `K` children of each of `W`
    # lanes, `B = K * W`: first one child of every lane, then the second ones, and so on

    def _initialize(self, lanes: Tensor, active: Tensor, budget: Tensor) -> None:
        records = self._records(lanes)
        owners, number, live = self._next_numbers(lanes, records, active, budget)
        draw_seed, evaluate_seed = self.variation.initial_seeds(self._first_run + owners, number)
        genomes, evaluation = self.variation.make_initial(draw_seed, evaluate_seed, live)
        self._tell_initial(lanes, live, number, records, self._view(lanes), evaluate_seed, genomes, evaluation)

    def _step(self, lanes: Tensor, active: Tensor, budget: Tensor) -> None:
        records = self._records(lanes)
        owners, number, live = self._next_numbers(lanes, records, active, budget, self.batches)
        view = self._view(lanes)
        mating = self._ask(view, self._first_run + owners, number)
        offspring = self._breed(owners, mating)
        evaluation = self.variation.evaluate(offspring.genomes, mating.evaluate_seed, live)
        self._tell(lanes, live, records, view, mating, offspring, evaluation)

    def _next_numbers(
        self, lanes: Tensor, records: Records, active: Tensor, budget: Tensor, batches: Batches | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return lanes and numbers `[B]` of the next individuals, and which are live, at most the first `active` lanes.

        Args:
            lanes: `[W]`.
            records: of these lanes.
            active: number of active lanes.
            budget: no individual of this number or a higher one is live.
            batches: where batches of children end; None for initial individuals, which may be divided anywhere.
        """
        columns = dict(zip(COUNTS, tf.unstack(records.counts, axis=1), strict=True))
        following, going = columns["evaluations"], tf.range(lanes.shape[0]) < active
        if self.stop_when_solved:
            going &= tf.equal(columns["solved"], 0)
        count = self.batches.size
        if count == 1:
            return lanes, following, going & (following < budget)
        end = budget if batches is None else tf.minimum(budget, batches.ends(following))
        number = following + tf.range(count)[:, None]  # [K, W]
        owners, live = tf.tile(lanes, [count]), tf.reshape(going & (number < end), [-1])
        return owners, tf.reshape(number, [-1]), live

    # --- Single batches: `keys` are lanes, numbers, and which of them are live

    def _ask_parents(self, keys: Tensor) -> tuple[Parents, Tensor]:
        """Return the parents of children `[3, B]`, and the parents' fitness, without the ones that are not live.

        A lane may occur more than once. All children have parents from the populations as they are now.
        """
        lanes, number, live = _unpack_keys(keys)
        mating = self._ask(self._view(lanes), self._first_run + lanes, number)
        scale = self._intensity_scale(lanes, mating)
        lanes, mating, scale = tf.nest.map_structure(lambda x: x[live], (lanes, mating, scale))
        return self._parents(lanes, mating, scale), self._fitness(lanes, mating.parent)

    def _ask_children(self, keys: Tensor) -> Offspring:
        """Return children `[3, B]` of the populations as they are now; a lane may occur more than once."""
        lanes, number, _ = _unpack_keys(keys)
        return self._breed(lanes, self._ask(self._view(lanes), self._first_run + lanes, number))

    def _tell_initial_batch(self, keys: Tensor, genomes: Tensor, *evaluation: Tensor) -> None:
        """Record initial individuals, like `_tell_batch`."""
        lanes, owners, number, live = _unpack_turns(keys)
        _, evaluate_seed = self.variation.initial_seeds(self._first_run + owners, number)
        packed = tf.nest.pack_sequence_as(self.variation.template, evaluation)
        records, view = self._records(lanes), self._view(lanes)
        self._tell_initial(lanes, live, number, records, view, evaluate_seed, genomes, packed)

    def _tell_batch(self, keys: Tensor, numbers: Tensor, genomes: Tensor, *evaluation: Tensor) -> None:
        """Record `K` children of each of `W` runs; the slot for each is chosen in the populations as they are then.

        Args:
            keys: lanes, numbers, and which of them are live: `[3, K, W]`, all rows of lanes the same and without
                duplicates among the live ones. Few arguments, since each takes its time.
            numbers: intensity scale, parent's fitness, divergence, and diagnostics: `[3 + D, K * W]`.
            genomes: `[K * W, P]`.
            evaluation: the leaves of their evaluation, `[K * W, ...]`.
        """
        lanes, owners, number, live = _unpack_turns(keys)
        view = self._view(lanes)
        mating = self._ask(view, self._first_run + owners, number)
        scale, parent_fitness, divergence, *values = tf.unstack(numbers)
        diagnostics = dict(zip(self.diagnostics, values, strict=True))
        offspring = Offspring(genomes, scale, parent_fitness, divergence, diagnostics)
        packed = tf.nest.pack_sequence_as(self.variation.template, evaluation)
        self._tell(lanes, live, self._records(lanes), view, mating, offspring, packed)

    # --- Ask

    def _ask(self, view: Population, runs: Tensor, number: Tensor) -> Mating:
        """Select parents and slots for the children of these runs and numbers `[B]`, and draw their seeds."""
        return Mating(*self._mate(self.variation.root_seed, view, runs, number))

    def _parents(self, lanes: Tensor, mating: Mating, scale: Tensor | None = None) -> Parents:
        genomes, experience = self.state.individuals(lanes, mating.parent)
        scale = self._intensity_scale(lanes, mating) if scale is None else scale
        mates = self.state.individuals(lanes, mating.mate) if self.variation.recombines else ()
        return Parents(genomes, experience, mates, scale)

    def _breed(self, lanes: Tensor, mating: Mating) -> Offspring:
        """Return children, not evaluated yet."""
        parents = self._parents(lanes, mating)
        child = self._mutate(lanes, mating, parents)
        return Offspring(
            genomes=child.genome,
            intensity_scale=parents.intensity_scale,
            parent_fitness=self._fitness(lanes, mating.parent),
            divergence=self.variation.divergence(parents, child.genome) if self._adapts_to_divergence else (),
            diagnostics=child.diagnostics,
        )

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

    def _records(self, lanes: Tensor) -> Records:
        return self.state.records(lanes, adapts=self._adapts_to_divergence)

    def _view(self, lanes: Tensor) -> Population:
        return self.state.view(lanes, self.selector.needs)

    # --- Tell

    def _tell_initial(
        self,
        lanes: Tensor,
        live: Tensor,
        number: Tensor,
        records: Records,
        view: Population,
        seed: Tensor,
        genomes: Tensor,
        evaluation: Evaluation,
    ) -> None:
        """Admit initial individuals, and record them.

        Args:
            lanes: `[W]`, all different where they are live.
            live: which individuals count, `[B]`.
            number: of the individuals, `[B]`.
            records: of the runs.
            view: the populations.
            seed: the seeds that they were evaluated with, `[B, 2]`.
            genomes: `[B, P]`.
            evaluation: their evaluation.
        """
        individuals = _line_up(evaluation, live, number % self.state.population, seed, seed)
        outcome = self._decide(view, individuals, records, initial=True)
        self.state.record(lanes, outcome, genomes, evaluation)

    def _tell(
        self,
        lanes: Tensor,
        live: Tensor,
        records: Records,
        view: Population,
        mating: Mating,
        offspring: Offspring,
        evaluation: Evaluation,
    ) -> None:
        """Admit children or not, count them for the log, and record them.

        Args:
            lanes: `[W]`, all different where they are live.
            live: which children count, `[B]`.
            records: of the runs.
            view: the populations.
            mating: the slots that they may take.
            offspring: the children.
            evaluation: their evaluation.
        """
        scale = offspring.intensity_scale
        diagnostics = offspring.diagnostics
        if self.variation.adaptation.on:
            diagnostics = {**diagnostics, "intensity": tf.cast(self.variation.intensity, tf.float32) * scale}
        individuals = _line_up(
            evaluation,
            live,
            mating.replaced,
            mating.select_seed,
            mating.evaluate_seed,
            parent_fitness=offspring.parent_fitness,
            diagnostics=tuple(diagnostics[name] for name in self.state.tallies if name not in TALLIES),
            intensity_scale=self._correct_scale(offspring),
        )
        outcome = self._decide(view, individuals, records)
        self.state.record(lanes, outcome, offspring.genomes, evaluation, scale)

    def _decide(
        self, view: Population, individuals: Individuals, records: Records, *, initial: bool = False
    ) -> Outcome:
        """Decide which individuals enter, and which are champions."""
        tell = find_or_compile_tell(self._selection, initial=initial, stop_when_solved=self.stop_when_solved)
        if records.counts.shape[0] >= self.plan.least_width:
            return tell(view, individuals, records)
        # A second, idle lane: a lone one would be summed in another order.
        idle = double_lanes(individuals)
        idle = idle._replace(live=idle.live & tf.tile([True, False], individuals.fitness.shape))
        return take_lane(tell(double_lanes(view), idle, double_lanes(records)))

    def _correct_scale(self, offspring: Offspring) -> Tensor:
        """Return the intensity scale of a run after each of these children; below 0 where it stays as it is."""
        if not self._adapts_to_divergence:
            return ()
        corrected = self.variation.correct_scale(offspring.intensity_scale, offspring.divergence)
        return tf.where(offspring.divergence < 0, -1.0, corrected)

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
        at_once = self._probes_at_once
        owners = tf.tile(lanes, [at_once])

        def draw(first: Tensor) -> Mating:
            # Evaluation numbers below zero are never run, so no real child is drawn by these seeds.
            number = -1 - (MAX_PROBES * evaluations + first + tf.range(at_once)[:, None])
            return self._ask(self._view(lanes), self._first_run + owners, tf.reshape(number, [-1]))

        def measure(first: Tensor) -> Tensor:
            mating = draw(first)
            parents = self._parents(owners, mating)
            return self._divergence_probe.divergence(parents, self._mutate(owners, mating, parents).genome)

        # A loop and not a row of copies, which would take as many times as long to trace.
        divergence = tf.map_fn(
            measure,
            tf.range(0, count, at_once),
            fn_output_signature=tf.TensorSpec(owners.shape, self.network.dtype),
            parallel_iterations=1,
        )
        divergence = tf.reshape(divergence, [-1, lanes.shape[0]])[:count]
        first = tf.nest.map_structure(lambda x: x[: lanes.shape[0]], draw(tf.constant(0)))
        return tf.transpose(divergence), self._probe_sensitivity(lanes, first)

    @property
    def _probes_at_once(self) -> int:
        """Children per lane that are made at once for the log: as many as in a step, which is compiled already."""
        return 1 if self.plan.one_by_one else self.batches.size

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
            self._sensitivities = SensitivityCache(variation.evaluate, mutation, self.plan, self.batches.size)
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
        """Mate in the populations of `W` lanes, for `K` children of each: runs and numbers are `[K * W]`."""
        count = runs.shape[0] // view.fitness.shape[0]
        if count > 1:
            view = tf.nest.map_structure(lambda x: tf.tile(x, [count, *[1] * (x.shape.rank - 1)]), view)
        select_seed, mutate_seed, evaluate_seed = derive_seeds(root, runs, number)
        choice = choose(selection, view, select_seed)
        second = choose(selection, view, fold_in(select_seed, 1)).parent if recombines else choice.parent
        return Mating(choice.parent, second, choice.replaced, select_seed, mutate_seed, evaluate_seed)

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


def _line_up(
    evaluation: Evaluation,
    live: Tensor,
    slot: Tensor,
    select_seed: Tensor,
    evaluate_seed: Tensor,
    *,
    parent_fitness: Tensor = (),
    diagnostics: tuple[Tensor, ...] = (),
    intensity_scale: Tensor = (),
) -> Individuals:
    """Return individuals `[B, ...]` as `tell` takes them."""
    fitness, cases = evaluation.fitness, evaluation.cases
    return Individuals(
        fitness=fitness,
        solved=evaluation.solved,
        behavior=evaluation.behavior,
        cases=tf.zeros([*fitness.shape, 0]) if isinstance(cases, tuple) else cases,
        live=live,
        slot=slot,
        select_seed=select_seed,
        evaluate_seed=evaluate_seed,
        parent_fitness=parent_fitness,
        diagnostics=diagnostics,
        intensity_scale=intensity_scale,
    )


def _unpack_turns(keys: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return lanes `[W]`, and lanes, numbers and which are live, `[K * W]` each, of keys `[3, K, W]`."""
    return keys[0, 0], *_unpack_keys(tf.reshape(keys, [3, -1]))


def _unpack_keys(keys: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    lanes, number, live = tf.unstack(keys)
    return lanes, number, tf.cast(live, tf.bool)
