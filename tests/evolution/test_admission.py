"""Telling several individuals in turn is the same as telling each alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.selections.populations import build_scheme, make_population, seeds
from tfsm.abilities import Population
from tfsm.evolution.admission import TALLIES, Individuals, Records, Standing, find_or_compile_tell, tell_in_turn
from tfsm.evolution.selection import choose

LANES, SLOTS = 2, 6
SCHEMES: dict[str, Any] = {
    "tournament": lambda: build_scheme("tournament", size=3),
    "hill-climber": lambda: build_scheme("hill-climber"),
    "novelty": lambda: build_scheme("novelty", size=2, archived=0.5, archive=4, neighbors=2),
    "truncation": lambda: build_scheme("truncation", parents=2),
    "map-elites": lambda: build_scheme("map-elites", bounds="-2:2,-2:2"),
}


def make_individuals(count: int, random: np.random.Generator, *, adapts: bool) -> Individuals:
    fitness = random.standard_normal([count, LANES]).astype(np.float32)
    fitness[random.random(fitness.shape) < 0.2] = -np.inf
    live = np.ones([count, LANES], bool)
    live[count // 2 :, 1] = False  # the budget of the second run ends there
    return Individuals(
        fitness=tf.constant(fitness),
        solved=tf.constant(random.random(fitness.shape) < 0.15),
        behavior=tf.constant(random.uniform(-2, 2, [count, LANES, 2]), tf.float32),
        cases=tf.zeros([count, LANES, 0]),
        live=tf.constant(live),
        slot=tf.zeros([count, LANES], tf.int32),
        select_seed=tf.reshape(seeds(count * LANES), [count, LANES, 2]),
        evaluate_seed=tf.reshape(seeds(count * LANES, 999), [count, LANES, 2]),
        parent_fitness=tf.constant(random.choice([-1.0, 0.0, 1.0], fitness.shape), tf.float32),
        diagnostics=(tf.constant(random.standard_normal(fitness.shape), tf.float32),),
        intensity_scale=tf.constant(random.uniform(-0.5, 1.0, fitness.shape), tf.float32) if adapts else (),
    )


def line_up(turns: Individuals) -> Individuals:
    """Return individuals `[K, W, ...]` as `tell` takes them, `[K * W, ...]`."""
    return tf.nest.map_structure(lambda x: tf.reshape(x, [-1, *x.shape[2:]]), turns)


def make_records(*, adapts: bool) -> Records:
    return Standing(
        evaluations=tf.constant([40, 41]),
        solved=tf.constant([False, False]),
        solved_at=tf.zeros([LANES], tf.int32),
        best_fitness=tf.constant([0.5, -np.inf]),
        champion_fitness=tf.constant([0.5, -np.inf]),
        baseline=tf.constant([-0.5, 0.5]),
        tallies=tf.zeros([LANES, len(TALLIES) + 1]),
        intensity_scale=tf.ones([LANES]) if adapts else (),
    ).pack()


@pytest.mark.sample(3)
@pytest.mark.parametrize("stop", [True, False])
@pytest.mark.parametrize("name", ["truncation", *(name for name in SCHEMES if name != "truncation")])
def test_telling_in_turn_is_telling_each_alone(name: str, stop: bool) -> None:
    scheme, random = SCHEMES[name](), np.random.default_rng(7)
    slots = 1 if name == "hill-climber" else SLOTS
    count = SLOTS if name == "truncation" else 11  # a batch never exceeds a generation
    fitness, behavior = random.standard_normal([LANES, slots]), random.uniform(-2, 2, [LANES, slots, 2])
    if hasattr(scheme, "init"):
        population = make_population(scheme, fitness, behavior)
    else:
        population = Population(tf.constant(fitness, tf.float32), tf.zeros([2, 0, 2]), tf.zeros([2, 0, 0]), ())
    individuals, records = make_individuals(count, random, adapts=stop), make_records(adapts=stop)
    tell = find_or_compile_tell(scheme, initial=False, stop_when_solved=stop)
    outcome = tell(population, line_up(individuals), records)
    rows = (outcome.counted, outcome.enters, outcome.slot, outcome.leads)
    counted, enters, slots_taken, leads = (tf.reshape(x, [count, LANES]) for x in rows)

    holders, champions = np.full([LANES, slots], -1), [-1, -1]
    for turn in range(count):
        one = tf.nest.map_structure(lambda x, turn=turn: x[turn], individuals)
        one = one._replace(slot=choose(scheme, population, one.select_seed).replaced)
        alone = tell_in_turn(scheme, population, one, records, initial=False, stop_when_solved=stop)
        np.testing.assert_array_equal(counted[turn], alone.counted)
        tables = [population.fitness.numpy(), population.behavior.numpy()]
        for lane in range(LANES):
            if alone.enters[lane]:
                slot = int(alone.slot[lane])
                holders[lane, slot] = turn
                tables[0][lane, slot] = one.fitness[lane]
                if tables[1].shape[1]:
                    tables[1][lane, slot] = one.behavior[lane]
            champions[lane] = turn if alone.leads[lane] else champions[lane]
        state = tf.nest.map_structure(
            lambda new, old, kept=alone.counted: tf.stack([(new if kept[i] else old)[i] for i in range(LANES)]),
            alone.selection_state,
            population.state,
        )
        population = Population(tf.constant(tables[0]), tf.constant(tables[1]), population.cases, state)
        records = alone.records
    for lane in range(LANES):
        survivors = {(int(slots_taken[k, lane]), k) for k in range(count) if enters[k, lane]}
        assert survivors == {(slot, holder) for slot, holder in enumerate(holders[lane]) if holder >= 0}
        assert [k for k in range(count) if leads[k, lane]] == [k for k in (champions[lane],) if k >= 0]
    tf.nest.map_structure(np.testing.assert_array_equal, outcome.records, records)
    tf.nest.map_structure(np.testing.assert_array_equal, outcome.selection_state, population.state)


def test_what_follows_a_solution_does_not_count() -> None:
    individuals = make_individuals(4, np.random.default_rng(0), adapts=False)
    fitness = tf.constant([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0], [4.0, 4.0]])
    solved = tf.constant([[False] * 2, [True, False], [False] * 2, [True] * 2])
    individuals = individuals._replace(fitness=fitness, solved=solved, live=tf.ones_like(solved))
    population = Population(tf.zeros([2, 6]), tf.zeros([2, 0, 2]), tf.zeros([2, 0, 0]), ())
    scheme = build_scheme("tournament", size=3)
    outcome = tell_in_turn(
        scheme, population, line_up(individuals), make_records(adapts=False), initial=False, stop_when_solved=True
    )
    np.testing.assert_array_equal(outcome.counted, [True, True, True, True, False, True, False, True])
    standing = Standing.unpack(outcome.records)
    np.testing.assert_array_equal(standing.evaluations, [42, 45])
    np.testing.assert_array_equal(standing.solved_at, [42, 45])
    np.testing.assert_array_equal(standing.best_fitness, [2.0, 4.0])


def test_tallies_count_the_individuals_that_count() -> None:
    individuals = make_individuals(1, np.random.default_rng(0), adapts=False)
    individuals = individuals._replace(
        fitness=tf.constant([[1.0, np.nan]]),
        live=tf.constant([[True, True]]),
        parent_fitness=tf.constant([[1.0, 0.0]]),
        diagnostics=(tf.constant([[0.25, 0.5]]),),
    )
    population = Population(tf.zeros([2, 6]), tf.zeros([2, 0, 2]), tf.zeros([2, 0, 0]), ())
    scheme = build_scheme("tournament", size=3)
    outcome = tell_in_turn(
        scheme, population, line_up(individuals), make_records(adapts=False), initial=False, stop_when_solved=True
    )
    np.testing.assert_array_equal(outcome.fitness, [1.0, -np.inf])
    tallies = Standing.unpack(outcome.records).tallies
    np.testing.assert_array_equal(tallies, [[1, 0, 1, 0, 0.25], [1, 0, 0, 1, 0.5]])
