from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tfsm.kernels.line_search import MAX_MAGNITUDE, LineSearchResult, line_search

Curve = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]

# Typical divergences along a direction; `a` is the sensitivity.
CURVES: dict[str, Curve] = {
    "quadratic": lambda m, a: a * m**2,
    "linear": lambda m, a: a * m,
    "quartic": lambda m, a: a * m**4,
    "steep": lambda m, a: tf.math.expm1(tf.minimum(a * m**2, 80.0)),
    "saturating": lambda m, a: 2.0 * tf.tanh(a * m) ** 2,
    "slow": lambda m, a: tf.math.log1p(a * m),
    "flat, then a wall": lambda m, a: 1e-9 * m**2 + tf.nn.relu(m - a) ** 2,
    "plateau": lambda m, a: 0.5 * tf.tanh(1e3 * m) ** 2 + tf.nn.relu(m - a),
    "up and down": lambda m, a: (1.2 + tf.sin(3.0 * m)) * tf.minimum(a * m**2, 9.0),
    "bump, then growth": lambda m, a: tf.exp(-((m - 1.0) ** 2) * 50.0) * m + 1e-3 * a * m**2,
}


@functools.cache
def traced(curve: Curve) -> Callable[..., LineSearchResult]:
    return tf.function(
        lambda target, a, start: line_search(lambda m: curve(m, a), target, start, tolerance=0.01, max_steps=60),
        autograph=False,
    )


def found(curve: Curve, target: object, a: object) -> LineSearchResult:
    """Search from the starting point of SM-R, with a lane for every `a`."""
    divergences, slopes = tf.constant(target, tf.float32), tf.constant(a, tf.float32)
    return traced(curve)(divergences, slopes, tf.broadcast_to(tf.sqrt(divergences), slopes.shape))


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", CURVES)
def test_a_reachable_target_is_hit_within_one_percent(name: str) -> None:
    a = np.logspace(-3, 3, 13).astype(np.float32)
    for target in (1e-4, 0.005, 0.3, 1.9):
        result = found(CURVES[name], target, a)
        value = CURVES[name](result.magnitude, tf.constant(a)).numpy()
        np.testing.assert_allclose(value, target, rtol=0.01001, err_msg=f"{name}, {target}, {result.steps.numpy()}")
        np.testing.assert_allclose(value, result.value, rtol=1e-6)
        assert result.reached.numpy().all()
        assert (result.magnitude.numpy() > 0).all()


def test_a_quadratic_takes_two_measurements() -> None:
    steps = found(CURVES["quadratic"], 0.05, np.logspace(-3, 3, 13)).steps
    assert steps.numpy().max() <= 3
    assert steps.numpy().mean() <= 2.2


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(CURVES)),
    st.floats(1e-4, 1.9),
    st.lists(st.floats(1e-3, 1e3), min_size=4, max_size=4),
)
def test_results_are_consistent_for_any_curve(name: str, target: float, a: list[float]) -> None:
    result = found(CURVES[name], target, a)
    value = CURVES[name](result.magnitude, tf.constant(a, tf.float32)).numpy()
    assert np.isfinite(result.magnitude).all()
    assert result.reached.numpy().all()
    np.testing.assert_allclose(value, target, rtol=0.01001)


@pytest.mark.parametrize("target", [2.1, 1e3, 1e6])
def test_a_target_beyond_a_bounded_curve_is_unreached_with_the_nearest_value(target: float) -> None:
    result = found(CURVES["saturating"], target, [0.1, 1.0, 10.0])
    assert not result.reached.numpy().any()
    np.testing.assert_allclose(result.value, 2.0, rtol=1e-3)
    assert np.isfinite(result.magnitude).all()
    assert result.magnitude.numpy().max() <= MAX_MAGNITUDE


def test_a_curve_that_never_moves_is_unreached() -> None:
    result = found(lambda m, a: 0.0 * m * a, 0.1, [1.0, 2.0])
    assert not result.reached.numpy().any()
    np.testing.assert_array_equal(result.value, 0.0)
    assert np.isfinite(result.magnitude).all()


def test_a_curve_that_is_never_finite_is_unreached_and_the_child_does_not_move() -> None:
    for bad in (np.nan, np.inf):
        result = found(lambda m, a, bad=bad: m * a * bad, 0.1, [1.0, 2.0])
        assert not result.reached.numpy().any()
        np.testing.assert_array_equal(result.magnitude, 0.0)
        np.testing.assert_array_equal(result.value, 0.0)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("edge", [1e-3, 0.5, 3.0])
def test_values_that_are_not_finite_count_as_too_far(bad: float, edge: float) -> None:
    # The target is reached at 0.9 of the edge, beyond which the divergence is not finite.
    result = found(lambda m, a: tf.where(m > a, tf.constant(bad, tf.float32), (m / (0.9 * a)) ** 2), 1.0, [edge])
    assert result.reached.numpy().all()
    np.testing.assert_allclose(result.magnitude, 0.9 * edge, rtol=0.006)


def test_a_jump_over_the_target_is_unreached_with_the_nearest_value() -> None:
    result = found(lambda m, a: tf.where(m < a, 0.4 * tf.ones_like(m), tf.ones_like(m)), 0.5, [2.0])
    assert not result.reached.numpy().any()
    np.testing.assert_allclose(result.value, 0.4)
    assert float(result.magnitude[0]) < 2.0


def test_nothing_is_reached_by_not_moving() -> None:
    result = found(CURVES["quadratic"], 0.0, [1.0, 5.0])
    np.testing.assert_array_equal(result.magnitude, 0.0)
    np.testing.assert_array_equal(result.steps, 0)
    assert result.reached.numpy().all()


def test_a_batch_equals_single_searches() -> None:
    a, target = np.logspace(-2, 2, 5).astype(np.float32), 0.7
    for name in ("steep", "saturating", "up and down"):
        together = found(CURVES[name], target, a)
        for i, slope in enumerate(a):
            alone = found(CURVES[name], target, [slope])
            np.testing.assert_allclose(alone.magnitude[0], together.magnitude[i], rtol=1e-6, err_msg=name)
            assert int(alone.steps[0]) == int(together.steps[i])


def test_targets_may_differ_within_a_batch() -> None:
    targets = np.float32([0.1, 0.4, 0.0, 50.0])
    result = found(CURVES["saturating"], targets, np.ones(4))
    np.testing.assert_array_equal(result.reached, [True, True, True, False])
    np.testing.assert_allclose(result.value[:3], targets[:3], rtol=0.01)


def test_no_more_measurements_are_made_than_allowed() -> None:
    calls: list[int] = []

    def measure(m: tf.Tensor) -> tf.Tensor:
        calls.append(1)
        return tf.math.log1p(m) * 1e-3

    result = line_search(measure, tf.constant(0.5), tf.constant([1e-4]), tolerance=0.01, max_steps=5)
    assert len(calls) == 5
    assert int(result.steps[0]) == 5
    assert not bool(result.reached[0])


def test_one_magnitude_alone_may_be_a_scalar_and_float64() -> None:
    start = tf.constant(1.0, tf.float64)
    result = line_search(lambda m: 3.0 * m**2, tf.constant(0.5), start, tolerance=1e-9, max_steps=60)
    assert float(result.magnitude) == pytest.approx(np.sqrt(0.5 / 3), rel=1e-9)
