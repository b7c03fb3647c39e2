"""Takes evaluated individuals into populations, one after the other, without touching any variable.

`tell_in_turn` is a pure function of the populations and of `K` individuals for each of them. It decides as if each had
come alone, after the ones before: the records of all are computed at once, and the scheme admits them in one compiled
loop over numbers, or a whole generation at once if it can. The engine writes what it returns, all individuals at once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple

import tensorflow as tf

from tfsm.abilities import Admission, Candidate, Population, StatefulSelection
from tfsm.evolution.compile_plan import TracedFunction, needs_autograph
from tfsm.evolution.selection import admit, admit_generation, admit_initial, choose
from tfsm.interfaces import Nest, Selection, Tensor


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
    standing = Standing.unpack(records)
    fitness = tf.where(tf.math.is_finite(individuals.fitness), individuals.fitness, float("-inf"))
    lanes = standing.evaluations.shape[0]
    count = fitness.shape[0] // lanes
    turns = tf.nest.map_structure(
        lambda x: tf.reshape(x, [count, lanes, *x.shape[1:]]), individuals._replace(fitness=fitness)
    )
    counted, leads, standing = _update_standing(standing, turns, stop_when_solved=stop_when_solved)
    if count == 1:
        one = take_turn(turns, 0)
        decide = admit_initial if initial else admit
        admission = decide(selection, population, _as_candidate(one), one.evaluate_seed)
        admission = admission._replace(slot=admission.slot[None], accepted=admission.accepted[None])
    elif not initial and hasattr(selection, "admit_generation"):
        admission = admit_generation(selection, population, _as_candidate(turns), counted)
    else:
        admission = _admit_in_turn(selection, population, turns, counted, initial=initial)
    accepted = counted & admission.accepted

    def flatten(x: Tensor) -> Tensor:
        return tf.reshape(x, [-1])

    return Outcome(
        fitness=fitness,
        counted=flatten(counted),
        enters=flatten(_find_last(accepted, admission.slot, population.fitness.shape[-1])),
        slot=flatten(admission.slot),
        leads=flatten(leads),
        records=standing.pack(),
        selection_state=admission.state,
    )


def take_turn(turns: Individuals, turn: Tensor | int) -> Individuals:
    """Return the individuals `[W, ...]` of one turn."""
    return tf.nest.map_structure(lambda x: x[turn], turns)


def _as_candidate(individuals: Individuals) -> Candidate:
    return Candidate(individuals.fitness, individuals.behavior, individuals.cases, individuals.slot)


def _admit_in_turn(
    selection: Selection | StatefulSelection,
    population: Population,
    turns: Individuals,
    counted: Tensor,
    *,
    initial: bool,
) -> Admission:
    """Admit individuals `[K, W]` one after the other; return what `admit` returned for each, and the last state."""
    count, lanes = counted.shape

    def body(turn: Tensor, population: Population, log: Nest) -> tuple[Any, ...]:
        one = take_turn(turns, turn)
        if not initial:
            one = one._replace(slot=choose(selection, population, one.select_seed).replaced)
        decide = admit_initial if initial else admit
        admission = decide(selection, population, _as_candidate(one), one.evaluate_seed)
        population = _update_population(population, one, counted[turn], admission)
        log = tuple(array.write(turn, row) for array, row in zip(log, admission[:2], strict=True))
        return turn + 1, population, log

    log = tuple(tf.TensorArray(kind, size=count, element_shape=[lanes]) for kind in (tf.int32, tf.bool))
    _, population, (slot, accepted) = tf.while_loop(
        lambda turn, *_: turn < count,
        body,
        (tf.constant(0), population, log),
        maximum_iterations=count,
        parallel_iterations=1,
    )
    return Admission(slot.stack(), accepted.stack(), population.state)


def _find_last(accepted: Tensor, slot: Tensor, size: int) -> Tensor:
    """Return which accepted individuals `[K, W]` are still in their slots after all of them: the last of each slot."""
    numbers = tf.range(accepted.shape[0])[:, None]
    if accepted.shape[0] == 1:
        return accepted
    takes = accepted[..., None] & tf.equal(tf.range(size), slot[..., None])  # [K, W, N]
    holder = tf.reduce_max(tf.where(takes, numbers[..., None], -1), axis=0)  # [W, N]
    return accepted & tf.equal(tf.transpose(tf.gather(holder, tf.transpose(slot), batch_dims=1)), numbers)


def _update_standing(
    standing: Standing, turns: Individuals, *, stop_when_solved: bool
) -> tuple[Tensor, Tensor, Standing]:
    """Return which of individuals `[K, W]` count, which is the last new champion of its run, and the records after all.

    As if each had come alone: an individual sees the records after those before it.
    """
    finite = tf.math.is_finite(turns.fitness)
    solves = turns.live & turns.solved & finite
    solved = standing.solved | _occurred_before(solves)
    live = turns.live & ~solved if stop_when_solved else turns.live
    solves &= live
    first = solves & ~solved
    eligible = tf.where(live & finite, turns.fitness, float("-inf"))
    best = tf.maximum(standing.best_fitness, _running_maximum(eligible))  # after each of them
    before = tf.concat([standing.best_fitness[None], best[:-1]], axis=0)
    better = live & finite & (turns.fitness > before)
    # The first individual that solves the task is the champion, whatever its fitness, until a better one solves it.
    leads = first | (better & (solves | ~solved))
    evaluations = standing.evaluations + tf.cumsum(tf.cast(live, tf.int32))
    leader, leads = _keep_last(leads)
    scale = standing.intensity_scale
    if not isinstance(turns.intensity_scale, tuple):
        changes, last = _keep_last(live & (turns.intensity_scale >= 0))
        scale = tf.where(changes, _take_marked(turns.intensity_scale, last), scale)
    return (
        live,
        leads,
        Standing(
            evaluations=evaluations[-1],
            solved=standing.solved | tf.reduce_any(solves, axis=0),
            solved_at=tf.where(tf.reduce_any(first, axis=0), _take_marked(evaluations, first), standing.solved_at),
            best_fitness=best[-1],
            champion_fitness=tf.where(leader, _take_marked(turns.fitness, leads), standing.champion_fitness),
            baseline=standing.baseline,
            tallies=_add_tallies(standing, turns, live),
            intensity_scale=scale,
        ),
    )


def _occurred_before(events: Tensor) -> Tensor:
    """Return for each of events `[K, W]` whether there was one before it."""
    return tf.cumsum(tf.cast(events, tf.int32), exclusive=True) > 0


def _running_maximum(values: Tensor) -> Tensor:
    """Return the maximum of each value `[K, W]` and those before it."""
    reach = 1
    while reach < values.shape[0]:
        values = tf.concat([values[:reach], tf.maximum(values[reach:], values[:-reach])], axis=0)
        reach *= 2
    return values


def _keep_last(events: Tensor) -> tuple[Tensor, Tensor]:
    """Return whether there is an event in each column of `[K, W]`, and the events without those before the last."""
    numbers = tf.range(events.shape[0])[:, None]
    last = tf.reduce_max(tf.where(events, numbers, -1), axis=0)
    return last >= 0, events & tf.equal(numbers, last)


def _take_marked(values: Tensor, marked: Tensor) -> Tensor:
    """Return the one value of each column of `[K, W]` that is marked; any value if there is none."""
    return tf.gather(tf.transpose(values), tf.argmax(marked, axis=0, output_type=tf.int32), batch_dims=1)


def _add_tallies(standing: Standing, turns: Individuals, live: Tensor) -> Tensor:
    """Return the tallies of `W` runs after individuals `[K, W]`: the columns `TALLIES`, and the diagnostics."""
    if isinstance(turns.parent_fitness, tuple):
        return standing.tallies
    children, better = tf.ones_like(turns.fitness), turns.fitness > turns.parent_fitness
    neutral, broken = tf.equal(turns.fitness, turns.parent_fitness), turns.fitness <= standing.baseline
    values = (children, better, neutral, broken, *turns.diagnostics)
    added = tf.stack([tf.cast(value, tf.float32) for value in values], axis=2)  # [K, W, T]
    added = tf.where(live[..., None], added, 0.0)
    if not turns.diagnostics:  # whole numbers, whose sum does not depend on the order
        return standing.tallies + tf.reduce_sum(added, axis=0)
    count = added.shape[0]
    _, tallies = tf.while_loop(
        lambda turn, _: turn < count,
        lambda turn, tallies: (turn + 1, tallies + added[turn]),
        (tf.constant(0), standing.tallies),
        maximum_iterations=count,
    )
    return tallies


def _update_population(population: Population, one: Individuals, live: Tensor, admission: Admission) -> Population:
    """Return the populations with those of `W` individuals that are live and accepted."""
    accepted = live & admission.accepted
    taken = accepted[:, None] & tf.equal(tf.range(population.fitness.shape[-1]), admission.slot[:, None])

    def insert(table: Tensor, rows: Tensor) -> Tensor:
        if not table.shape[1]:  # not needed by this scheme
            return table
        return tf.where(taken[..., None], tf.cast(rows, table.dtype)[:, None], table)

    def keep_unless_live(new: Tensor, old: Tensor) -> Tensor:
        return tf.where(tf.reshape(live, [-1, *[1] * (new.shape.rank - 1)]), new, old)

    return Population(
        fitness=tf.where(taken, one.fitness[:, None], population.fitness),
        behavior=insert(population.behavior, one.behavior),
        cases=insert(population.cases, one.cases),
        state=tf.nest.map_structure(keep_unless_live, admission.state, population.state),
    )
