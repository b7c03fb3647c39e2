"""Random numbers: Threefry test vectors, independence of the batch, and distributions."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tests.reference import threefry as twin
from tfsm.kernels import random as noise
from tfsm.kernels.random import distinct_integers, root_seed

# Random123's kat_vectors: key, counter, ciphertext.
KNOWN = [
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
]


def encrypt(key: np.ndarray, counter: np.ndarray) -> np.ndarray:
    """Encrypt counters `[n, 2]` with keys `[n, 2]`."""
    k, c = (np.asarray(x, np.uint32).reshape(-1, 2) for x in (key, counter))
    out = noise.threefry(tuple(tf.constant(k.T)), tuple(tf.constant(c.T)))
    return np.stack([x.numpy() for x in out], axis=-1)


@pytest.mark.parametrize(("key", "counter", "cipher"), KNOWN)
def test_known_answers_of_random123(key: tuple[int, int], counter: tuple[int, int], cipher: tuple[int, int]) -> None:
    assert twin.threefry(key, counter) == cipher
    assert tuple(int(x) for x in encrypt(np.array(key), np.array(counter))[0]) == cipher


def test_threefry_agrees_with_plain_integers_for_random_keys_and_counters() -> None:
    words = np.random.default_rng(1).integers(0, 2**32, (200, 4), np.uint32)
    expected = [twin.threefry((int(a), int(b)), (int(c), int(d))) for a, b, c, d in words]
    np.testing.assert_array_equal(encrypt(words[:, :2], words[:, 2:]), np.array(expected, np.uint32))


@pytest.mark.parametrize("size", [1, 2, 7, 8])
def test_drawn_words_numbers_and_normals_agree_with_the_twin(size: int) -> None:
    seed = np.array([-5, 123456789], np.int32)
    np.testing.assert_array_equal(
        noise.random_bits(tf.constant(seed), size), np.array(twin.bits(seed, size), np.uint32)
    )
    np.testing.assert_array_equal(noise.uniform(tf.constant(seed), size), twin.uniform(seed, size).astype(np.float32))
    np.testing.assert_allclose(noise.gaussian(tf.constant(seed), size), twin.gaussian(seed, size), rtol=2e-5)


def test_a_root_seed_keeps_all_63_bits() -> None:
    seed = 0x7123456789ABCDEF
    low, high = noise.root_seed(seed).numpy().view(np.uint32)
    assert (int(high) << 32) | int(low) == seed
    with pytest.raises(OverflowError):
        noise.root_seed(2**64)


def test_split_seeds_agree_with_the_twin() -> None:
    seed = noise.root_seed(77)
    np.testing.assert_array_equal(tf.stack(noise.split(seed, 5)), np.stack(twin.split(seed.numpy(), 5)))


def test_folds_and_splits_of_a_seed_are_all_distinct() -> None:
    root = noise.root_seed(3)
    numbers = tf.range(-200, 200)
    folded = [noise.fold_in(root, numbers), noise.fold_in(root, numbers, 1), noise.fold_in(root, 1, numbers[202:])]
    everything = tf.concat([*folded, tf.stack(noise.split(root, 50)), root[None]], axis=0).numpy()
    assert len({tuple(seed) for seed in everything}) == len(everything)


def test_a_fold_broadcasts_over_seeds_and_data() -> None:
    seeds = tf.stack([noise.root_seed(i) for i in range(4)])
    data = tf.constant([5, 6, 7, 8])
    one_by_one = [noise.fold_in(seeds[i], data[i], 9) for i in range(4)]
    np.testing.assert_array_equal(noise.fold_in(seeds, data, 9), tf.stack(one_by_one))


@pytest.mark.parametrize("seed", [0, 1, 2**40])
def test_normals_have_the_moments_and_the_distribution_of_a_normal(seed: int) -> None:
    drawn = noise.gaussian(noise.root_seed(seed), 200_000).numpy().astype(np.float64)
    n = len(drawn)
    assert abs(drawn.mean()) < 4 / np.sqrt(n)
    assert abs(drawn.var() - 1) < 4 * np.sqrt(2 / n)
    assert abs(stats.skew(drawn)) < 4 * np.sqrt(6 / n)
    assert abs(stats.kurtosis(drawn)) < 4 * np.sqrt(24 / n)
    assert stats.kstest(drawn, "norm").pvalue > 1e-3
    assert abs(np.corrcoef(drawn[: n // 2], drawn[n // 2 :])[0, 1]) < 4 / np.sqrt(n / 2)


def test_uniform_numbers_are_uniform() -> None:
    drawn = noise.uniform(noise.root_seed(9), 200_000).numpy()
    assert stats.kstest(drawn, "uniform").pvalue > 1e-3


def test_numbers_from_neighbouring_seeds_are_independent() -> None:
    seeds = tf.stack([tf.range(1000), tf.zeros(1000, tf.int32)], axis=-1)
    drawn = noise.gaussian(seeds, 4).numpy()
    assert stats.kstest(drawn[:, 0], "norm").pvalue > 1e-3
    assert abs(np.corrcoef(drawn[:-1, 0], drawn[1:, 0])[0, 1]) < 4 / np.sqrt(1000)


@pytest.mark.parametrize("word", [0, 1, 2**9 - 1, 2**9, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1])
def test_numbers_stay_inside_the_open_interval_and_normals_finite_for_every_word(
    word: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(noise, "random_bits", lambda seed, size: tf.fill([size], tf.constant(word, tf.uint32)))
    drawn = noise.uniform(noise.root_seed(0), 3).numpy()
    assert ((drawn > 0) & (drawn < 1)).all()
    # Call the wrapped function, because the compiled wrapper caches its trace.
    normal = noise._gaussian.python_function(noise.root_seed(0), 3).numpy()
    assert np.isfinite(normal).all()
    assert np.abs(normal).max() < 6


@pytest.mark.slow
def test_a_seed_gives_the_same_numbers_alone_in_a_batch_eager_traced_and_compiled() -> None:
    seeds = tf.stack([noise.root_seed(i * 7919) for i in range(20)])
    for draw in (noise.gaussian, noise.uniform):
        together = draw(seeds, 1302).numpy()
        alone = np.stack([draw(seed, 1302).numpy() for seed in seeds])
        traced = tf.function(lambda s, draw=draw: draw(s, 1302))(seeds).numpy()
        compiled = tf.function(lambda s, draw=draw: draw(s, 1302), jit_compile=True)(seeds).numpy()
        np.testing.assert_array_equal(together, alone)
        np.testing.assert_array_equal(together, traced)
        np.testing.assert_array_equal(together, compiled)


def test_normals_in_float64_are_those_in_float32() -> None:
    seed = noise.root_seed(4)
    wide = noise.gaussian(seed, 50, tf.float64)
    assert wide.dtype == tf.float64
    np.testing.assert_array_equal(wide, noise.gaussian(seed, 50).numpy().astype(np.float64))


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
def test_a_batch_equals_single_draws(count: int) -> None:
    batch = seeds(8)
    alone = [np.sort(distinct_integers(seed, count, 250)) for seed in batch]
    np.testing.assert_array_equal(np.sort(distinct_integers(batch, count, 250), axis=-1), alone)
