"""Takes evaluated individuals into populations, one after the other, without touching any variable.

`tell_in_turn` is a pure function of the populations and of `K` individuals for each of them. It sees the `k`-th
individual of a population only after the ones before, so that it decides as if each had come alone. It is one
compiled loop over numbers; the engine writes what it returns, all individuals at once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple

import tensorflow as tf

from tfsm.evolution.compile_plan import TracedFunction, needs_autograph
from tfsm.evolution.selection import admit, admit_initial, choose
from tfsm.interfaces import Admission, Candidate, Nest, Population, Selection, StatefulSelection, Tensor


class Records(NamedTuple):
    """The standing of `W` runs in few tensors: in every step, each operation on a variable takes time."""

    counts: Tensor
    """`[W, 3]`: the columns `COUNTS`."""
    levels: Tensor
    """`[W, 3 + T]`: the columns `LEVELS`, then the tallies."""
    intensity_scale: Tensor
    """`[W]`: factor of the intensity for all children of a run; `()` where it does not adapt."""


TALLIES: Final = ("children", "better", "neutral", "broken")
"""What is counted for the log, besides the operator's diagnostics."""
COUNTS: Final = ("evaluations", "solved", "solved_at")
LEVELS: Final = ("best_fitness", "champion_fitness", "baseline")


class Standing(NamedTuple):
    """What is known of `W` runs besides their populations, and changes with every individual."""

    evaluations: Tensor
    """`[W]`"""
    solved: Tensor
    """`[W]`"""
    solved_at: Tensor
    """`[W]`: evaluations to the first solution; 0 before."""
    best_fitness: Tensor
    """`[W]`"""
    champion_fitness: Tensor
    """`[W]`"""
    baseline: Tensor
    """`[W]`: what a random network gets."""
    tallies: Tensor
    """`[W, T]`: counts for the log."""
    intensity_scale: Tensor
    """As in `Records`."""

    @classmethod
    def unpack(cls, records: Records) -> Standing:
        """Return the columns of records."""
        evaluations, solved, solved_at = tf.unstack(records.counts, axis=1)
        best, champion, baseline = tf.unstack(records.levels[:, : len(LEVELS)], axis=1)
        return cls(
            evaluations=evaluations,
            solved=tf.cast(solved, tf.bool),
            solved_at=solved_at,
            best_fitness=best,
            champion_fitness=champion,
            baseline=baseline,
            tallies=records.levels[:, len(LEVELS) :],
            intensity_scale=records.intensity_scale,
        )

    def pack(self) -> Records:
        """Return the records with these columns."""
        counts = tf.stack([tf.cast(getattr(self, name), tf.int32) for name in COUNTS], axis=1)
        levels = tf.stack([getattr(self, name) for name in LEVELS], axis=1)
        return Records(counts, tf.concat([levels, self.tallies], axis=1), self.intensity_scale)


class Individuals(NamedTuple):
    """`K` individuals of each of `W` runs, `B = K * W`: first one of every run, then the second ones, and so on."""

    fitness: Tensor
    """`[B]`"""
    solved: Tensor
    """`[B]`"""
    behavior: Tensor
    """`[B, D]`"""
    cases: Tensor
    """`[B, C]`"""
    live: Tensor
    """`[B]`: whether it counts; in any case not after the end of its run."""
    slot: Tensor
    """`[B]`: the slot that it may take. If there are several children, it is selected again at their turn."""
    select_seed: Tensor
    """`[B, 2]`"""
    evaluate_seed: Tensor
    """`[B, 2]`"""
    parent_fitness: Tensor
    """`[B]`; `()` for initial individuals."""
    diagnostics: tuple[Tensor, ...]
    """`[B]` each, in the order of the tallies."""
    intensity_scale: Tensor
    """`[B]`: the intensity scale of the run after it, below 0 to leave it as it is; `()` where it does not adapt."""


