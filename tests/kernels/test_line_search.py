from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tfsm.kernels.line_search import MAX_MAGNITUDE, LineSearchResult, PartialOutputs, line_search, search_outputs

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


# --- The search that predicts outputs


def find_by_outputs(
    outputs: Callable[[tf.Tensor], tf.Tensor], before: object, target: object, start: object, *, max_steps: int = 40
) -> LineSearchResult:
    """Search with a lane for every start; a target for each, or one for all."""
    starts = tf.constant(start, tf.float32)
    lanes = starts.shape[0]
    rows = tf.broadcast_to(tf.constant(before, tf.float32), [lanes, *np.shape(before)[-2:]])
    targets = tf.broadcast_to(tf.constant(target, tf.float32), [lanes])
    search = tf.function(
        lambda: search_outputs(outputs, rows, targets, starts, tolerance=0.05, max_steps=max_steps), autograph=False
    )
    return search()


def one_output(curve: Curve, a: np.ndarray) -> Callable[[tf.Tensor], tf.Tensor]:
    """Return a single output `[B, 1, 1]`, the divergence of which from 0 is the curve."""
    return lambda m: tf.sqrt(curve(m, tf.constant(a, tf.float32)))[:, None, None]


@pytest.mark.sample(2)
@pytest.mark.sample(3)
@pytest.mark.parametrize("name", CURVES)
def test_predicted_outputs_find_any_reachable_target(name: str) -> None:
    a = np.logspace(-3, 3, 13).astype(np.float32)
    for target in (0.005, 1.9):
        result = find_by_outputs(one_output(CURVES[name], a), np.zeros((1, 1)), target, np.full(13, np.sqrt(target)))
        value = CURVES[name](result.magnitude, tf.constant(a)).numpy()
        np.testing.assert_allclose(value, target, rtol=0.0501, err_msg=f"{name}, {target}, {result.steps.numpy()}")
        assert result.reached.numpy().all()


def test_outputs_on_a_line_take_two_trials() -> None:
    directions = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    before = np.random.default_rng(1).normal(size=(6, 3)).astype(np.float32) * 5
    outputs = lambda m: before + m[:, None, None] * directions  # noqa: E731
    result = find_by_outputs(outputs, before, 0.7, [0.03, 0.1, 2.0, 5.0])
    np.testing.assert_array_equal(result.steps, 2)
    np.testing.assert_allclose(result.magnitude, np.sqrt(0.7 / np.square(directions).sum(1).mean()), rtol=0.01)


def test_outputs_on_a_parabola_take_three_trials() -> None:
    random = np.random.default_rng(2)
    line, bend = (random.normal(size=(6, 3)).astype(np.float32) for _ in range(2))
    outputs = lambda m: 9.0 + m[:, None, None] * line + 0.5 * m[:, None, None] ** 2 * bend  # noqa: E731
    result = find_by_outputs(outputs, np.full((6, 3), 9.0), 5.0, [0.3, 0.6, 3.0])
    assert result.steps.numpy().max() <= 3
    np.testing.assert_allclose(result.value, 5.0, rtol=0.05)


