from __future__ import annotations

from itertools import product

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import layers as kl

from tests.mutations.cases import SPECS, case, children, noise_of
from tests.reference import measures
from tfsm.models.network import Network


def divergence(of: object, child: np.ndarray) -> float:
    return measures.divergence(of.rows(of.genome, of.inputs), of.rows(child, of.inputs))


@pytest.mark.sample(33)
@pytest.mark.parametrize(("name", "target"), list(product(SPECS, [1e-4, 0.005, 0.03])))
def test_a_child_has_the_target_divergence_within_one_percent(name: str, target: float) -> None:
    of = case(name)
    genomes = np.tile(of.genome, (4, 1))
    found = children(of.network, genomes, tf.constant(of.inputs[None]), "sm-r", target, [1, 2, 3, 4])
    np.testing.assert_array_equal(found.diagnostics["unreached"], np.zeros(4))
    for child in found.genome.numpy():
        assert divergence(of, child) == pytest.approx(target, rel=0.0101)


@pytest.mark.parametrize("tolerance", [0.2, 1e-6])
def test_the_tolerance_is_kept(tolerance: float) -> None:
    of = case("gru")
    found = children(of.network, of.genome[None], of.inputs[None], "sm-r", 0.05, [7], tolerance=tolerance)
    assert divergence(of, found.genome[0].numpy()) == pytest.approx(0.05, rel=tolerance * 1.01)


def test_the_change_has_the_direction_of_the_noise() -> None:
    of = case("dense")
    found = children(of.network, of.genome[None], of.inputs[None], "sm-r", 0.05, [7]).genome[0].numpy()
    change, noise = found - of.genome, noise_of(7, len(of.genome))
    np.testing.assert_allclose(change / np.linalg.norm(change), noise / np.linalg.norm(noise), rtol=1e-5, atol=1e-7)


def test_the_mean_over_outputs_is_a_smaller_measure() -> None:
    of = case("dense")
    found = children(of.network, of.genome[None], of.inputs[None], "sm-r", 0.02, [7], mean_over_outputs=True)
    assert divergence(of, found.genome[0].numpy()) == pytest.approx(0.06, rel=0.0101)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**62), st.floats(1e-5, 0.2))
def test_any_seed_and_reachable_target_works(seed: int, target: float) -> None:
    of = case("dense")
    found = children(of.network, of.genome[None], of.inputs[None], "sm-r", target, [seed])
    child = found.genome[0].numpy()
    if float(found.diagnostics["unreached"][0]) == 0:
        assert divergence(of, child) == pytest.approx(target, rel=0.0101)
    else:  # probabilities are bounded
        assert divergence(of, child) < target
    assert np.isfinite(child).all()


def test_a_target_beyond_bounded_outputs_is_unreached_with_the_nearest_child() -> None:
    of = case("dense")  # three probabilities: no more than 2 apart
    found = children(of.network, np.tile(of.genome, (2, 1)), tf.constant(of.inputs[None]), "sm-r", 3.0, [1, 2])
    np.testing.assert_array_equal(found.diagnostics["unreached"], [1.0, 1.0])
    for child in found.genome.numpy():
        assert np.isfinite(child).all()
        assert 0.1 < divergence(of, child) <= 2.0


def test_outputs_that_do_not_depend_on_the_weights_are_unreached() -> None:
    model = keras.Sequential([keras.Input((3,)), kl.Dense(2), kl.Rescaling(0.0)])
    found = children(Network(model), np.ones((2, 8)), tf.ones([1, 4, 3]), "sm-r", 0.1, [1, 2])
    np.testing.assert_array_equal(found.diagnostics["unreached"], [1.0, 1.0])
    assert np.isfinite(found.genome).all()


def test_outputs_that_overflow_are_searched_below() -> None:
    model = keras.Sequential([keras.Input((1,)), kl.Dense(1, "exponential"), kl.Dense(1, "exponential")])
    network = Network(model)
    parent, x = np.float32([[1.0, 0.0, 1.0, 0.0]] * 5), tf.constant([[[1.0], [1.2]]])
    found = children(network, parent, x, "sm-r", 0.5, list(range(5)))
    before, after = network.rows(tf.constant(parent), x).numpy(), network.rows(found.genome, x).numpy()
    np.testing.assert_array_equal(found.diagnostics["unreached"], np.zeros(5))
    for b in range(5):
        assert measures.divergence(before[b], after[b]) == pytest.approx(0.5, rel=0.02)


def test_steps_are_counted_and_limited() -> None:
    of = case("lstm")
    found = children(of.network, of.genome[None], of.inputs[None], "sm-r", 0.05, [1])
    assert 1 <= float(found.diagnostics["search_steps"][0]) <= 12
    cut = children(of.network, of.genome[None], of.inputs[None], "sm-r", 0.05, [1], max_steps=1, tolerance=1e-9)
    assert float(cut.diagnostics["search_steps"][0]) == 1
    assert float(cut.diagnostics["unreached"][0]) == 1


def test_a_search_is_short() -> None:
    # The paper's code needed about 14 forward passes.
    of = case("simple-rnn")
    genomes = np.tile(of.genome, (30, 1))
    found = children(of.network, genomes, tf.constant(of.inputs[None]), "sm-r", 0.005, list(range(30)))
    assert np.mean(found.diagnostics["search_steps"]) < 6


def test_only_the_sampled_experiences_count() -> None:
    of = case("dense")
    found = children(of.network, of.genome[None], of.inputs[None], "sm-r", 0.05, [3], experiences=2)
    child = found.genome[0].numpy()
    squares = ((of.rows(of.genome, of.inputs) - of.rows(child, of.inputs)) ** 2).sum(axis=1)
    pairs = [squares[i] + squares[j] for i in range(5) for j in range(i)]
    assert sum(abs(pair / 2 - 0.05) <= 0.0005 for pair in pairs) == 1