class Outcome(NamedTuple):
    """What became of `K` individuals of each of `W` runs, in the same order."""

    fitness: Tensor
    """`[B]`; minus infinity if it is broken."""
    counted: Tensor
    """`[B]`: whether it was evaluated before its run ended."""
    enters: Tensor
    """`[B]`: whether it is in the population after all of them."""
    slot: Tensor
    """`[B]`: where."""
    leads: Tensor
    """`[B]`: whether it is the run's new champion after all of them."""
    records: Records
    """After all of them."""
    selection_state: Nest
    """After all of them, `[W, ...]`."""


def double_lanes(nest: Nest) -> Nest:
    """Return individuals, populations or records of one lane with a copy of it."""
    return tf.nest.map_structure(lambda x: tf.repeat(x, 2, axis=0), nest)


def take_lane(nest: Nest) -> Nest:
    """Return only the first lane of two."""
    return tf.nest.map_structure(lambda x: x[::2], nest)


def find_or_compile_tell(selection: Any, *, initial: bool, stop_when_solved: bool) -> Callable[..., Outcome]:
    """Return the compiled `tell_in_turn` for a scheme; engines with equal schemes share it.

    Args:
        selection: the scheme.
        initial: whether it is for initial individuals, or for children.
        stop_when_solved: whether a run ends with its first solution.
    """
    try:
        return _share_tell(selection, initial, stop_when_solved)
    except TypeError:  # a scheme that is not hashable
        return _compile_tell(selection, initial, stop_when_solved)


def _compile_tell(selection: Any, initial: bool, stop_when_solved: bool) -> TracedFunction:
    def tell(population: Population, individuals: Individuals, records: Records) -> Outcome:
        return tell_in_turn(
            selection, population, individuals, records, initial=initial, stop_when_solved=stop_when_solved
        )

    # XLA whatever the plan: many tiny operations that would each cost more to dispatch than to run.
    return TracedFunction(tell, jit=True, autograph=needs_autograph(selection))


_share_tell = lru_cache(maxsize=64)(_compile_tell)


def tell_in_turn(
    selection: Selection | StatefulSelection,
    population: Population,
    individuals: Individuals,
    records: Records,
    *,
    initial: bool,
    stop_when_solved: bool,
) -> Outcome:
    """Tell `K` individuals of each of `W` runs, one after the other.

    Args:
        selection: the scheme.
        population: the populations before the first of them.
        individuals: the individuals.
        records: the records of the runs before the first of them.
        initial: whether they are initial individuals, which have their slots; or children, whose slot is selected.
        stop_when_solved: whether a run ends with its first solution.
    """

    def tell_one(population: Population, one: Individuals, standing: Standing) -> tuple[Tensor, ...]:
        live = one.live & ~standing.solved if stop_when_solved else one.live
        candidate = Candidate(one.fitness, one.behavior, one.cases, one.slot)
        admission = (admit_initial if initial else admit)(selection, population, candidate, one.evaluate_seed)
        leads, after = _update_standing(standing, one, live)
        return live, admission, leads, after

    standing = Standing.unpack(records)
    fitness = tf.where(tf.math.is_finite(individuals.fitness), individuals.fitness, float("-inf"))
    individuals = individuals._replace(fitness=fitness)
    lanes = standing.evaluations.shape[0]
    count = fitness.shape[0] // lanes
    if count == 1:
        live, admission, leads, after = tell_one(population, individuals, standing)
        enters = live & admission.accepted
        return Outcome(fitness, live, enters, admission.slot, leads, after.pack(), admission.state)
    turns = tf.nest.map_structure(lambda x: tf.reshape(x, [count, lanes, *x.shape[1:]]), individuals)

    def body(turn: Tensor, population: Population, standing: Standing, log: Nest, holders: Nest) -> tuple[Any, ...]:
        one = tf.nest.map_structure(lambda x: x[turn], turns)
        if not initial:
            one = one._replace(slot=choose(selection, population, one.select_seed).replaced)
        live, admission, leads, after = tell_one(population, one, standing)
        accepted = live & admission.accepted
        population, taken = _update_population(population, one, live, accepted, admission)
        rows = (live, accepted, admission.slot, leads)
        log = tuple(array.write(turn, row) for array, row in zip(log, rows, strict=True))
        slots, champion = holders
        holders = tf.where(taken, turn, slots), tf.where(leads, turn, champion)
        return turn + 1, population, after, log, holders

    kinds = (tf.bool, tf.bool, tf.int32, tf.bool)
    log = tuple(tf.TensorArray(kind, size=count, element_shape=[lanes]) for kind in kinds)
    none = tf.fill(population.fitness.shape, -1), tf.fill([lanes], -1)
    _, population, standing, log, (slots, champion) = tf.while_loop(
        lambda turn, *_: turn < count,
        body,
        (tf.constant(0), population, standing, log, none),
        maximum_iterations=count,
        parallel_iterations=1,
    )
    counted, accepted, slot, leads = (array.stack() for array in log)
    numbers = tf.range(count)[:, None]
    # Of those that took the same slot, only the last is still there.
    holder = tf.transpose(tf.gather(slots, tf.transpose(slot), batch_dims=1))  # [K, W]

    def flatten(x: Tensor) -> Tensor:
        return tf.reshape(x, [-1])

    return Outcome(
        fitness=fitness,
        counted=flatten(counted),
        enters=flatten(accepted & tf.equal(holder, numbers)),
        slot=flatten(slot),
        leads=flatten(leads & tf.equal(champion, numbers)),
        records=standing.pack(),
        selection_state=population.state,
    )


