"""The compiled step: select, mutate, evaluate, replace, in as many runs at once as there are lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfsm.contracts import Child, Choice, Domain, Evaluation, Mapped, Mutation, Nest, Selection, Tensor
from tfsm.evolution.evaluating import Evaluator
from tfsm.evolution.initial import Initial
from tfsm.evolution.mapping import chosen, mutated, one_by_one
from tfsm.evolution.plan import Plan
from tfsm.evolution.probing import Probe
from tfsm.evolution.reuse import Reuse, can_reuse
from tfsm.evolution.state import State
from tfsm.evolution.traced import Traced
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
    """

    def __init__(
        self,
        network: Network,
        domain: Domain,
        mutation: Mutation,
        selection: Selection,
        *,
        intensity: float,
        population: int,
        initial: Initial,
        seed: int,
        plan: Plan,
    ) -> None:
        self.network, self.plan = network, plan
        self._domain, self._mutation, self._selection = domain, mutation, selection
        self._initial = initial
        self._intensity = tf.Variable(intensity, trainable=False, dtype=network.dtype)
        self._root = root_seed(seed)
        self._first_run = tf.Variable(0, trainable=False)
        self._evaluate = Evaluator(domain, network, jit=plan.jit)
        self._mutate = tf.function(
            one_by_one(self._mutated) if plan.one_by_one else self._mutated, jit_compile=plan.jit
        )
        # Whatever the plan: a few hundred tiny operations that would each cost more than they do.
        self._draw = tf.function(self._drawn, jit_compile=True)
        self._seeds = tf.function(self._seeded, jit_compile=True, autograph=False)
        self._reuse: Reuse | None = None
        self.state = self._allocate(population)
        self.begin = Traced(self._repeated(self._begin))
        self.advance = Traced(self._repeated(self._advance))
        probe = Probe(network, domain, mutation, plan, self.state, draw=self._drawn_parents, children=self._children)
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

    def set_intensity(self, intensity: float) -> None:
        """Use another intensity from now on; nothing is compiled again."""
        self._intensity.assign(intensity)

    def reset(self, first_run: int) -> None:
        """Make ready for the runs from `first_run` on."""
        self._first_run.assign(first_run)
        self.state.clear()

    def _allocate(self, population: int) -> State:
        lanes, size, dtype = self.plan.width, self.network.size, self.network.dtype
        template = self._evaluate.template(tf.zeros([lanes, size], dtype), _seeds_of(lanes))
        seen = tf.nest.map_structure(lambda s: tf.TensorSpec([lanes, *s.shape], s.dtype), template.experience)
        observed = tf.function(self._domain.observe).get_concrete_function(seen).structured_outputs
        names: list[str] = []
        if self.plan.reuse and can_reuse(self._mutation, self.network, tf.nest.flatten(observed)[0].shape[1]):
            self._reuse = Reuse(self.network, self._domain, self._mutation, self.plan)
        else:
            parents, seeds = tf.TensorSpec([lanes, size], dtype), tf.TensorSpec([lanes, 2], tf.int32)
            names = sorted(self._mutate.get_concrete_function(parents, seen, seeds).structured_outputs.diagnostics)
        return State(
            self.plan.runs,
            population,
            size,
            dtype,
            template,
            names,
            reuse=self._reuse is not None,
            behavior=isinstance(self._domain, Mapped),
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
        slots, live = self._live(lanes, real, budget)
        draw_seed, evaluate_seed = self._seeds(self._first_run + lanes, slots)
        genomes = self._initial.genomes(self.network, draw_seed)
        found = self._evaluate(genomes, evaluate_seed, live)
        fitness = _worst_if_broken(found.fitness)
        self._record(lanes, live, live, slots, genomes, found._replace(fitness=fitness))

    def _advance(self, lanes: Tensor, real: Tensor, budget: Tensor) -> None:
        """Make and evaluate the next children."""
        done, live = self._live(lanes, real, budget)
        choice, mutate_seed, evaluate_seed = self._draw(
            self.state.fitness.sparse_read(lanes), self._first_run + lanes, done
        )
        _, _, child = self._children(lanes, choice.parent, mutate_seed)
        found = self._evaluate(child.genome, evaluate_seed, live)
        fitness = _worst_if_broken(found.fitness)
        parent_fitness = self.state.fitness.gather_nd(tf.stack([lanes, choice.parent], axis=-1))
        replaced = self.state.fitness.gather_nd(tf.stack([lanes, choice.replaced], axis=-1))
        # A broken child is counted and left out, so that it can never become a parent.
        enters = live & tf.math.is_finite(fitness) & self._selection.accepts(fitness, replaced)
        self._tally(lanes, live, fitness, parent_fitness, child)
        self._record(lanes, live, enters, choice.replaced, child.genome, found._replace(fitness=fitness))

    def _children(self, lanes: Tensor, slots: Tensor, seed: Tensor) -> tuple[Tensor, Nest, Child]:
        """Return one individual of each run, what it saw, and a child of it."""
        parents, experience = self.state.individuals(lanes, slots)
        if self._reuse is None:
            return parents, experience, self._mutate(parents, experience, seed)
        genomes = self._reuse.children(
            self.state, lanes, slots, parents, experience, self._intensity.read_value(), seed
        )
        return parents, experience, Child(genomes, {})

    def _live(self, lanes: Tensor, real: Tensor, budget: Tensor) -> tuple[Tensor, Tensor]:
        done = self.state.evaluations.sparse_read(lanes)
        running = ~self.state.solved.sparse_read(lanes) & (done < budget)
        return done, running & (tf.range(tf.shape(lanes)[0]) < real)

    def _seeded(self, runs: Tensor, number: Tensor) -> tuple[Tensor, Tensor]:
        first, second = split(fold(self._root, runs, number), 2)
        return first, second

    def _drawn(self, fitness: Tensor, runs: Tensor, number: Tensor) -> tuple[Choice, Tensor, Tensor]:
        select_seed, mutate_seed, evaluate_seed = split(fold(self._root, runs, number), 3)
        parent, replaced = chosen(self._selection, fitness, select_seed)
        healthy = tf.math.is_finite(tf.gather(fitness, parent, batch_dims=1))
        best = tf.argmax(fitness, axis=-1, output_type=tf.int32)
        return Choice(tf.where(healthy, parent, best), replaced), mutate_seed, evaluate_seed

    def _drawn_parents(self, lanes: Tensor, number: Tensor) -> tuple[Tensor, Tensor]:
        choice, mutate_seed, _ = self._draw(self.state.fitness.sparse_read(lanes), self._first_run + lanes, number)
        return choice.parent, mutate_seed

    def _mutated(self, parents: Tensor, experience: Nest, seed: Tensor) -> Child:
        seen = self._domain.observe(experience)
        return mutated(self._mutation, self.network, parents, seen, self._intensity.read_value(), seed)

    def _tally(self, lanes: Tensor, live: Tensor, fitness: Tensor, parent_fitness: Tensor, child: Child) -> None:
        marks = {
            "children": tf.ones_like(live),
            "better": fitness > parent_fitness,
            "neutral": tf.equal(fitness, parent_fitness),
            "broken": fitness <= self.state.baseline.sparse_read(lanes),
            **child.diagnostics,
        }
        for name, mark in marks.items():
            counted = tf.where(live, tf.cast(mark, tf.float32), 0.0)
            self.state.tallies[name].scatter_nd_add(lanes[:, None], counted)

    def _record(
        self, lanes: Tensor, live: Tensor, enters: Tensor, slots: Tensor, genomes: Tensor, found: Evaluation
    ) -> None:
        state = self.state

        def only(mask: Tensor) -> Any:
            where = tf.where(mask)[:, 0]
            return lambda x: tf.gather(x, where)

        entering = only(enters)
        state.replace(entering(lanes), entering(slots), entering(genomes), tf.nest.map_structure(entering, found))
        finite = tf.math.is_finite(found.fitness)
        solves = live & found.solved & finite
        best = state.best_fitness.sparse_read(lanes)
        better = live & finite & (found.fitness > best)
        # Whoever solves is the champion, whatever its fitness.
        leading = only(solves | better)
        state.champion.scatter_nd_update(leading(lanes)[:, None], leading(genomes))
        state.champion_fitness.scatter_nd_update(leading(lanes)[:, None], leading(found.fitness))
        improving = only(better)
        state.best_fitness.scatter_nd_update(improving(lanes)[:, None], improving(found.fitness))
        solving = only(solves)(lanes)
        state.solved.scatter_nd_update(solving[:, None], tf.ones_like(solving, tf.bool))
        state.evaluations.scatter_nd_add(lanes[:, None], tf.cast(live, tf.int32))


def _worst_if_broken(fitness: Tensor) -> Tensor:
    return tf.where(tf.math.is_finite(fitness), fitness, float("-inf"))


def _seeds_of(lanes: int) -> Tensor:
    return tf.stack([tf.range(lanes), tf.zeros(lanes, tf.int32)], axis=-1)
