"""The compiled step: select, mutate, evaluate, admit, record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

import numpy as np
import tensorflow as tf

from tfsm.errors import TfsmError
from tfsm.evolution.compile_plan import Plan, TracedFunction
from tfsm.evolution.divergence_probe import DivergenceProbe
from tfsm.evolution.evaluation import FailurePolicy
from tfsm.evolution.initialization import Initializer
from tfsm.evolution.selection import Selector
from tfsm.evolution.state import TALLIES, State
from tfsm.evolution.variation import (
    Adaptation,
    Brood,
    Couple,
    Drawn,
    Match,
    Offspring,
    Reuse,
    Variation,
    can_reuse,
    recombines,
)
from tfsm.interfaces import (
    Admission,
    Candidate,
    Child,
    Domain,
    Evaluation,
    Mutation,
    Population,
    Selection,
    StatefulSelection,
    SupportsBehaviorMap,
    Tensor,
)
from tfsm.kernels.random import fold_in
from tfsm.models.network import Network


def tally(
    state: State, lanes: Tensor, live: Tensor, fitness: Tensor, parents: Tensor, diagnostics: Mapping[str, Tensor]
) -> None:
    """Count children for the log.

    Args:
        state: where.
        lanes: of the runs, `[W]`.
        live: which of them count, `[W]`.
        fitness: the children's, `[W]`.
        parents: their parents', `[W]`.
        diagnostics: what else is counted, `[W]` each.
    """
    marks = {
        "children": tf.ones_like(live),
        "better": fitness > parents,
        "neutral": tf.equal(fitness, parents),
        "broken": fitness <= state.baseline.sparse_read(lanes),
        **diagnostics,
    }
    with after(fitness):
        for name, mark in marks.items():
            counted = tf.where(live, tf.cast(mark, tf.float32), 0.0)
            state.tallies[name].scatter_nd_add(lanes[:, None], counted)


def record(
    state: State,
    lanes: Tensor,
    live: Tensor,
    admission: Admission,
    genomes: Tensor,
    found: Evaluation,
    intensity_scale: Tensor | None = None,
) -> None:
    """Let individuals in, and note who is best, who solved the task, and that there was one evaluation more.

    Args:
        state: where.
        lanes: of the runs, `[W]`.
        live: which of them count, `[W]`.
        admission: who enters, and where.
        genomes: the individuals, `[W, P]`.
        found: what was found of them.
        intensity_scale: how many times the intensity they were made with, `[W]`; 1 if None.
    """
    with after(found.fitness):
        _record(state, lanes, live, admission, genomes, found, intensity_scale)


def _record(
    state: State,
    lanes: Tensor,
    live: Tensor,
    admission: Admission,
    genomes: Tensor,
    found: Evaluation,
    intensity_scale: Tensor | None,
) -> None:
    entering = _only(live & admission.accepted)
    places = entering(lanes), entering(admission.slot)
    state.replace(*places, entering(genomes), tf.nest.map_structure(entering, found))
    if intensity_scale is not None:
        state.intensity_scale.scatter_nd_update(tf.stack(places, axis=-1), entering(intensity_scale))
    living = _only(live)
    tf.nest.map_structure(
        lambda v, new: v.scatter_nd_update(living(lanes)[:, None], living(new)), state.memory, admission.state
    )
    finite = tf.math.is_finite(found.fitness)
    solves = live & found.solved & finite
    before = state.solved.sparse_read(lanes)
    best = state.best_fitness.sparse_read(lanes)
    better = live & finite & (found.fitness > best)
    # Whoever first solves is the champion, whatever its fitness, until a better one does.
    leading = _only((solves & ~before) | (better & (solves | ~before)))
    state.champion.scatter_nd_update(leading(lanes)[:, None], leading(genomes))
    state.champion_fitness.scatter_nd_update(leading(lanes)[:, None], leading(found.fitness))
    improving = _only(better)
    state.best_fitness.scatter_nd_update(improving(lanes)[:, None], improving(found.fitness))
    solving = _only(solves & ~before)(lanes)
    state.solved.scatter_nd_update(solving[:, None], tf.ones_like(solving, tf.bool))
    state.evaluations.scatter_nd_add(lanes[:, None], tf.cast(live, tf.int32))
    state.solved_at.scatter_nd_update(solving[:, None], state.evaluations.sparse_read(solving))


def after(fitness: Tensor) -> AbstractContextManager[None]:
    """Do what follows only if there was an evaluation: where it fails, nothing may look as if there had been one."""
    return tf.control_dependencies([fitness])


def _only(mask: Tensor) -> Callable[[Tensor], Tensor]:
    where = tf.where(mask)[:, 0]
    return lambda x: tf.gather(x, where)


class Settler:
    """Lets individuals into the populations or not, and writes down what there is to know of them.

    Args:
        state: the populations.
        selector: who lets them in.
        variation: who made them.
    """

    def __init__(self, state: State, selector: Selector, variation: Variation) -> None:
        self._state, self._variation = state, variation
        # What a scheme that surveys does are many tiny operations; the others compare two numbers.
        self._admit, self._welcome = (
            tf.function(function, jit_compile=True) if selector.is_stateful else function
            for function in (selector.admit, selector.begin)
        )

    def first(
        self,
        lanes: Tensor,
        live: Tensor,
        number: Tensor,
        view: Population,
        seed: Tensor,
        genomes: Tensor,
        found: Evaluation,
    ) -> None:
        """Settle first individuals.

        Args:
            lanes: of the runs, `[W]`, each there once.
            live: which of them count, `[W]`.
            number: the individuals', `[W]`.
            view: the populations.
            seed: those by which they were evaluated, `[W, 2]`.
            genomes: `[W, P]`.
            found: what was found of them.
        """
        found = found._replace(fitness=_worst_if_broken(found.fitness))
        admission = self._welcome(view, _newcomer(found, number % self._state.population), seed)
        record(self._state, lanes, live, admission, genomes, found)

    def children(
        self, lanes: Tensor, live: Tensor, view: Population, drawn: Drawn, children: Offspring, found: Evaluation
    ) -> None:
        """Settle children.

        Args:
            lanes: of the runs, `[W]`, each there once.
            live: which of them count, `[W]`.
            view: the populations.
            drawn: whose places they may take.
            children: the children.
            found: what was found of them.
        """
        found = found._replace(fitness=_worst_if_broken(found.fitness))
        admission = self._admit(view, _newcomer(found, drawn.replaced), drawn.evaluate_seed)
        marks = dict(children.diagnostics)
        if self._variation.adaptation.on:
            marks["intensity"] = tf.cast(self._variation.intensity, tf.float32) * children.intensity_scale
        tally(self._state, lanes, live, found.fitness, children.parent_fitness, marks)
        if self._variation.adaptation.mode == "divergence":
            with after(found.fitness):
                self._correct(lanes, live & ~(children.moved < 0), children)
        record(self._state, lanes, live, admission, children.genomes, found, children.intensity_scale)

    def _correct(self, lanes: Tensor, live: Tensor, children: Offspring) -> None:
        """Bring the next children nearer to the wanted divergence."""
        corrected = self._variation.corrected(children.intensity_scale, children.moved)
        where = tf.where(live)[:, 0]
        self._state.run_intensity_scale.scatter_nd_update(tf.gather(lanes, where)[:, None], tf.gather(corrected, where))


def _worst_if_broken(fitness: Tensor) -> Tensor:
    return tf.where(tf.math.is_finite(fitness), fitness, float("-inf"))


def _newcomer(found: Evaluation, slots: Tensor) -> Candidate:
    cases = found.cases
    if isinstance(cases, tuple):
        cases = tf.zeros([*found.fitness.shape, 0])
    return Candidate(found.fitness, found.behavior, cases, slots)


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
        failure_policy: what to do where a domain that is plain Python fails.
    """

    def __init__(
        self,
        network: Network,
        domain: Domain,
        mutation: Mutation,
        selection: Selection | StatefulSelection,
        *,
        intensity: float,
        population: int,
        initial: Initializer,
        seed: int,
        plan: Plan,
        adaptation: Adaptation | None = None,
        stop_when_solved: bool = True,
        failure_policy: FailurePolicy | None = None,
    ) -> None:
        if recombines(mutation) and population < 2:
            raise TfsmError(
                f"the operator {type(mutation).__name__} recombines two parents, and there is a population of one: "
                "choose another selection scheme, such as tournament"
            )
        self.variation = Variation(
            network,
            domain,
            mutation,
            intensity=intensity,
            initial=initial,
            seed=seed,
            plan=plan,
            adaptation=adaptation,
            failure_policy=failure_policy,
        )
        self.network, self.plan, self.stop_when_solved = network, plan, stop_when_solved
        self._first_run = tf.Variable(0, trainable=False)
        # Whatever the plan: a few hundred tiny operations that would each cost more than they do.
        self._draw = tf.function(self._drawn, jit_compile=True)
        self._reuse: Reuse | None = None
        self.selector = Selector(selection, domain, self.variation.template, population)
        self.state = self._allocate(population)
        self._settler = Settler(self.state, self.selector, self.variation)
        self.begin = TracedFunction(self._repeated(self._begin))
        self.advance = TracedFunction(self._repeated(self._advance))
        self.match = TracedFunction(self._matched)
        self.tell_initial = TracedFunction(self._settled_first)
        self.tell = TracedFunction(self._settled)
        probe = DivergenceProbe(
            network,
            domain,
            mutation,
            self.state,
            draw=self._drawn_parents,
            children=self._children,
            apart=plan.one_by_one,
        )
        self.probe = TracedFunction(probe.run)

    @property
    def reuses(self) -> bool:
        """Whether sensitivities are kept for a parent's next child."""
        return self._reuse is not None

    @property
    def diagnostics(self) -> list[str]:
        """The names of what the operator reports, in order."""
        return [name for name in self.state.tallies if name not in (*TALLIES, "intensity")]

    @property
    def _corrects(self) -> bool:
        return self.variation.adaptation.mode == "divergence"

    @property
    def uses_per_example_gradients(self) -> bool:
        """Whether the operator needs gradients of single experiences."""
        return bool(getattr(self.variation.mutation, "uses_per_example_gradients", False))

    @property
    def domain(self) -> Domain:
        """What evaluates."""
        return self.variation.domain

    @property
    def compiled_domain(self) -> bool:
        """Whether the domain is compiled with the loop."""
        return self.variation.evaluate.compiled

    @property
    def failure_policy(self) -> FailurePolicy:
        """What is done where the domain fails, and what was."""
        return self.variation.evaluate.failure_policy

    def set_intensity(self, intensity: float) -> None:
        """Use another intensity from now on; nothing is compiled again."""
        self.variation.intensity.assign(intensity)

    def reset(self, first_run: int) -> None:
        """Make ready for the runs from `first_run` on."""
        self._first_run.assign(first_run)
        self.failure_policy.failed = False
        self.state.clear()

    def start(self, lanes: Sequence[int]) -> None:
        """Make lanes ready for children, all of their first individuals being there; an error if all are broken."""
        some = list(lanes)
        healthy = np.isfinite(self.state.fitness.sparse_read(some).numpy()).any(axis=1)
        solved = self.state.solved.sparse_read(some).numpy()
        for lane, fit in zip(some, healthy | solved, strict=True):
            if not fit:
                run, count = int(self._first_run) + lane, self.selector.initial_population
                raise TfsmError(
                    f"run {run}: none of the {count} initial networks has a finite fitness; their outputs are NaN or "
                    "infinite"
                )
        self.state.set_baseline(some)

    def _allocate(self, population: int) -> State:
        variation, names = self.variation, list[str]()
        if self.plan.reuse and can_reuse(variation.mutation, variation.network, variation.available()):
            self._reuse = Reuse(variation.network, variation.domain, variation.mutation, self.plan)
        else:
            names = variation.diagnostics()
        if self.variation.adaptation.on:
            names = [*names, "intensity"]
        return State(
            self.plan.runs,
            population,
            variation.network.size,
            variation.network.dtype,
            variation.template,
            names,
            reuse=self._reuse is not None,
            behavior=isinstance(variation.domain, SupportsBehaviorMap) or "behavior" in self.selector.needs,
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
        draw_seed, evaluate_seed = self.variation.initial_seeds(self._first_run + lanes, number)
        genomes, found = self.variation.first(draw_seed, evaluate_seed, live)
        self._settler.first(lanes, live, number, self._view(lanes), evaluate_seed, genomes, found)

    def _settled_first(self, who: Tensor, genomes: Tensor, *found: Tensor) -> None:
        """Let first individuals `[W, P]`, each in a lane of its own, into their populations."""
        lanes, number, live = _unpacked(who)
        _, evaluate_seed = self.variation.initial_seeds(self._first_run + lanes, number)
        told = tf.nest.pack_sequence_as(self.variation.template, found)
        self._settler.first(lanes, live, number, self._view(lanes), evaluate_seed, genomes, told)

    def _advance(self, lanes: Tensor, real: Tensor, budget: Tensor) -> None:
        """Make and evaluate the next children."""
        done, live = self._live(lanes, real, budget)
        view = self._view(lanes)
        drawn = self._draw(view, self._first_run + lanes, done)
        brood = self._children(lanes, drawn.couple, drawn.mutate_seed)
        found = self.variation.evaluate(brood.child.genome, drawn.evaluate_seed, live)
        offspring = Offspring(
            genomes=brood.child.genome,
            intensity_scale=brood.intensity_scale,
            parent_fitness=self._fitness(lanes, drawn.couple.parent),
            moved=self.variation.moved(brood) if self._corrects else (),
            diagnostics=brood.child.diagnostics,
        )
        self._settler.children(lanes, live, view, drawn, offspring, found)

    def _matched(self, who: Tensor) -> Match:
        """Say who breeds for these children; the same lane may be there often, and those that count come first."""
        lanes, number, live = _unpacked(who)
        drawn = self._draw(self._view(lanes), self._first_run + lanes, number)
        intensity_scale = self._intensity_scale(lanes, drawn.couple.parent, drawn.mutate_seed)
        lanes, couple, intensity_scale = tf.nest.map_structure(
            lambda x: x[live], (lanes, drawn.couple, intensity_scale)
        )
        mates = self.state.individuals(lanes, couple.mate) if self.variation.recombines else ()
        parent_fitness = self._fitness(lanes, couple.parent)
        return Match(*self.state.individuals(lanes, couple.parent), mates, intensity_scale, parent_fitness)

    def _settled(self, who: Tensor, told: Tensor, genomes: Tensor, *found: Tensor) -> None:
        """Let children, each in a lane of its own, into the populations as these are now, or not.

        Args:
            who: lanes, numbers, and which of them count: `[3, W]`. Few arguments, since each takes its time.
            told: strength, the parent's fitness, how far they moved the outputs, and diagnostics: `[3 + D, W]`.
            genomes: `[W, P]`.
            found: the leaves of what was found of them.
        """
        lanes, number, live = _unpacked(who)
        view = self._view(lanes)
        drawn = self._draw(view, self._first_run + lanes, number)
        intensity_scale, parent_fitness, moved, *marks = tf.unstack(told)
        children = Offspring(
            genomes, intensity_scale, parent_fitness, moved, dict(zip(self.diagnostics, marks, strict=True))
        )
        self._settler.children(
            lanes, live, view, drawn, children, tf.nest.pack_sequence_as(self.variation.template, found)
        )

    def _children(self, lanes: Tensor, couple: Couple, seed: Tensor) -> Brood:
        """Return one individual of each run, what it saw, and a child of it."""
        variation = self.variation
        parents, experience = self.state.individuals(lanes, couple.parent)
        intensity_scale = self._intensity_scale(lanes, couple.parent, seed)
        if self._reuse is not None:
            intensity = variation.intensity.read_value()
            if variation.adaptation.on:
                intensity = intensity * variation.times(intensity_scale)
            genomes = self._reuse.children(self.state, lanes, couple.parent, parents, experience, intensity, seed)
            return Brood(parents, experience, Child(genomes, {}), intensity_scale)
        mates = self.state.individuals(lanes, couple.mate) if variation.recombines else ()
        return Brood(
            parents, experience, variation.children(parents, experience, intensity_scale, seed, mates), intensity_scale
        )

    def _intensity_scale(self, lanes: Tensor, slots: Tensor, seed: Tensor) -> Tensor:
        """Return how many times the intensity these children get: `[W]`."""
        if self.variation.adaptation.mode == "self":
            own = self.state.intensity_scale.gather_nd(tf.stack([lanes, slots], axis=-1))
            return self.variation.inherited(own, seed)
        return self.state.run_intensity_scale.sparse_read(lanes)

    def _fitness(self, lanes: Tensor, slots: Tensor) -> Tensor:
        return self.state.fitness.gather_nd(tf.stack([lanes, slots], axis=-1))

    def _view(self, lanes: Tensor) -> Population:
        return self.state.view(lanes, self.selector.needs)

    def _live(self, lanes: Tensor, real: Tensor, budget: Tensor) -> tuple[Tensor, Tensor]:
        done = self.state.evaluations.sparse_read(lanes)
        running = done < budget
        if self.stop_when_solved:
            running &= ~self.state.solved.sparse_read(lanes)
        return done, running & (tf.range(tf.shape(lanes)[0]) < real)

    def _drawn(self, view: Population, runs: Tensor, number: Tensor) -> Drawn:
        select_seed, mutate_seed, evaluate_seed = self.variation.seeds(runs, number)
        choice = self.selector.choose(view, select_seed)
        mate = choice.parent
        if self.variation.recombines:
            mate = self.selector.choose(view, fold_in(select_seed, 1)).parent
        return Drawn(Couple(choice.parent, mate), choice.replaced, mutate_seed, evaluate_seed)

    def _drawn_parents(self, lanes: Tensor, number: Tensor) -> tuple[Couple, Tensor]:
        drawn = self._draw(self._view(lanes), self._first_run + lanes, number)
        return drawn.couple, drawn.mutate_seed


def _unpacked(who: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    lanes, number, live = tf.unstack(who)
    return lanes, number, tf.cast(live, tf.bool)
