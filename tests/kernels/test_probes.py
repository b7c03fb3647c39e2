"""Estimates by random signs: closed forms of what they are on average, and of when they are exact."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow as tf

from tests.kernels.test_sensitivity import Given, drawn, flat
from tests.reference import measures
from tfsm.kernels import sensitivity as kernels
from tfsm.kernels.random import fold, root_seed
from tfsm.kernels.sensitivity import probed_rms, probed_sum

ESTIMATES = {"rms": (probed_rms, measures.rms_sensitivity), "sum": (probed_sum, measures.sum_sensitivity)}


def seeds(count: int) -> tf.Tensor:
    return fold(root_seed(7), tf.range(count))


@pytest.mark.parametrize("name", ESTIMATES)
def test_the_mean_over_all_signs_is_the_square_exactly(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    estimate, exact = ESTIMATES[name]
    genomes, inputs = drawn(1, 4), drawn(1, 2, 1, 2, 4, seed=1)
    size = 4 if name == "rms" else 2
    squares = []
    for signs in itertools.product([1.0, -1.0], repeat=size):
        monkeypatch.setattr(kernels, "_signs", lambda *_, own=signs: tf.constant([own], tf.float64))
        squares.append(estimate(Given(), genomes, inputs, seeds(1), probes=1)[0].numpy() ** 2)
    np.testing.assert_allclose(np.mean(squares, axis=0), exact(flat(inputs[0])) ** 2, rtol=1e-12)


@pytest.mark.parametrize("name", ESTIMATES)
@pytest.mark.parametrize("probes", [1, 3])
def test_drawn_signs_give_the_square_on_average(name: str, probes: int) -> None:
    estimate, exact = ESTIMATES[name]
    count = 4000
    genomes, inputs = tf.repeat(drawn(1, 3), count, axis=0), drawn(1, 3, 2, 4, 3, seed=1)
    found = estimate(Given(), genomes, inputs, seeds(count), probes=probes).numpy() ** 2
    wanted = exact(flat(inputs[0])) ** 2
    # The variance of a square of signs is at most twice the square of its mean: five standard errors.
    np.testing.assert_allclose(found.mean(axis=0), wanted, rtol=5 * np.sqrt(2 / (count * probes)))


def test_one_output_needs_no_luck() -> None:
    genomes, inputs = drawn(2, 5), drawn(2, 4, 1, 1, 5, seed=1)
    found = probed_sum(Given(), genomes, inputs, seeds(2), probes=1)
    for b in range(2):
        np.testing.assert_allclose(found[b], measures.sum_sensitivity(flat(inputs[b])), rtol=1e-12)


def test_more_probes_are_the_root_mean_square_of_single_ones() -> None:
    genomes, inputs = drawn(2, 5), drawn(2, 3, 1, 4, 5, seed=1)
    single = []
    for i in range(3):
        own = tf.stack([fold(seed, i) for seed in seeds(2)])

        def signs(_: tf.Tensor, size: int, dtype: tf.DType, own: tf.Tensor = own) -> tf.Tensor:
            return SIGNS(own, size, dtype)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kernels, "_signs", signs)
            single.append(probed_rms(Given(), genomes, inputs, seeds(2), probes=1).numpy())
    together = probed_rms(Given(), genomes, inputs, seeds(2), probes=3)
    np.testing.assert_allclose(together, np.sqrt(np.mean(np.square(single), axis=0)), rtol=1e-12)


SIGNS = kernels._signs


def test_an_estimate_depends_on_its_own_seed_alone() -> None:
    genomes, inputs = drawn(3, 5), drawn(3, 3, 1, 4, 5, seed=1)
    together = probed_rms(Given(), genomes, inputs, seeds(3), probes=2)
    for b in range(3):
        alone = probed_rms(Given(), genomes[b], inputs[b], seeds(3)[b], probes=2)
        np.testing.assert_allclose(together[b], alone, rtol=1e-12)
    other = probed_rms(Given(), genomes, inputs, seeds(6)[3:], probes=2)
    assert not np.allclose(together, other)


def test_signs_are_fair_and_nothing_else() -> None:
    found = SIGNS(root_seed(3), 10_000, tf.float32).numpy()
    assert set(found) == {-1.0, 1.0}
    assert abs(found.mean()) < 0.05  # five standard errors
