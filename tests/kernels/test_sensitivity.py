from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from tests.reference import measures
from tfsm.kernels import sensitivity
from tfsm.kernels.sensitivity import (
    abs_sensitivity,
    hessian_product,
    rms_sensitivity,
    second_order_sensitivity,
    sum_sensitivity,
)


class Given:
    """A network whose Jacobian is its input: `y_nrk = f(sum_p x_nrkp w_p)` for inputs `[B, N, R, K, P]`."""

    tapped = False

    def __init__(self, bend: Callable[[tf.Tensor], tf.Tensor] = tf.identity) -> None:
        self.bend = bend

    def rows(self, genomes: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor:
        y = self.bend(tf.einsum("bnrkp,bp->bnrk", inputs + tf.zeros_like(genomes)[:, None, None, None, :], genomes))
        return tf.reshape(y, [y.shape[0], -1, y.shape[-1]])

    def rows_each(self, genomes: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor:
        wide = tf.repeat(inputs, genomes.shape[0] // (inputs.shape[0] * inputs.shape[1]), axis=0)
        return self.rows(genomes, tf.reshape(wide, [-1, 1, *inputs.shape[2:]]))


def drawn(*shape: int, seed: int = 0) -> tf.Tensor:
    return tf.constant(np.random.default_rng(seed).standard_normal(shape))


def flat(inputs: tf.Tensor) -> np.ndarray:
    """Return one genome's Jacobian `[I, K, P]`."""
    return np.reshape(inputs, (-1, *inputs.shape[-2:]))


@pytest.mark.parametrize("outputs", [1, 3, 8, 9, 12])
@pytest.mark.parametrize("rows", [1, 4])
def test_a_network_of_given_jacobian_has_the_sensitivities_of_the_formulas(outputs: int, rows: int) -> None:
    genomes, inputs, direction = drawn(2, 5), drawn(2, 3, rows, outputs, 5, seed=1), drawn(2, 5, seed=2)
    for b in range(2):
        jacobian = flat(inputs[b])
        product = measures.hessian_product(jacobian, direction[b].numpy())
        for found, expected in (
            (sum_sensitivity(Given(), genomes, inputs), measures.sum_sensitivity(jacobian)),
            (abs_sensitivity(Given(), genomes, inputs), measures.abs_sensitivity(jacobian)),
            (rms_sensitivity(Given(), genomes, inputs), measures.rms_sensitivity(jacobian)),
            (hessian_product(Given(), genomes, inputs, direction), product),
        ):
            np.testing.assert_allclose(found[b], expected, rtol=1e-10)


@pytest.mark.parametrize("outputs", [2, 11])
def test_the_loop_over_outputs_equals_the_unrolled_one(outputs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    genomes, inputs = drawn(2, 4), drawn(2, 3, 2, outputs, 4, seed=1)
    ways = []
    for limit in (0, 100):
        monkeypatch.setattr(sensitivity, "UNROLLED_OUTPUTS", limit)
        for kernel in (sum_sensitivity, abs_sensitivity):
            traced = tf.function(lambda g, x, kernel=kernel: kernel(Given(tf.tanh), g, x), autograph=False)
            ways.append((traced(genomes, inputs).numpy(), kernel(Given(tf.tanh), genomes, inputs).numpy()))
    for looped, unrolled in zip(ways[:2], ways[2:], strict=True):
        for found in (*looped, unrolled[0]):
            np.testing.assert_allclose(found, unrolled[1], rtol=1e-10)


def test_shared_inputs_are_seen_by_every_genome() -> None:
    genomes, inputs, direction = drawn(3, 4), drawn(1, 5, 1, 2, 4, seed=1), drawn(3, 4, seed=2)
    repeated, bent = tf.repeat(inputs, 3, axis=0), Given(tf.tanh)
    for kernel, rest in ((sum_sensitivity, ()), (abs_sensitivity, ()), (hessian_product, (direction,))):
        found, expected = kernel(bent, genomes, inputs, *rest), kernel(bent, genomes, repeated, *rest)
        np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_one_genome_is_measured_as_in_a_batch() -> None:
    genomes, inputs, direction = drawn(3, 4), drawn(3, 5, 2, 2, 4, seed=1), drawn(3, 4, seed=2)
    bent = Given(tf.tanh)
    for kernel, rest in (
        (sum_sensitivity, ()),
        (abs_sensitivity, ()),
        (hessian_product, (direction,)),
        (second_order_sensitivity, (direction,)),
    ):
        together = kernel(bent, genomes, inputs, *rest)
        alone = [kernel(bent, genomes[b], inputs[b], *(r[b] for r in rest)) for b in range(3)]
        assert alone[0].shape == (4,)
        np.testing.assert_allclose(together, alone, rtol=1e-10)


def test_second_order_sensitivity_is_the_root_of_the_absolute_product() -> None:
    genomes, inputs, direction = drawn(2, 4), drawn(2, 5, 1, 2, 4, seed=1), drawn(2, 4, seed=2)
    product = hessian_product(Given(), genomes, inputs, direction).numpy()
    assert product.min() < 0 < product.max()
    found = second_order_sensitivity(Given(), genomes, inputs, direction)
    np.testing.assert_allclose(found, np.sqrt(np.abs(product)), rtol=1e-12)


def test_opposite_experiences_wash_out_in_the_sum_and_only_there() -> None:
    inputs = tf.constant([[[100.0], [0.1]], [[-100.0], [-0.1]]], tf.float64)[
        None, :, None, None, :, 0
    ]  # [1, 2, 1, 1, 2]
    genome = tf.constant([[1.0, 1.0]], tf.float64)
    np.testing.assert_array_equal(sum_sensitivity(Given(), genome, inputs), [[0.0, 0.0]])
    np.testing.assert_allclose(abs_sensitivity(Given(), genome, inputs), [[100.0, 0.1]])


def test_outputs_that_do_not_depend_on_the_genome_have_no_sensitivity() -> None:
    constant = Given(lambda y: tf.ones_like(y))
    genomes, inputs = drawn(2, 4), drawn(2, 5, 1, 2, 4, seed=1)
    for kernel, rest in ((sum_sensitivity, ()), (abs_sensitivity, ()), (hessian_product, (genomes,))):
        np.testing.assert_array_equal(kernel(constant, genomes, inputs, *rest), np.zeros((2, 4)))


def test_the_product_is_the_curvature_of_the_divergence() -> None:
    bent = Given(tf.tanh)
    genome, inputs, direction = drawn(1, 4), drawn(1, 6, 1, 3, 4, seed=1), drawn(1, 4, seed=2)
    before = bent.rows(genome, inputs)[0].numpy()

    def divergence(step: float) -> float:
        return measures.divergence(before, bent.rows(genome + step * direction, inputs)[0].numpy())

    h = 1e-3
    curvature = (divergence(h) - 2 * divergence(0.0) + divergence(-h)) / h**2
    along = tf.reduce_sum(direction * hessian_product(bent, genome, inputs, direction))
    assert float(along) == pytest.approx(curvature, rel=1e-4)
