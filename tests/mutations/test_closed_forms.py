from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from keras import layers as kl

import tfsm
from tests.mutations.cases import GRADIENT, children
from tfsm.models.network import Network
from tfsm.plugins import load_plugins

INPUTS = arrays(np.float64, (4, 3), elements=st.floats(-10, 10).map(lambda x: round(x, 3)))


def linear(outputs: int = 2, **options: Any) -> keras.Model:
    dense = kl.Dense(outputs, dtype="float64", **options)
    return keras.Sequential([keras.Input((3,), dtype="float64"), dense])


LINEAR = linear()
X = np.random.default_rng(1).standard_normal((6, 3))


def simple(task: str = "simple-medium") -> keras.Model:
    return load_plugins().domains[task].load()().network()


@settings(max_examples=25, deadline=None)
@given(INPUTS)
def test_a_linear_model_is_as_sensitive_as_its_mean_absolute_input(x: np.ndarray) -> None:
    found = tfsm.sensitivity(LINEAR, x, "sm-g-abs")
    np.testing.assert_allclose(found, [*np.repeat(np.abs(x).mean(axis=0), 2), 1, 1], rtol=1e-12, atol=1e-300)


@settings(max_examples=25, deadline=None)
@given(INPUTS)
def test_a_linear_model_is_as_sensitive_as_its_absolute_summed_input(x: np.ndarray) -> None:
    found = tfsm.sensitivity(LINEAR, x, "sm-g-sum")
    np.testing.assert_allclose(found, [*np.repeat(np.abs(x.sum(axis=0)), 2), 4, 4], rtol=1e-9, atol=1e-12)


def test_a_linear_model_curves_as_its_inputs_second_moments() -> None:
    direction = np.random.default_rng(3).standard_normal(8)
    wide = np.hstack([X, np.ones((6, 1))])
    product = 2 * (wide.T @ wide / 6) @ direction.reshape(4, 2)
    found = tfsm.sensitivity(LINEAR, X, "sm-g-so", direction)
    np.testing.assert_allclose(found, np.sqrt(np.abs(product)).ravel(), rtol=1e-10)


def test_sensitivities_of_a_linear_model_do_not_depend_on_its_weights() -> None:
    other = tfsm.unflatten(LINEAR, np.arange(8.0))
    for name in GRADIENT:
        direction = np.ones(8)
        found, expected = (tfsm.sensitivity(model, X, name, direction) for model in (LINEAR, other))
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("name", ["sm-g-sum", "sm-g-abs"])
def test_the_simple_model_is_a_thousand_times_as_sensitive_to_one_weight(name: str) -> None:
    np.testing.assert_allclose(tfsm.sensitivity(simple(), [[1.0, 1.0]], name), [100.0, 0.1], rtol=1e-6)


def test_the_simple_models_curvature() -> None:
    found = tfsm.sensitivity(simple(), [[1.0, 1.0]], "sm-g-so", np.array([1.0, 1.0]))
    np.testing.assert_allclose(found, np.sqrt([2 * 100.0**2, 2 * 0.1**2]), rtol=1e-6)


def test_opposite_experiences_wash_out_in_the_sum_alone() -> None:
    washout = np.array([[1.0, 1.0], [-1.0, -1.0]])
    np.testing.assert_array_equal(tfsm.sensitivity(simple(), washout, "sm-g-sum"), [0.0, 0.0])
    np.testing.assert_allclose(tfsm.sensitivity(simple(), washout, "sm-g-abs"), [100.0, 0.1], rtol=1e-6)
    along = tfsm.sensitivity(simple(), washout, "sm-g-so", np.array([1.0, 1.0]))
    np.testing.assert_allclose(along, np.sqrt([2 * 100.0**2, 2 * 0.1**2]), rtol=1e-6)


def test_duplicated_experiences_double_the_sum_and_leave_the_others() -> None:
    twice, direction = np.vstack([X, X]), np.ones(8)
    for name, factor in (("sm-g-sum", 2.0), ("sm-g-abs", 1.0), ("sm-g-so", 1.0)):
        once = tfsm.sensitivity(LINEAR, X, name, direction)
        np.testing.assert_allclose(tfsm.sensitivity(LINEAR, twice, name, direction), factor * once, rtol=1e-12)


def test_an_output_is_a_vector_whose_length_counts() -> None:
    # y_k = w x for K copies of one weight's output: s grows with the root of K.
    x = keras.Input((1,))
    one = kl.Dense(1, use_bias=False)(x)
    for count in (1, 4, 9):
        model = keras.Model(x, keras.ops.concatenate([one] * count, axis=-1) if count > 1 else one)
        for name in ("sm-g-sum", "sm-g-abs"):
            found = tfsm.sensitivity(model, [[3.0]], name)
            np.testing.assert_allclose(found, [3.0 * np.sqrt(count)], rtol=1e-6)


def test_several_outputs_are_measured_as_one_concatenated() -> None:
    x = keras.Input((3,))
    a, b = kl.Dense(2, "tanh")(x), kl.Dense(3)(x)
    apart, together = keras.Model(x, [a, b]), keras.Model(x, keras.ops.concatenate([a, b], axis=-1))
    direction = np.ones(len(tfsm.flatten(apart)))
    for name in GRADIENT:
        found, expected = (tfsm.sensitivity(model, X, name, direction) for model in (apart, together))
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_every_time_of_an_output_is_an_experience() -> None:
    # A Dense layer over time is a linear model that saw every time as an input of its own.
    x = np.random.default_rng(4).standard_normal((5, 7, 3)).astype(np.float32)
    over_time = keras.Sequential([keras.Input((7, 3)), kl.Dense(2)])
    flat = keras.Sequential([keras.Input((3,)), kl.Dense(2)])
    direction = np.ones(8)
    for name in ("sm-g-sum", "sm-g-abs", "sm-g-so"):  # sm-g-rms estimates so many answers, and few not
        found = tfsm.sensitivity(over_time, x, name, direction)
        np.testing.assert_allclose(found, tfsm.sensitivity(flat, x.reshape(35, 3), name, direction), rtol=1e-4)


def test_a_weight_that_the_experience_never_touches_has_no_sensitivity() -> None:
    x = X * [1.0, 0.0, 1.0]
    for name in GRADIENT:
        found = tfsm.sensitivity(LINEAR, x, name)
        np.testing.assert_array_equal(found[2:4], [0.0, 0.0])
        assert (found[[0, 1, 4, 5, 6, 7]] > 0).all()


def test_many_outputs_are_measured_as_few_are() -> None:
    wide, x = linear(13), np.random.default_rng(6).standard_normal((4, 3))
    s = np.abs(x).mean(axis=0)
    np.testing.assert_allclose(tfsm.sensitivity(wide, x, "sm-g-abs"), [*np.repeat(s, 13), *np.ones(13)], rtol=1e-12)
    s = np.abs(x.sum(axis=0))
    np.testing.assert_allclose(tfsm.sensitivity(wide, x, "sm-g-sum"), [*np.repeat(s, 13), *np.full(13, 4)], rtol=1e-12)


@pytest.mark.parametrize("name", GRADIENT)
def test_a_safe_child_moves_sensitive_weights_less(name: str) -> None:
    network = Network(simple())
    found = children(network, np.zeros((20, 2)), tf.constant([[[1.0, 1.0]]]), name, 0.1, list(range(20))).genome
    moved = np.median(np.abs(found), axis=0)
    assert moved[0] < moved[1] / 100
