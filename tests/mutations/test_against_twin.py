from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.mutations.cases import GRADIENT, SPECS, case, children, noise_of, sensitivity
from tests.reference import measures
from tests.reference.threefry import gaussian
from tfsm.kernels.random import root_seed
from tfsm.kernels.sensitivity import hessian_product
from tfsm.models.network import Network


@pytest.mark.parametrize("name", SPECS)
def test_the_twin_runs_as_keras_does(name: str) -> None:
    of = case(name)
    rows = of.network.rows(tf.constant(of.genome[None]), tf.constant(of.inputs[None]))[0]
    np.testing.assert_allclose(rows, of.rows(of.genome, of.inputs), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", SPECS)
def test_sensitivities_are_those_of_the_formulas_with_finite_differences(name: str) -> None:
    of = case(name)
    direction = np.random.default_rng(2).standard_normal(of.genome.shape)
    for mutation, expected in (
        ("sm-g-sum", measures.sum_sensitivity(of.jacobian)),
        ("sm-g-abs", measures.abs_sensitivity(of.jacobian)),
        ("sm-g-rms", measures.rms_sensitivity(of.jacobian)),
        ("sm-g-so", measures.so_sensitivity(of.jacobian, direction)),
    ):
        np.testing.assert_allclose(
            sensitivity(mutation, of, direction), expected, rtol=1e-5, atol=1e-6, err_msg=mutation
        )


@pytest.mark.parametrize("name", SPECS)
def test_the_second_order_product_is_twice_the_mean_of_outer_products_times_the_direction(name: str) -> None:
    of = case(name)
    direction = np.random.default_rng(2).standard_normal(of.genome.shape)
    found = hessian_product(of.network, tf.constant(of.genome), tf.constant(of.inputs), tf.constant(direction))
    flat = of.jacobian.reshape(-1, len(of.genome))
    np.testing.assert_allclose(found, 2 / len(of.jacobian) * flat.T @ (flat @ direction), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", SPECS)
def test_the_second_order_product_is_that_of_nested_tapes_over_equation_1(name: str) -> None:
    of = case(name)
    genome, inputs = tf.constant(of.genome), tf.constant(of.inputs)
    direction = tf.constant(np.random.default_rng(2).standard_normal(of.genome.shape))
    still = of.network.rows(genome, inputs)
    change = tf.zeros_like(genome)
    with tf.GradientTape() as outer:
        outer.watch(change)
        with tf.GradientTape() as inner:
            inner.watch(change)
            moved = of.network.rows(genome + change, inputs)
            divergence = tf.reduce_sum(tf.square(still - moved)) / still.shape[0]
        slope = inner.gradient(divergence, change)
        along = tf.reduce_sum(slope * direction)
    literal = outer.gradient(along, change)
    np.testing.assert_allclose(slope, np.zeros(len(of.genome)), atol=1e-15)
    found = hessian_product(of.network, genome, inputs, direction)
    np.testing.assert_allclose(found, literal, rtol=1e-9, atol=1e-12)


def twins_change(mutation: str, jacobian: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Return how the twin mutates a genome of this Jacobian."""
    s = {
        "sm-g-sum": measures.sum_sensitivity(jacobian),
        "sm-g-abs": measures.abs_sensitivity(jacobian),
        "sm-g-rms": measures.rms_sensitivity(jacobian),
        "sm-g-so": measures.so_sensitivity(jacobian, noise / np.linalg.norm(noise)),
    }[mutation]
    return measures.child(np.zeros_like(noise), noise, s)


@pytest.mark.parametrize("mutation", GRADIENT)
@pytest.mark.parametrize("name", SPECS)
def test_a_child_is_the_twins(name: str, mutation: str) -> None:
    of = case(name)
    found = children(of.network, of.genome[None], of.inputs[None], mutation, 0.05, [3]).genome[0].numpy()
    expected = twins_change(mutation, of.jacobian, 0.05 * noise_of(3, len(of.genome)))
    np.testing.assert_allclose(found - of.genome, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("mutation", GRADIENT)
def test_genomes_in_a_batch_with_experience_of_their_own_get_the_twins_children(mutation: str) -> None:
    of = case("gru")
    rng = np.random.default_rng(8)
    genomes, inputs = rng.standard_normal((3, len(of.genome))), rng.standard_normal((3, *of.inputs.shape))
    found = children(of.network, genomes, tf.constant(inputs), mutation, 0.01, [1, 2, 3]).genome.numpy()
    for b in range(3):
        jacobian = measures.jacobian(of.rows, genomes[b], inputs[b])
        expected = twins_change(mutation, jacobian, 0.01 * noise_of(b + 1, len(of.genome)))
        np.testing.assert_allclose(found[b] - genomes[b], expected, rtol=1e-4, atol=1e-8)


def test_the_control_adds_the_twins_noise() -> None:
    of = case("dense")
    found = children(of.network, of.genome[None], of.inputs[None], "control", 0.3, [9]).genome[0]
    noise = gaussian(root_seed(9).numpy(), len(of.genome))
    np.testing.assert_allclose(found, of.genome + 0.3 * noise, rtol=1e-5, atol=1e-6)


def test_float32_measures_what_float64_does() -> None:
    of = case("lstm")
    narrow = keras.Sequential([keras.Input((4, 2)), keras.layers.LSTM(2), keras.layers.Dense(2)])
    genome, inputs = of.genome[None].astype(np.float32), tf.constant(of.inputs[None], tf.float32)
    for mutation in GRADIENT:
        found = children(Network(narrow), genome, inputs, mutation, 0.05, [3]).genome[0].numpy()
        expected = children(of.network, of.genome[None], of.inputs[None], mutation, 0.05, [3]).genome[0].numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)
