"""Lexicase selection, against a plain loop."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.selections.populations import build_scheme, make_population, seeds
from tfsm.kernels.random import split, uniform


def survivors(cases: np.ndarray, order: np.ndarray, slack: np.ndarray) -> set[int]:
    """The remaining individuals, by a plain loop."""
    left = set(range(len(cases)))
    for case in order:
        best = max(cases[i, case] for i in left)
        left = {i for i in left if cases[i, case] >= best - slack[case]}
    return left


@pytest.mark.parametrize("epsilon", [0.0, 0.3, None])
def test_the_parent_is_a_survivor_of_a_plain_loop(epsilon: float | None) -> None:
    lanes, number, count = 40, 7, 4
    cases = np.random.default_rng(2).random((lanes, number, count)).round(1).astype(np.float32)
    part = build_scheme("lexicase", epsilon=epsilon)
    found = part.select(make_population(part, np.zeros((lanes, number)), cases=cases), seeds(lanes)).parent.numpy()
    order = np.argsort(uniform(split(seeds(lanes), 3)[0], count), axis=-1)
    for b in range(lanes):
        middle = np.median(cases[b], axis=0)
        slack = np.median(abs(cases[b] - middle), axis=0) if epsilon is None else np.full(count, np.float32(epsilon))
        assert int(found[b]) in survivors(cases[b], order[b], slack)


def test_a_specialist_is_selected_that_would_lose_every_tournament() -> None:
    cases = np.tile(np.float32([[0, 0, 0, 9], [1, 1, 1, 1], [2, 2, 2, 0]]), (600, 1, 1))
    part = build_scheme("lexicase", epsilon=0.0)
    found = part.select(
        make_population(part, np.tile([[0.0, 1.0, 2.0]], (600, 1)), cases=cases), seeds(600)
    ).parent.numpy()
    shares = np.bincount(found, minlength=3) / 600
    np.testing.assert_allclose(shares, [0.25, 0.0, 0.75], atol=5 * np.sqrt(0.25 / 600))


def test_broken_individuals_are_never_parents() -> None:
    cases = np.float32([[[9, 9], [1, 1], [1, 1]]])
    part = build_scheme("lexicase")
    population = make_population(part, [[-np.inf, 0.0, 0.0]], cases=cases)
    wide = tf.nest.map_structure(lambda x: tf.repeat(x, 50, axis=0), population)
    assert set(part.select(wide, seeds(50)).parent.numpy()) == {1, 2}


def test_the_worst_of_a_tournament_is_replaced() -> None:
    part = build_scheme("lexicase", size=3)
    population = make_population(part, [[1.0, 0.0, 2.0]], cases=np.zeros((1, 3, 2)))
    assert int(part.select(population, seeds(1)).replaced[0]) == 1
