"""Novelty search, against a plain loop."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.selections.populations import build_scheme, make_candidate, make_population, seeds


def plain(behavior: np.ndarray, archive: np.ndarray, index: int, k: int) -> float:
    """The mean distance to the nearest, by a plain loop."""
    away = [np.linalg.norm(behavior[index] - other) for i, other in enumerate(behavior) if i != index]
    away += [np.linalg.norm(behavior[index] - other) for other in archive]
    return float(np.mean(sorted(away)[:k]))


def test_novelty_is_the_mean_distance_to_the_nearest() -> None:
    random = np.random.default_rng(1)
    behavior, archive = random.random((3, 7, 2)), random.random((3, 4, 2))
    part = build_scheme("novelty", neighbors=3, archive=4)
    population = make_population(part, np.zeros((3, 7)), behavior)
    count = tf.constant([4, 2, 0])
    population = population._replace(state={"archive": tf.constant(archive, tf.float32), "count": count})
    index = tf.constant([[0, 3, 6], [1, 2, 5], [6, 0, 1]])
    found = part.novelty(population, index).numpy()
    for b, known in enumerate((4, 2, 0)):
        expected = [plain(behavior[b], archive[b, :known], int(i), 3) for i in index[b]]
        np.testing.assert_allclose(found[b], expected, rtol=1e-5)


def test_broken_individuals_are_neither_novel_nor_neighbors() -> None:
    part = build_scheme("novelty", neighbors=1)
    population = make_population(part, [[0.0, 0.0, -np.inf]], [[[0.0, 0.0], [3.0, 4.0], [0.0, 0.1]]])
    np.testing.assert_allclose(part.novelty(population, tf.constant([[0, 1, 2]])), [[5.0, 5.0, -1.0]])


def test_a_lone_individual_has_zero_novelty() -> None:
    part = build_scheme("novelty")
    population = make_population(part, [[0.0, -np.inf]], np.zeros((1, 2, 2)))
    np.testing.assert_array_equal(part.novelty(population, tf.constant([[0]])), [[0.0]])


def test_an_outlier_is_the_parent_and_one_of_the_crowd_is_replaced() -> None:
    behavior = np.concatenate([np.zeros((5, 2)) + 0.01 * np.arange(5)[:, None], [[9.0, 9.0]]])[None]
    part = build_scheme("novelty", size=6, neighbors=2)
    choice = part.select(make_population(part, np.zeros((1, 6)), behavior), seeds(1))
    assert int(choice.parent[0]) == 5
    assert int(choice.replaced[0]) in (1, 2, 3)


def test_new_behaviors_replace_the_oldest_in_a_full_archive() -> None:
    part = build_scheme("novelty", archived=1.0, archive=3)
    population = make_population(part, np.zeros((1, 4)))
    for i in range(5):
        admission = part.admit(population, make_candidate([0.0], [[i, i]]), seeds(1, i))
        assert bool(admission.accepted[0])
        population = population._replace(state=admission.state)
    assert int(population.state["count"][0]) == 5
    assert population.state["archive"].numpy()[0, :, 0].tolist() == [3.0, 4.0, 2.0]
    broken = part.admit(population, make_candidate([-np.inf], [[7, 7]]), seeds(1))
    assert int(broken.state["count"][0]) == 5


@pytest.mark.parametrize("share", [0.0, 0.25])
def test_the_share_of_archived_children_is_the_option(share: float) -> None:
    part, lanes = build_scheme("novelty", archived=share), 2_000
    admission = part.admit(make_population(part, np.zeros((lanes, 2))), make_candidate(np.zeros(lanes)), seeds(lanes))
    assert admission.state["count"].numpy().mean() == pytest.approx(share, abs=5 * np.sqrt(0.25 / lanes))
