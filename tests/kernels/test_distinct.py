from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tfsm.kernels.random import distinct_integers, root_seed


def seeds(count: int) -> tf.Tensor:
    return tf.stack([tf.range(count), tf.fill([count], 42)], axis=-1)


@pytest.mark.parametrize(("count", "below"), [(1, 1), (1, 5), (2, 4), (3, 5), (5, 6), (4, 4)])
def test_every_ordered_draw_is_equally_likely(count: int, below: int) -> None:
    draws = distinct_integers(seeds(20_000), count, below).numpy()
    seen = Counter(map(tuple, draws.tolist()))
    possible = list(itertools.permutations(range(below), count))
    assert set(seen) == set(possible)
    if len(possible) > 1:
        assert stats.chisquare([seen[draw] for draw in possible]).pvalue > 1e-3


def test_every_subset_is_equally_likely_beyond_16_too() -> None:
    draws = distinct_integers(seeds(20_000), 17, 19).numpy()
    left_out = Counter(tuple(sorted(set(range(19)) - set(draw))) for draw in draws.tolist())
    possible = list(itertools.combinations(range(19), 2))
    assert set(left_out) == set(possible)
    assert stats.chisquare([left_out[pair] for pair in possible]).pvalue > 1e-3


@settings(max_examples=40, deadline=None)
@given(st.data(), st.integers(1, 300), st.integers(0, 2**63 - 1))
def test_draws_are_distinct_and_in_range(data: st.DataObject, below: int, seed: int) -> None:
    count = data.draw(st.integers(1, min(below, 20)))
    draw = distinct_integers(root_seed(seed), count, below).numpy()
    assert draw.shape == (count,)
    assert len(set(draw.tolist())) == count
    assert draw.min() >= 0
    assert draw.max() < below


@pytest.mark.parametrize("count", [16, 20])
def test_drawing_all_gives_all(count: int) -> None:
    draws = distinct_integers(seeds(50), count, count).numpy()
    np.testing.assert_array_equal(np.sort(draws, axis=-1), np.tile(np.arange(count), (50, 1)))


@pytest.mark.parametrize("count", [5, 18])
def test_a_batch_draws_what_each_seed_draws_alone(count: int) -> None:
    batch = seeds(8)
    alone = [np.sort(distinct_integers(seed, count, 250)) for seed in batch]
    np.testing.assert_array_equal(np.sort(distinct_integers(batch, count, 250), axis=-1), alone)