def _update_standing(standing: Standing, one: Individuals, live: Tensor) -> tuple[Tensor, Standing]:
    """Return which of `W` individuals are the new champions of their runs, and the records after them."""
    finite = tf.math.is_finite(one.fitness)
    solves = live & one.solved & finite
    first = solves & ~standing.solved
    better = live & finite & (one.fitness > standing.best_fitness)
    # The first individual that solves the task is the champion, whatever its fitness, until a better one solves it.
    leads = first | (better & (solves | ~standing.solved))
    evaluations = standing.evaluations + tf.cast(live, tf.int32)
    scale = standing.intensity_scale
    if not isinstance(one.intensity_scale, tuple):
        scale = tf.where(live & (one.intensity_scale >= 0), one.intensity_scale, scale)
    return leads, Standing(
        evaluations=evaluations,
        solved=standing.solved | solves,
        solved_at=tf.where(first, evaluations, standing.solved_at),
        best_fitness=tf.where(better, one.fitness, standing.best_fitness),
        champion_fitness=tf.where(leads, one.fitness, standing.champion_fitness),
        baseline=standing.baseline,
        tallies=_add_tallies(standing, one, live),
        intensity_scale=scale,
    )


def _add_tallies(standing: Standing, one: Individuals, live: Tensor) -> Tensor:
    """Return the tallies of `W` runs after these individuals: the columns `TALLIES`, and the diagnostics."""
    if isinstance(one.parent_fitness, tuple):
        return standing.tallies
    children, better = tf.ones_like(one.fitness), one.fitness > one.parent_fitness
    neutral, broken = tf.equal(one.fitness, one.parent_fitness), one.fitness <= standing.baseline
    values = (children, better, neutral, broken, *one.diagnostics)
    added = tf.stack([tf.cast(value, tf.float32) for value in values], axis=1)
    return standing.tallies + tf.where(live[:, None], added, 0.0)


def _update_population(
    population: Population, one: Individuals, live: Tensor, accepted: Tensor, admission: Admission
) -> tuple[Population, Tensor]:
    """Return the populations with the accepted ones of `W` individuals, and where these are: `[W, N]`."""
    taken = accepted[:, None] & tf.equal(tf.range(population.fitness.shape[-1]), admission.slot[:, None])

    def insert(table: Tensor, rows: Tensor) -> Tensor:
        if not table.shape[1]:  # not needed by this scheme
            return table
        return tf.where(taken[..., None], tf.cast(rows, table.dtype)[:, None], table)

    def keep_unless_live(new: Tensor, old: Tensor) -> Tensor:
        return tf.where(tf.reshape(live, [-1, *[1] * (new.shape.rank - 1)]), new, old)

    updated = Population(
        fitness=tf.where(taken, one.fitness[:, None], population.fitness),
        behavior=insert(population.behavior, one.behavior),
        cases=insert(population.cases, one.cases),
        state=tf.nest.map_structure(keep_unless_live, admission.state, population.state),
    )
    return updated, taken