@pytest.mark.parametrize("activation", [tf.nn.softmax, tf.sigmoid])
def test_confident_probabilities_with_logits_on_a_line_take_at_most_three_trials(activation: Callable) -> None:
    logits = np.float32([[8.0, -7.0, -9.0], [-8.0, 7.0, -8.0], [-9.0, -7.0, 8.0]])
    change = np.float32([[-1.0, 0.4, 0.1], [0.3, -0.9, 0.2], [0.6, 0.1, -0.2]])

    def outputs(m: tf.Tensor) -> tf.Tensor:
        return activation(logits + m[:, None, None] * change)

    before = activation(logits).numpy()
    result = find_by_outputs(outputs, before, 0.1, [0.5, 1.0])
    assert result.reached.numpy().all()
    assert result.steps.numpy().max() <= 3

    def measure(m: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(tf.reduce_sum(tf.square(outputs(m) - before), -1), -1)

    without = line_search(measure, tf.constant(0.1), tf.constant([0.5, 1.0]), tolerance=0.05, max_steps=40)
    assert without.steps.numpy().min() > 4


def test_outputs_that_grow_by_a_known_power_take_two_trials() -> None:
    directions = np.random.default_rng(0).normal(size=(1, 6, 3)).astype(np.float32)
    before, target, start = tf.fill([2, 6, 3], 9.0), tf.constant([0.7, 0.7]), tf.constant([0.1, 2.0])

    def outputs(m: tf.Tensor) -> tf.Tensor:
        return 9.0 + (m**1.7)[:, None, None] * directions

    known = {"tolerance": 0.02, "max_steps": 40, "growth": tf.constant([1.7, 1.7])}
    np.testing.assert_array_equal(search_outputs(outputs, before, target, start, **known).steps, 2)
    first = search_outputs(outputs, before, target, start, tolerance=0.02, max_steps=40)
    assert first.steps.numpy().min() > 2
    np.testing.assert_allclose(first.growth, 1.7, rtol=0.01)


def test_a_trial_that_is_far_off_is_followed_by_trials_on_the_experiences_that_move_most() -> None:
    """Of 32 confident answers one changes; it determines the divergence, and is among the 4 that are tried."""
    random = np.random.default_rng(3)
    logits = 20.0 * np.eye(4, dtype=np.float32)[np.arange(32) % 4]
    logits[17] *= 0.3
    line, bend = (random.normal(size=(32, 4)).astype(np.float32) for _ in range(2))
    asked = []

    def rows(m: tf.Tensor, which: tf.Tensor) -> tf.Tensor:
        m = m[:, None, None]
        moved = m * tf.gather(line, which) + m**2 * tf.gather(bend, which)
        return tf.nn.softmax(tf.gather(logits, which) + moved)

    def part(m: tf.Tensor, which: tf.Tensor) -> tf.Tensor:
        asked.append(which.numpy())
        return rows(m, which)

    everything = tf.repeat(tf.range(32)[None], 2, axis=0)
    before, target, start = rows(tf.zeros(2), everything), tf.constant([0.005, 0.0]), tf.constant([0.3, 0.3])
    settings = {"tolerance": 0.05, "max_steps": 40}
    alone = search_outputs(lambda m: rows(m, everything), before, target, start, **settings)
    asked.clear()
    partial = PartialOutputs(part, 32, 4)
    found = search_outputs(lambda m: rows(m, everything), before, target, start, **settings, part=partial)
    assert found.reached.numpy().all()
    np.testing.assert_allclose(found.value, target, rtol=0.05)
    assert int(found.steps[0]) < int(alone.steps[0])
    assert int(found.part_steps[0]) > 0
    np.testing.assert_array_equal([found.steps[1], found.part_steps[1], alone.part_steps[0]], 0)
    assert all(17 in which[0] and which.shape == (2, 4) for which in asked)


def test_numbers_between_zero_and_one_that_are_not_probabilities_may_leave_the_interval() -> None:
    result = find_by_outputs(lambda m: 0.9 + m[:, None, None] * np.ones((1, 2, 1)), np.full((2, 1), 0.9), 4.0, [0.01])
    np.testing.assert_allclose(result.magnitude, 2.0, rtol=0.03)


def test_predicted_outputs_report_what_cannot_be_reached() -> None:
    a = np.float32([0.1, 1.0, 10.0])
    bounded = find_by_outputs(one_output(CURVES["saturating"], a), np.zeros((1, 1)), 50.0, [1.0] * 3)
    constant = find_by_outputs(lambda m: 0.0 * m[:, None, None], np.zeros((1, 1)), 0.1, [1.0])
    jump = find_by_outputs(lambda m: tf.where(m < 2.0, 0.4, 1.0)[:, None, None], np.zeros((1, 1)), 0.5, [1.0])
    for result in (bounded, constant, jump):
        assert not result.reached.numpy().any()
        assert np.isfinite(result.magnitude).all()
    np.testing.assert_allclose(bounded.value, 2.0, rtol=1e-3)
    assert bounded.steps.numpy().max() <= 10


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("edge", [1e-3, 0.5, 3.0])
def test_predicted_outputs_stay_where_they_are_finite(bad: float, edge: float) -> None:
    def outputs(m: tf.Tensor) -> tf.Tensor:
        return tf.where(m > edge, tf.constant(bad, tf.float32), m / (0.9 * edge))[:, None, None]

    result = find_by_outputs(outputs, np.zeros((1, 1)), 1.0, [1.0])
    assert result.reached.numpy().all()
    np.testing.assert_allclose(result.magnitude, 0.9 * edge, rtol=0.03)
    never = find_by_outputs(lambda m: m[:, None, None] * bad, np.zeros((1, 1)), 1.0, [1.0])
    np.testing.assert_array_equal(never.magnitude, 0.0)


@pytest.mark.slow
def test_predictions_do_not_depend_on_the_rest_of_the_batch() -> None:
    a = np.logspace(-2, 2, 5).astype(np.float32)
    targets = np.float32([0.1, 0.4, 0.0, 1.5, 0.7])
    for name in ("steep", "saturating", "up and down"):
        together = find_by_outputs(one_output(CURVES[name], a), np.zeros((1, 1)), targets, np.ones(5))
        for i in range(5):
            alone = find_by_outputs(one_output(CURVES[name], a[i : i + 1]), np.zeros((1, 1)), targets[i], [1.0])
            np.testing.assert_allclose(alone.magnitude[0], together.magnitude[i], rtol=1e-6, err_msg=name)
            assert int(alone.steps[0]) == int(together.steps[i])
