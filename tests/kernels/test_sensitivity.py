"""Sensitivities, their estimates, guards and divergence, compared with NumPy twins."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.reference import measures
from tfsm.kernels import sensitivity
from tfsm.kernels import sensitivity as kernels
from tfsm.kernels.random import fold_in, root_seed
from tfsm.kernels.sensitivity import (
    abs_sensitivity,
    clip_change,
    divergence,
    estimate_rms_sensitivity,
    estimate_sum_sensitivity,
    guard_sensitivity,
    hessian_vector_product,
    rms_sensitivity,
    second_order_sensitivity,
    sum_sensitivity,
)


class GivenJacobian:
    """A network whose Jacobian is its input: `y_nrk = f(sum_p x_nrkp w_p)` for inputs `[B, N, R, K, P]`."""

    has_per_example_gradients = False

    def __init__(self, bend: Callable[[tf.Tensor], tf.Tensor] = tf.identity) -> None:
        self.bend = bend

    def rows(self, genomes: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor:
        y = self.bend(tf.einsum("bnrkp,bp->bnrk", inputs + tf.zeros_like(genomes)[:, None, None, None, :], genomes))
        return tf.reshape(y, [y.shape[0], -1, y.shape[-1]])

    def rows_per_example(self, genomes: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor:
        wide = tf.repeat(inputs, genomes.shape[0] // (inputs.shape[0] * inputs.shape[1]), axis=0)
        return self.rows(genomes, tf.reshape(wide, [-1, 1, *inputs.shape[2:]]))


def drawn(*shape: int, seed: int = 0) -> tf.Tensor:
    return tf.constant(np.random.default_rng(seed).standard_normal(shape))


def flat(inputs: tf.Tensor) -> np.ndarray:
    """Return one genome's Jacobian `[I, K, P]`."""
    return np.reshape(inputs, (-1, *inputs.shape[-2:]))


@pytest.mark.sample(3)
@pytest.mark.parametrize("outputs", [1, 3, 8, 9, 12])
@pytest.mark.parametrize("rows", [1, 4])
def test_a_network_of_given_jacobian_has_the_sensitivities_of_the_formulas(outputs: int, rows: int) -> None:
    genomes, inputs, direction = drawn(2, 5), drawn(2, 3, rows, outputs, 5, seed=1), drawn(2, 5, seed=2)
    for b in range(2):
        jacobian = flat(inputs[b])
        product = measures.hessian_product(jacobian, direction[b].numpy())
        for found, expected in (
            (sum_sensitivity(GivenJacobian(), genomes, inputs), measures.sum_sensitivity(jacobian)),
            (abs_sensitivity(GivenJacobian(), genomes, inputs), measures.abs_sensitivity(jacobian)),
            (rms_sensitivity(GivenJacobian(), genomes, inputs), measures.rms_sensitivity(jacobian)),
            (hessian_vector_product(GivenJacobian(), genomes, inputs, direction), product),
        ):
            np.testing.assert_allclose(found[b], expected, rtol=1e-10)


