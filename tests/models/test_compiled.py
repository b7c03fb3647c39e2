"""Functions compiled by XLA within a plain graph: the same values and derivatives."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfsm.models.compiled import compiled


def loop(x: tf.Tensor, w: tf.Tensor) -> list[tf.Tensor]:
    history = tf.TensorArray(x.dtype, 6, element_shape=x.shape)

    def body(t: tf.Tensor, x: tf.Tensor, history: tf.TensorArray) -> tuple[tf.Tensor, ...]:
        x = tf.tanh(tf.linalg.matvec(w, x))
        return t + 1, x, history.write(t, x)

    _, x, history = tf.while_loop(lambda t, *_: t < 6, body, (tf.constant(0), x, history), maximum_iterations=6)
    return [history.stack(), x]


def inputs() -> tuple[tf.Tensor, tf.Tensor]:
    rng = np.random.default_rng(0)
    return tf.constant(rng.standard_normal(3)), tf.constant(rng.standard_normal((3, 3)))


@pytest.mark.parametrize("order", [0, 1, 2])
def test_derivatives_of_every_order_are_those_of_the_function(order: int) -> None:
    def derived(function: object) -> list[tf.Tensor]:
        x, w = inputs()
        with tf.GradientTape() as outer:
            outer.watch([x, w])
            with tf.GradientTape() as inner:
                inner.watch([x, w])
                total = tf.add_n([tf.reduce_sum(tf.sin(part)) for part in function(x, w)])  # type: ignore[operator]
            if order == 0:
                return [total]
            first = inner.gradient(total, [x, w])
            if order == 1:
                return list(first)
            second = tf.add_n([tf.reduce_sum(tf.sin(part)) for part in first])
        return list(outer.gradient(second, [x, w]))

    mine = tf.function(lambda: derived(compiled(loop)), autograph=False)()
    plain = tf.function(lambda: derived(loop), autograph=False)()
    for a, b in zip(mine, plain, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_one_backward_function_serves_all_cotangents() -> None:
    traces = []

    def counted(x: tf.Tensor, w: tf.Tensor) -> list[tf.Tensor]:
        traces.append(1)
        return loop(x, w)

    def gradients() -> list[tf.Tensor]:
        x, w = inputs()
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(w)
            parts = tf.unstack(compiled(counted)(x, w)[1])
        return [tape.gradient(part, w) for part in parts]

    tf.function(gradients, autograph=False)()
    assert len(traces) <= 3  # forward, and backward, which runs it again; not once for each of three cotangents
