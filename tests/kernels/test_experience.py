from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from tfsm.kernels.experience import sample_experiences
from tfsm.kernels.random import root_seed


def seeds(count: int) -> tf.Tensor:
    return tf.stack([tf.range(count), tf.zeros(count, tf.int32)], axis=-1)


def numbered(lanes: int, experiences: int) -> tf.Tensor:
    """Return experiences `[B, N, 2]`, each with its lane and its index."""
    lane, which = np.meshgrid(np.arange(lanes), np.arange(experiences), indexing="ij")
    return tf.constant(np.stack([lane, which], axis=-1), tf.float32)


@pytest.mark.parametrize("count", [4, 5, 100])
def test_without_replacement_a_small_experience_is_not_sampled(count: int) -> None:
    experience = numbered(3, 4)
    assert sample_experiences(experience, count, seeds(3)) is experience


def test_with_replacement_the_requested_number_is_drawn() -> None:
    drawn = sample_experiences(numbered(3, 4), 50, seeds(3), replacement=True)
    assert drawn.shape == (3, 50, 2)
    assert set(drawn.numpy()[..., 1].ravel().tolist()) == {0.0, 1.0, 2.0, 3.0}


def test_each_lane_draws_from_its_own_experience() -> None:
    for replacement in (False, True):
        drawn = sample_experiences(numbered(3, 9), 5, seeds(3), replacement=replacement).numpy()
        np.testing.assert_array_equal(drawn[..., 0], np.tile([[0], [1], [2]], 5))


def test_without_replacement_nothing_is_drawn_twice_and_every_subset_is_equally_likely() -> None:
    drawn = sample_experiences(numbered(1, 5), 2, seeds(10_000)).numpy()[..., 1]
    seen = Counter(tuple(sorted(pair)) for pair in drawn.tolist())
    possible = list(itertools.combinations(range(5), 2))
    assert set(seen) == set(possible)
    assert stats.chisquare([seen[pair] for pair in possible]).pvalue > 1e-3


def test_with_replacement_every_experience_is_equally_likely_in_every_place() -> None:
    drawn = sample_experiences(numbered(1, 4), 3, seeds(8_000), replacement=True).numpy()[..., 1].astype(int)
    for place in range(3):
        assert stats.chisquare(np.bincount(drawn[:, place], minlength=4)).pvalue > 1e-3


def test_a_shared_experience_is_sampled_independently_per_lane() -> None:
    drawn = sample_experiences(numbered(1, 50), 10, seeds(4)).numpy()[..., 1]
    assert len({tuple(sorted(row)) for row in drawn.tolist()}) == 4


@pytest.mark.parametrize("replacement", [False, True])
def test_a_batch_equals_single_samples(replacement: bool) -> None:
    experience, batch = numbered(6, 30), seeds(6)
    together = sample_experiences(experience, 8, batch, replacement=replacement).numpy()
    alone = [sample_experiences(experience[b], 8, batch[b], replacement=replacement).numpy() for b in range(6)]
    np.testing.assert_array_equal(np.sort(together, axis=1), np.sort(alone, axis=1))


def test_the_parts_of_an_experience_stay_together() -> None:
    experience = {"a": numbered(1, 20)[0], "b": (numbered(1, 20)[0] * 10,)}
    drawn = sample_experiences(experience, 6, root_seed(1))
    np.testing.assert_array_equal(drawn["b"][0], drawn["a"] * 10)
