"""The compiled step: select, mutate, evaluate, replace, in as many runs at once as there are lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfsm.contracts import (
    Child,
    Domain,
    Evaluation,
    Mapped,
    Mutation,
    Nest,
    Newcomer,
    Population,
    Selection,
    Surveying,
    Tensor,
)
from tfsm.errors import TfsmError
from tfsm.evolution.adapting import Adaptation
from tfsm.evolution.breeding import Brood, Couple, Drawn
from tfsm.evolution.care import Care
from tfsm.evolution.evaluating import Evaluator
from tfsm.evolution.initial import Initial
from tfsm.evolution.mapping import Mates, mutated, one_by_one, recombines
from tfsm.evolution.plan import Plan
from tfsm.evolution.probing import Probe
from tfsm.evolution.recording import record, tally
from tfsm.evolution.reuse import Reuse, can_reuse
from tfsm.evolution.selecting import Selector
from tfsm.evolution.state import State
from tfsm.evolution.traced import Traced
from tfsm.kernels.divergence import divergence
from tfsm.kernels.noise import fold, root_seed, split
from tfsm.models.network import Network


class Engine:
    """Evolves a group of runs in lock step.

    A run's randomness is keyed by (seed, run, evaluation) alone, so that it does not matter how many runs share the
    batch. A lane is a place in the batch, and holds the number of a run counted from `first_run`; lanes from `real` on
    are idle, and whatever they compute is not kept.

    Args:
        network: the network.
        domain: what evaluates it.
        mutation: the operator.
        selection: the selection scheme.
        intensity: the operator's intensity.
        population: N.
        initial: how the first N genomes are drawn.
        seed: the experiment's seed.
        plan: how to compile.
        adaptation: how the intensity adapts.
        stop_when_solved: whether a run ends with its first solution.
        care: what to do where a domain that is plain Python fails.
    """

    def __init__(
        self,
        network: Network,
        domain: Domain,
        mutation: Mutation,
        selection: Selection | Surveying,
        *,
        intensity: float,
        population: int,
        initial: Initial,
        seed: int,
        plan: Plan,
        adaptation: Adaptation | None = None,
        stop_when_solved: bool = True,
        care: Care | None = None,
    ) -> None:
        if recombines(mutation) and population < 2:
            raise TfsmError(
                f"the operator {type(mutation).__name__} recombines two parents, and there is a population of one: "
                "choose another selection scheme, such as tournament"
            )
        self.network, self.plan, self.stop_when_solved = network, plan, stop_when_solved
        self._domain, self._mutation = domain, mutation
        self._adaptation = adaptation or Adaptation()
        self._initial = initial
        self._intensity = tf.Variable(intensity, trainable=False, dtype=network.dtype)
        self._root = root_seed(seed)
        self._first_run = tf.Variable(0, trainable=False)
        self._evaluate = Evaluator(domain, network, jit=plan.jit, care=care)
        self._answers = tf.function(self._answered, jit_compile=plan.jit)
        self._mutate = tf.function(
            one_by_one(self._mutated) if plan.one_by_one else self._mutated, jit_compile=plan.jit
        )
        # Whatever the plan: a few hundred tiny operations that would each cost more than they do.
        self._draw = tf.function(self._drawn, jit_compile=True)
        self._seeds = tf.function(self._seeded, jit_compile=True, autograph=False)
        self._reuse: Reuse | None = None
        template = self._template()
        self.selector = Selector(selection, domain, template, population)
        # What a scheme that surveys does are many tiny operations; the others compare two numbers.
        self._admit, self._welcome = (
            tf.function(function, jit_compile=True) if self.selector.surveys else function
            for function in (self.selector.admit, self.selector.begin)
        )
        self.state = self._allocate(population, template)
        self.begin = Traced(self._repeated(self._begin))
        self.advance = Traced(self._repeated(self._advance))
        probe = Probe(network, domain, mutation, self.state, draw=self._drawn_parents, children=self._children)
        self.probe = Traced(probe.run)

    @property
    def reuses(self) -> bool:
        """Whether sensitivities are kept for a parent's next child."""
        return self._reuse is not None

    @property
    def measures_each(self) -> bool:
        """Whether the operator needs gradients of single experiences."""
        return bool(getattr(self._mutation, "measures_each", False))

    @property
    def domain(self) -> Domain:
        """What evaluates."""
        return self._domain

    @property
    def compiled_domain(self) -> bool:
        """Whether the domain is compiled with the loop."""
        return self._evaluate.compiled

    @property
    def care(self) -> Care:
        """What is done where the domain fails, and what was."""
        return self._evaluate.care

    def set_intensity(self, intensity: float) -> None:
        """Use another intensity from now on; nothing is compiled again."""
        self._intensity.assign(intensity)

    def reset(self, first_run: int) -> None:
        """Make ready for the runs from `first_run` on."""
        self._first_run.assign(first_run)
        self.care.failed = False
        self.state.clear()

    def _template(self) -> Evaluation:
        lanes, size, dtype = self.plan.width, self.network.size, self.network.dtype
        return self._evaluate.template(tf.zeros([lanes, size], dtype), _seeds_of(lanes))

    def _allocate(self, population: int, template: Evaluation) -> State:
        lanes, size, dtype = self.plan.width, self.network.size, self.network.dtype
        seen = tf.nest.map_structure(lambda s: tf.TensorSpec([lanes, *s.shape], s.dtype), template.experience)
        observed = tf.function(self._domain.observe).get_concrete_function(seen).structured_outputs
        names: list[str] = []
        if self.plan.reuse and can_reuse(self._mutation, self.network, tf.nest.flatten(observed)[0].shape[1]):
            self._reuse = Reuse(self.network, self._domain, self._mutation, self.plan)
        else:
            parents, seeds = tf.TensorSpec([lanes, size], dtype), tf.TensorSpec([lanes, 2], tf.int32)
            more: tuple[Any, ...] = (tf.TensorSpec([lanes, 1], dtype),) if self._adaptation.on else ()
            more += (parents, seen) if recombines(self._mutation) else ()
            traced = self._mutate.get_concrete_function(parents, seen, seeds, *more)
            names = sorted(traced.structured_outputs.diagnostics)
        if self._adaptation.on:
            names = [*names, "intensity"]
        return State(
            self.plan.runs,
            population,
            size,
            dtype,
            template,
            names,
            reuse=self._reuse is not None,
            behavior=isinstance(self._domain, Mapped) or "behavior" in self.selector.needs,
            cases="cases" in self.selector.needs,
            memory=self.selector.memory,
        )

    def _repeated(self, step: Callable[[Tensor, Tensor, Tensor], None]) -> Callable[..., None]:
        def body(i: Tensor, *arguments: Tensor) -> tuple[Tensor, ...]:
            step(*arguments)
            return i + 1, *arguments

        def repeated(steps: Tensor, lanes: Tensor, real: Tensor, budget: Tensor) -> None:
            tf.while_loop(lambda i, *_: i < steps, body, (tf.constant(0), lanes, real, budget))

        return repeated

    def _begin(self, lanes: Tensor, real: Tensor, budget: Tensor) -> None:
        """Draw and evaluate the next individuals of the initial populations."""
        number, live = self._live(lanes, real, budget)
        draw_seed, evaluate_seed = self._seeds(self._first_run + lanes, number)
        genomes = self._initial.genomes(self.network, draw_seed)
        found = self._evaluate(genomes, evaluate_seed, live)
        found = found._replace(fitness=_worst_if_broken(found.fitness))
        slots = number % self.state.population
        admission = self._welcome(self._view(lanes), _newcomer(found, slots), evaluate_seed)
        record(self.state, lanes, live, admission, genomes, found)

    def _advance(self, lanes: Tensor, real: Tensor, budget: Tensor) -> None:
        """Make and evaluate the next children."""
        done, live = self._live(lanes, real, budget)
        view = self._view(lanes)
        drawn = self._draw(view, self._first_run + lanes, done)
        brood = self._children(lanes, drawn.couple, drawn.mutate_seed)
        found = self._evaluate(brood.child.genome, drawn.evaluate_seed, live)
        found = found._replace(fitness=_worst_if_broken(found.fitness))
        parent_fitness = self.state.fitness.gather_nd(tf.stack([lanes, drawn.couple.parent], axis=-1))
        admission = self._admit(view, _newcomer(found, drawn.replaced), drawn.evaluate_seed)
        marks = dict(brood.child.diagnostics)
        if self._adaptation.on:
            marks["intensity"] = tf.cast(self._intensity, tf.float32) * brood.strength
        tally(self.state, lanes, live, found.fitness, parent_fitness, marks)
        if self._adaptation.mode == "divergence":
            self._correct(lanes, live, brood)
        record(self.state, lanes, live, admission, brood.child.genome, found, brood.strength)

    def _children(self, lanes: Tensor, couple: Couple, seed: Tensor) -> Brood:
        """Return one individual of each run, what it saw, and a child of it."""
        parents, experience = self.state.individuals(lanes, couple.parent)
        strength = self._strength(lanes, couple.parent, seed)
        times = (tf.cast(strength, self.network.dtype)[:, None],) if self._adaptation.on else ()
        if self._reuse is not None:
            intensity = self._intensity.read_value()
            genomes = self._reuse.children(
                self.state,
                lanes,
                couple.parent,
                parents,
                experience,
                intensity * times[0] if times else intensity,
                seed,
            )
            return Brood(parents, experience, Child(genomes, {}), strength)
        mates = self.state.individuals(lanes, couple.mate) if recombines(self._mutation) else ()
        return Brood(parents, experience, self._mutate(parents, experience, seed, *times, *mates), strength)

    def _strength(self, lanes: Tensor, slots: Tensor, seed: Tensor) -> Tensor:
        """Return how many times the intensity these children get: `[W]`."""
        if self._adaptation.mode == "self":
            own = self.state.strength.gather_nd(tf.stack([lanes, slots], axis=-1))
            return self._adaptation.inherited(own, seed)
        return self.state.control.sparse_read(lanes)

    def _correct(self, lanes: Tensor, live: Tensor, brood: Brood) -> None:
        """Bring the next children nearer to the wanted divergence."""
        before, after = (self._answers(own, brood.experience) for own in (brood.parents, brood.child.genome))
        corrected = self._adaptation.corrected(brood.strength, divergence(before, after))
        where = tf.where(live)[:, 0]
        self.state.control.scatter_nd_update(tf.gather(lanes, where)[:, None], tf.gather(corrected, where))

    def _view(self, lanes: Tensor) -> Population:
        return self.state.view(lanes, self.selector.needs)

    def _live(self, lanes: Tensor, real: Tensor, budget: Tensor) -> tuple[Tensor, Tensor]:
        done = self.state.evaluations.sparse_read(lanes)
        running = done < budget
        if self.stop_when_solved:
            running &= ~self.state.solved.sparse_read(lanes)
        return done, running & (tf.range(tf.shape(lanes)[0]) < real)

    def _seeded(self, runs: Tensor, number: Tensor) -> tuple[Tensor, Tensor]:
        first, second = split(fold(self._root, runs, number), 2)
        return first, second

    def _drawn(self, view: Population, runs: Tensor, number: Tensor) -> Drawn:
        select_seed, mutate_seed, evaluate_seed = split(fold(self._root, runs, number), 3)
        choice = self.selector.choose(view, select_seed)
        mate = choice.parent
        if recombines(self._mutation):
            mate = self.selector.choose(view, fold(select_seed, 1)).parent
        return Drawn(Couple(choice.parent, mate), choice.replaced, mutate_seed, evaluate_seed)

    def _drawn_parents(self, lanes: Tensor, number: Tensor) -> tuple[Couple, Tensor]:
        drawn = self._draw(self._view(lanes), self._first_run + lanes, number)
        return drawn.couple, drawn.mutate_seed

    def _mutated(self, parents: Tensor, experience: Nest, seed: Tensor, *more: Nest) -> Child:
        """Return children; more are the times of the intensity where it adapts, and mates and what they saw."""
        intensity = self._intensity.read_value()
        if self._adaptation.on:
            intensity, more = intensity * more[0], more[1:]
        mates = Mates(more[0], self._domain.observe(more[1])) if more else None
        seen = self._domain.observe(experience)
        return mutated(self._mutation, self.network, parents, seen, intensity, seed, mates)

    def _answered(self, genomes: Tensor, experience: Nest) -> Tensor:
        return self.network.rows(genomes, self._domain.observe(experience))


def _worst_if_broken(fitness: Tensor) -> Tensor:
    return tf.where(tf.math.is_finite(fitness), fitness, float("-inf"))


def _seeds_of(lanes: int) -> Tensor:
    return tf.stack([tf.range(lanes), tf.zeros(lanes, tf.int32)], axis=-1)


def _newcomer(found: Evaluation, slots: Tensor) -> Newcomer:
    cases = found.cases
    if isinstance(cases, tuple):
        cases = tf.zeros([*found.fitness.shape, 0])
    return Newcomer(found.fitness, found.behavior, cases, slots)
