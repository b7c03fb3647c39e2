from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.selections.views import child, scheme, seeds, view


def plain(behavior: np.ndarray, archive: np.ndarray, who: int, k: int) -> float:
    """The mean distance to the nearest, by a plain loop."""
    away = [np.linalg.norm(behavior[who] - other) for i, other in enumerate(behavior) if i != who]
    away += [np.linalg.norm(behavior[who] - other) for other in archive]
    return float(np.mean(sorted(away)[:k]))


def test_novelty_is_the_mean_distance_to_the_nearest() -> None:
    random = np.random.default_rng(1)
    behavior, archive = random.random((3, 7, 2)), random.random((3, 4, 2))
    part = scheme("novelty", neighbors=3, archive=4)
    population = view(part, np.zeros((3, 7)), behavior)
    count = tf.constant([4, 2, 0])
    population = population._replace(state={"archive": tf.constant(archive, tf.float32), "count": count})
    who = tf.constant([[0, 3, 6], [1, 2, 5], [6, 0, 1]])
    found = part.novelty(population, who).numpy()
    for b, known in enumerate((4, 2, 0)):
        expected = [plain(behavior[b], archive[b, :known], int(i), 3) for i in who[b]]
        np.testing.assert_allclose(found[b], expected, rtol=1e-5)


def test_broken_individuals_are_neither_novel_nor_anybodys_neighbours() -> None:
    part = scheme("novelty", neighbors=1)
    population = view(part, [[0.0, 0.0, -np.inf]], [[[0.0, 0.0], [3.0, 4.0], [0.0, 0.1]]])
    np.testing.assert_allclose(part.novelty(population, tf.constant([[0, 1, 2]])), [[5.0, 5.0, -1.0]])


def test_somebody_alone_is_not_novel_and_not_nan() -> None:
    part = scheme("novelty")
    population = view(part, [[0.0, -np.inf]], np.zeros((1, 2, 2)))
    np.testing.assert_array_equal(part.novelty(population, tf.constant([[0]])), [[0.0]])


def test_whoever_is_far_from_all_breeds_and_whoever_is_in_the_crowd_leaves() -> None:
    behavior = np.concatenate([np.zeros((5, 2)) + 0.01 * np.arange(5)[:, None], [[9.0, 9.0]]])[None]
    part = scheme("novelty", size=6, neighbors=2)
    choice = part.select(view(part, np.zeros((1, 6)), behavior), seeds(1))
    assert int(choice.parent[0]) == 5
    assert int(choice.replaced[0]) in (1, 2, 3)


def test_the_archive_takes_a_share_of_the_children_and_forgets_the_oldest() -> None:
    part = scheme("novelty", archived=1.0, archive=3)
    population = view(part, np.zeros((1, 4)))
    for i in range(5):
        admission = part.admit(population, child([0.0], [[i, i]]), seeds(1, i))
        assert bool(admission.accepted[0])
        population = population._replace(state=admission.state)
    assert int(population.state["count"][0]) == 5
    assert population.state["archive"].numpy()[0, :, 0].tolist() == [3.0, 4.0, 2.0]
    broken = part.admit(population, child([-np.inf], [[7, 7]]), seeds(1))
    assert int(broken.state["count"][0]) == 5


@pytest.mark.parametrize("share", [0.0, 0.25])
def test_how_many_are_archived_is_as_the_option_says(share: float) -> None:
    part, lanes = scheme("novelty", archived=share), 2_000
    admission = part.admit(view(part, np.zeros((lanes, 2))), child(np.zeros(lanes)), seeds(lanes))
    assert admission.state["count"].numpy().mean() == pytest.approx(share, abs=5 * np.sqrt(0.25 / lanes))
