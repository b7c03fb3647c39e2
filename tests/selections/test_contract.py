"""The built-in schemes, beyond the contract that all schemes share."""

from __future__ import annotations

import random
from math import comb

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tfsm.kernels.random import distinct_integers, root_seed, split
from tfsm.plugins import load_plugins
from tfsm.plugins.registry import build_part
from tfsm.testing.check_mutations import seeds


def seeds_many(count: int) -> tf.Tensor:
    return tf.stack([tf.range(count), tf.fill([count], 5)], axis=-1)


def tournament(**options: object) -> object:
    return build_part(load_plugins().selections["tournament"], options)


def test_a_hill_climber_accepts_only_better_children() -> None:
    climber = build_part(load_plugins().selections["hill-climber"], {})
    child = tf.constant([1.0, 2.0, 3.0, -np.inf, np.nan, -1.0])
    champion = tf.constant([2.0, 2.0, 2.0, 2.0, 2.0, -np.inf])
    np.testing.assert_array_equal(climber.accepts(child, champion), [False, False, True, False, False, True])
    assert [int(x[0]) for x in climber.choose(tf.constant([[5.0]]), seeds(1))] == [0, 0]


def test_a_tournament_accepts_every_child() -> None:
    assert tournament().accepts(tf.constant([-1e9, 0.0]), tf.constant([0.0, 0.0])).numpy().all()


def drawn_for(seed: tf.Tensor, size: int, population: int) -> tuple[list[int], list[int]]:
    """Return the entrants of the tournaments for the parent and for the removal."""
    return tuple(distinct_integers(s, size, population).numpy().tolist() for s in split(seed, 2))


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 2**62),
    st.lists(st.sampled_from([-np.inf, -2.0, -1.0, 0.0, 0.5]), min_size=6, max_size=6),
    st.integers(1, 6),
    st.sampled_from(["fresh", "same"]),
)
def test_a_tournament_agrees_with_a_plain_loop(seed: int, fitness: list[float], size: int, removal: str) -> None:
    key = root_seed(seed)
    entrants, fresh = drawn_for(key, size, 6)
    parent = entrants[0]
    for index in entrants:  # the first of equals is the parent
        if fitness[index] > fitness[parent]:
            parent = index
    leaving = fresh if removal == "fresh" else entrants
    replaced = leaving[0]
    for index in leaving:  # the last of equals is replaced
        if fitness[index] <= fitness[replaced]:
            replaced = index
    choice = tournament(size=size, removal=removal).choose(tf.constant([fitness], tf.float32), key[None])
    assert (int(choice.parent[0]), int(choice.replaced[0])) == (parent, replaced)


def test_a_tournament_of_the_whole_population_selects_the_best_and_replaces_the_worst() -> None:
    order = list(range(20))
    random.Random(1).shuffle(order)
    choice = tournament(size=20).choose(tf.constant([order] * 3, tf.float32), seeds(3))
    assert set(choice.parent.numpy()) == {order.index(19)}
    assert set(choice.replaced.numpy()) == {order.index(0)}


def test_selection_frequencies_are_those_of_the_best_of_five_without_replacement() -> None:
    population, lanes = 12, 20_000
    choice = tournament().choose(tf.constant([np.arange(population)] * lanes, tf.float32), seeds_many(lanes))
    expected = np.array([comb(rank, 4) for rank in range(population)]) / comb(population, 5)
    parents = np.bincount(choice.parent, minlength=population) / lanes
    np.testing.assert_allclose(parents, expected, atol=4 * np.sqrt(0.25 / lanes))
    removed = np.bincount(choice.replaced, minlength=population) / lanes
    np.testing.assert_allclose(removed, expected[::-1], atol=4 * np.sqrt(0.25 / lanes))


def test_a_fresh_tournament_is_independent_of_the_first() -> None:
    lanes = 2_000
    fitness = tf.constant([np.arange(12)] * lanes, tf.float32)
    fresh, same = (tournament(removal=removal).choose(fitness, seeds_many(lanes)) for removal in ("fresh", "same"))
    np.testing.assert_array_equal(fresh.parent, same.parent)
    assert (same.parent.numpy() > same.replaced.numpy()).all()
    assert (fresh.replaced.numpy() != same.replaced.numpy()).mean() > 0.5
