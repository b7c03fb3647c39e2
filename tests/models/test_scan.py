"""Loops over time have the values and derivatives of unrolled steps."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from tfsm.models.scan import Parts, Scan

TIMES = 6

Function = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], list[tf.Tensor]]


def step(now: list[tf.Tensor], state: list[tf.Tensor], fixed: list[tf.Tensor]) -> Parts:
    """Two states, of which one feeds the other; a sum over time."""
    (x,), (fast, slow), (w,) = now, state, fixed
    fast = tf.tanh(tf.linalg.matvec(w, fast) + x)
    slow = 0.5 * slow + tf.square(fast)
    return [[fast * slow], [fast, slow], [slow]]


def unroll(x: tf.Tensor, start: tf.Tensor, w: tf.Tensor, *, backwards: bool = False) -> list[tf.Tensor]:
    state, seen, total = [start, start], [tf.zeros_like(start)] * TIMES, tf.zeros_like(start)
    for t in reversed(range(TIMES)) if backwards else range(TIMES):
        (seen[t],), state, (term,) = step([x[t]], state, [w])
        total = total + term
    return [tf.stack(seen), *state, total]


def scanned(*, alone: bool, backwards: bool = False) -> Function:
    scan = Scan(step, (1, 2, 1), (1, 1), lambda _, state, __: (state[:1], state[:1]), alone, backwards)
    return lambda x, start, w: [found for part in scan([x], [start, start], [w]) for found in part]


def inputs() -> list[tf.Tensor]:
    rng = np.random.default_rng(0)
    return [tf.constant(rng.standard_normal(shape)) for shape in [(TIMES, 3), (3,), (3, 3)]]


def total(parts: list[tf.Tensor]) -> tf.Tensor:
    return tf.add_n([tf.reduce_sum(tf.sin(part)) for part in parts])


def derived(function: Function, order: int) -> list[tf.Tensor]:
    given = inputs()
    with tf.GradientTape() as third:
        third.watch(given)
        with tf.GradientTape() as second:
            second.watch(given)
            with tf.GradientTape() as first:
                first.watch(given)
                found = function(*given)
                value = total(found)
            if order == 0:
                return found
            once = first.gradient(value, given)
            if order == 1:
                return list(once)
            value = total(once)
        twice = second.gradient(value, given)
        if order == 2:
            return list(twice)
        value = total(twice)
    return list(third.gradient(value, given))


@pytest.mark.sample(15)
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize(
    ("alone", "order"),
    [
        *((alone, order) for alone in (False, True) for order in range(3)),
        pytest.param(False, 3, marks=pytest.mark.slow),
    ],
)
def test_derivatives_are_those_of_unrolled_steps(alone: bool, order: int, backwards: bool) -> None:
    mine = tf.function(lambda: derived(scanned(alone=alone, backwards=backwards), order), autograph=False)()
    plain = derived(lambda *given: unroll(*given, backwards=backwards), order)
    for a, b in zip(mine, plain, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


def test_it_runs_outside_of_a_graph() -> None:
    for a, b in zip(derived(scanned(alone=False), 2), derived(unroll, 2), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


def test_the_length_may_be_unknown_beforehand() -> None:
    function = tf.function(scanned(alone=False), autograph=False)
    x, start, w = inputs()
    concrete = function.get_concrete_function(tf.TensorSpec([None, 3], x.dtype), start, w)
    for a, b in zip(concrete(x, start, w), unroll(x, start, w), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_one_backward_loop_serves_all_cotangents() -> None:
    traces = []

    def counted(*given: list[tf.Tensor]) -> Parts:
        traces.append(1)
        return step(*given)

    scan = Scan(counted, (1, 2, 1), (1, 1), lambda _, state, __: (state[:1], state[:1]), compile_alone=True)

    def gradients() -> list[tf.Tensor]:
        x, start, w = inputs()
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(w)
            parts = tf.unstack(scan([x], [start, start], [w])[1][0])
        return [tape.gradient(part, w) for part in parts]

    tf.function(gradients, autograph=False)()
    assert len(traces) <= 6  # forward and backward, each traced a few times, and not once for each of three cotangents