@pytest.mark.sample(2)
@pytest.mark.parametrize("outputs", [2, 11])
def test_the_loop_over_outputs_equals_the_unrolled_one(outputs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    genomes, inputs = drawn(2, 4), drawn(2, 3, 2, outputs, 4, seed=1)
    ways = []
    for limit in (0, 100):
        monkeypatch.setattr(sensitivity, "UNROLLED_OUTPUTS", limit)
        for kernel in (sum_sensitivity, abs_sensitivity):
            traced = tf.function(lambda g, x, kernel=kernel: kernel(GivenJacobian(tf.tanh), g, x), autograph=False)
            ways.append((traced(genomes, inputs).numpy(), kernel(GivenJacobian(tf.tanh), genomes, inputs).numpy()))
    for looped, unrolled in zip(ways[:2], ways[2:], strict=True):
        for found in (*looped, unrolled[0]):
            np.testing.assert_allclose(found, unrolled[1], rtol=1e-10)


def test_shared_inputs_apply_to_every_genome() -> None:
    genomes, inputs, direction = drawn(3, 4), drawn(1, 5, 1, 2, 4, seed=1), drawn(3, 4, seed=2)
    repeated, bent = tf.repeat(inputs, 3, axis=0), GivenJacobian(tf.tanh)
    for kernel, rest in ((sum_sensitivity, ()), (abs_sensitivity, ()), (hessian_vector_product, (direction,))):
        found, expected = kernel(bent, genomes, inputs, *rest), kernel(bent, genomes, repeated, *rest)
        np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_one_genome_is_measured_as_in_a_batch() -> None:
    genomes, inputs, direction = drawn(3, 4), drawn(3, 5, 2, 2, 4, seed=1), drawn(3, 4, seed=2)
    bent = GivenJacobian(tf.tanh)
    for kernel, rest in (
        (sum_sensitivity, ()),
        (abs_sensitivity, ()),
        (hessian_vector_product, (direction,)),
        (second_order_sensitivity, (direction,)),
    ):
        together = kernel(bent, genomes, inputs, *rest)
        alone = [kernel(bent, genomes[b], inputs[b], *(r[b] for r in rest)) for b in range(3)]
        assert alone[0].shape == (4,)
        np.testing.assert_allclose(together, alone, rtol=1e-10)


def test_second_order_sensitivity_is_the_root_of_the_absolute_product() -> None:
    genomes, inputs, direction = drawn(2, 4), drawn(2, 5, 1, 2, 4, seed=1), drawn(2, 4, seed=2)
    product = hessian_vector_product(GivenJacobian(), genomes, inputs, direction).numpy()
    assert product.min() < 0 < product.max()
    found = second_order_sensitivity(GivenJacobian(), genomes, inputs, direction)
    np.testing.assert_allclose(found, np.sqrt(np.abs(product)), rtol=1e-12)


def test_opposite_experiences_cancel_only_in_the_sum() -> None:
    inputs = tf.constant([[[100.0], [0.1]], [[-100.0], [-0.1]]], tf.float64)[
        None, :, None, None, :, 0
    ]  # [1, 2, 1, 1, 2]
    genome = tf.constant([[1.0, 1.0]], tf.float64)
    np.testing.assert_array_equal(sum_sensitivity(GivenJacobian(), genome, inputs), [[0.0, 0.0]])
    np.testing.assert_allclose(abs_sensitivity(GivenJacobian(), genome, inputs), [[100.0, 0.1]])


def test_outputs_that_do_not_depend_on_the_genome_have_no_sensitivity() -> None:
    constant = GivenJacobian(lambda y: tf.ones_like(y))
    genomes, inputs = drawn(2, 4), drawn(2, 5, 1, 2, 4, seed=1)
    for kernel, rest in ((sum_sensitivity, ()), (abs_sensitivity, ()), (hessian_vector_product, (genomes,))):
        np.testing.assert_array_equal(kernel(constant, genomes, inputs, *rest), np.zeros((2, 4)))


def test_the_product_is_the_curvature_of_the_divergence() -> None:
    bent = GivenJacobian(tf.tanh)
    genome, inputs, direction = drawn(1, 4), drawn(1, 6, 1, 3, 4, seed=1), drawn(1, 4, seed=2)
    before = bent.rows(genome, inputs)[0].numpy()

    def divergence(step: float) -> float:
        return measures.divergence(before, bent.rows(genome + step * direction, inputs)[0].numpy())

    h = 1e-3
    curvature = (divergence(h) - 2 * divergence(0.0) + divergence(-h)) / h**2
    along = tf.reduce_sum(direction * hessian_vector_product(bent, genome, inputs, direction))
    assert float(along) == pytest.approx(curvature, rel=1e-4)


ESTIMATES = {
    "rms": (estimate_rms_sensitivity, measures.rms_sensitivity),
    "sum": (estimate_sum_sensitivity, measures.sum_sensitivity),
}


def seeds(count: int) -> tf.Tensor:
    return fold_in(root_seed(7), tf.range(count))


@pytest.mark.parametrize("name", ESTIMATES)
def test_the_mean_over_all_signs_is_the_square_exactly(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    estimate, exact = ESTIMATES[name]
    genomes, inputs = drawn(1, 4), drawn(1, 2, 1, 2, 4, seed=1)
    size = 4 if name == "rms" else 2
    squares = []
    for signs in itertools.product([1.0, -1.0], repeat=size):
        monkeypatch.setattr(kernels, "_draw_signs", lambda *_, own=signs: tf.constant([own], tf.float64))
        squares.append(estimate(GivenJacobian(), genomes, inputs, seeds(1), probes=1)[0].numpy() ** 2)
    np.testing.assert_allclose(np.mean(squares, axis=0), exact(flat(inputs[0])) ** 2, rtol=1e-12)


@pytest.mark.parametrize("name", ESTIMATES)
@pytest.mark.parametrize("probes", [1, 3])
def test_drawn_signs_give_the_square_on_average(name: str, probes: int) -> None:
    estimate, exact = ESTIMATES[name]
    count = 4000
    genomes, inputs = tf.repeat(drawn(1, 3), count, axis=0), drawn(1, 3, 2, 4, 3, seed=1)
    found = estimate(GivenJacobian(), genomes, inputs, seeds(count), probes=probes).numpy() ** 2
    expected = exact(flat(inputs[0])) ** 2
    # The variance of a square of signs is at most twice the square of its mean: five standard errors.
    np.testing.assert_allclose(found.mean(axis=0), expected, rtol=5 * np.sqrt(2 / (count * probes)))


def test_one_output_is_estimated_exactly() -> None:
    genomes, inputs = drawn(2, 5), drawn(2, 4, 1, 1, 5, seed=1)
    found = estimate_sum_sensitivity(GivenJacobian(), genomes, inputs, seeds(2), probes=1)
    for b in range(2):
        np.testing.assert_allclose(found[b], measures.sum_sensitivity(flat(inputs[b])), rtol=1e-12)


def test_more_probes_are_the_root_mean_square_of_single_ones() -> None:
    genomes, inputs = drawn(2, 5), drawn(2, 3, 1, 4, 5, seed=1)
    single = []
    for i in range(3):
        own = tf.stack([fold_in(seed, i) for seed in seeds(2)])

        def signs(_: tf.Tensor, size: int, dtype: tf.DType, own: tf.Tensor = own) -> tf.Tensor:
            return SIGNS(own, size, dtype)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kernels, "_draw_signs", signs)
            single.append(estimate_rms_sensitivity(GivenJacobian(), genomes, inputs, seeds(2), probes=1).numpy())
    together = estimate_rms_sensitivity(GivenJacobian(), genomes, inputs, seeds(2), probes=3)
    np.testing.assert_allclose(together, np.sqrt(np.mean(np.square(single), axis=0)), rtol=1e-12)


SIGNS = kernels._draw_signs


def test_an_estimate_depends_on_its_own_seed_alone() -> None:
    genomes, inputs = drawn(3, 5), drawn(3, 3, 1, 4, 5, seed=1)
    together = estimate_rms_sensitivity(GivenJacobian(), genomes, inputs, seeds(3), probes=2)
    for b in range(3):
        alone = estimate_rms_sensitivity(GivenJacobian(), genomes[b], inputs[b], seeds(3)[b], probes=2)
        np.testing.assert_allclose(together[b], alone, rtol=1e-12)
    other = estimate_rms_sensitivity(GivenJacobian(), genomes, inputs, seeds(6)[3:], probes=2)
    assert not np.allclose(together, other)


def test_signs_are_plus_or_minus_one_with_equal_probability() -> None:
    found = SIGNS(root_seed(3), 10_000, tf.float32).numpy()
    assert set(found) == {-1.0, 1.0}
    assert abs(found.mean()) < 0.05  # five standard errors


POSITIVE = st.floats(1e-3, 1e3)


def test_zero_is_replaced_before_the_floor_is_applied() -> None:
    sensitivity = tf.constant([0.0, 0.001, 0.01, 0.5, 3.0])
    np.testing.assert_array_equal(guard_sensitivity(sensitivity, 1.0, 0.01), np.float32([1.0, 0.01, 0.01, 0.5, 3.0]))


def test_a_replacement_below_the_floor_is_raised_to_it() -> None:
    np.testing.assert_array_equal(guard_sensitivity(tf.constant([0.0]), 0.001, 0.25), [0.25])


def test_the_smallest_positive_sensitivity_is_not_zero() -> None:
    np.testing.assert_array_equal(guard_sensitivity(tf.constant([1e-30]), 1.0, 0.5), [0.5])


@settings(max_examples=50, deadline=None)
@given(st.lists(st.just(0.0) | st.floats(0, 1e6, allow_subnormal=False), min_size=1), POSITIVE, POSITIVE)
def test_guards_agree_with_the_twin(sensitivity: list[float], zero: float, floor: float) -> None:
    found = guard_sensitivity(tf.constant(sensitivity, tf.float64), zero, floor)
    np.testing.assert_array_equal(found, measures.guarded(np.array(sensitivity), zero, floor))


def test_no_weight_changes_by_more_than_the_maximum() -> None:
    change = tf.constant([-5.0, -0.2, -0.1, 0.0, 0.1, 0.2, 5.0])
    np.testing.assert_array_equal(clip_change(change, 0.2), np.float32([-0.2, -0.2, -0.1, 0.0, 0.1, 0.2, 0.2]))


def test_without_a_maximum_nothing_changes() -> None:
    change = tf.constant([-1e30, 1e30])
    assert clip_change(change, None) is change


ROWS = arrays(np.float64, (3, 4), elements=st.floats(-100, 100))


def test_outputs_are_summed_and_experiences_averaged() -> None:
    before, after = tf.zeros([5, 2]), tf.constant([[1.0, 2.0]] * 5)
    assert float(divergence(before, after)) == 5.0


@settings(max_examples=30, deadline=None)
@given(ROWS, ROWS)
def test_divergence_is_equation_1_of_the_paper(before: np.ndarray, after: np.ndarray) -> None:
    found = divergence(tf.constant(before), tf.constant(after))
    assert float(found) == pytest.approx(measures.divergence(before, after), rel=1e-12)


@settings(max_examples=30, deadline=None)
@given(ROWS, ROWS)
def test_divergence_is_symmetric_zero_for_equal_outputs_and_shift_invariant(
    before: np.ndarray, after: np.ndarray
) -> None:
    a, b = tf.constant(before), tf.constant(after)
    assert float(divergence(a, a)) == 0.0
    assert float(divergence(a, b)) == float(divergence(b, a))
    assert float(divergence(a + 1.0, b + 1.0)) == pytest.approx(float(divergence(a, b)), rel=1e-6, abs=1e-9)


def test_a_batch_diverges_genome_by_genome() -> None:
    before, after = np.random.default_rng(0).standard_normal((2, 7, 5, 3))
    together = divergence(tf.constant(before), tf.constant(after))
    np.testing.assert_allclose(together, [measures.divergence(b, a) for b, a in zip(before, after, strict=True)])


def test_values_that_are_not_finite_stay_so() -> None:
    for value in (np.nan, np.inf):
        assert not np.isfinite(divergence(tf.zeros([2, 2]), tf.constant([[0.0, value], [0.0, 0.0]])))
