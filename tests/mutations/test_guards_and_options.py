from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.mutations.cases import GRADIENT, case, children, noise_of, operator
from tests.mutations.test_closed_forms import simple
from tests.reference import measures
from tfsm.kernels.random import root_seed
from tfsm.models.network import Network

ONE = tf.constant([[[1.0, 1.0]]])
NETWORK = Network(simple())


def change(name: str, experience: tf.Tensor, intensity: float, seed: int = 1, **options: object) -> np.ndarray:
    """Return how the simple model's two weights change from zero."""
    return children(NETWORK, np.zeros((1, 2)), experience, name, intensity, [seed], **options).genome[0].numpy()


@pytest.mark.parametrize(("zero", "expected"), [(1.0, 1.0), (4.0, 4.0), (0.001, 0.01)])
def test_a_sensitivity_of_zero_is_replaced_and_then_kept_above_the_floor(zero: float, expected: float) -> None:
    nothing = tf.zeros([1, 3, 2])
    for name in GRADIENT:
        found = change(name, nothing, 0.5, zero=zero)
        np.testing.assert_allclose(found, 0.5 * noise_of(1, 2) / expected, rtol=1e-5)


def test_a_washed_out_sum_leaves_plain_noise() -> None:
    washout = tf.constant([[[1.0, 1.0], [-1.0, -1.0]]])
    np.testing.assert_allclose(change("sm-g-sum", washout, 0.5), 0.5 * noise_of(1, 2), rtol=1e-5)
    np.testing.assert_allclose(change("sm-g-abs", washout, 0.5), 0.5 * noise_of(1, 2) / [100, 0.1], rtol=1e-5)


@pytest.mark.parametrize(("floor", "divisors"), [(0.01, [100.0, 0.1]), (0.5, [100.0, 0.5]), (500.0, [500.0, 500.0])])
def test_no_sensitivity_counts_for_less_than_the_floor(floor: float, divisors: list[float]) -> None:
    for name in ("sm-g-sum", "sm-g-abs", "sm-g-rms"):
        found = change(name, ONE, 0.5, floor=floor)
        np.testing.assert_allclose(found, 0.5 * noise_of(1, 2) / divisors, rtol=1e-5)


def test_no_weight_changes_by_more_than_max_change() -> None:
    free = np.stack([change("sm-g-abs", ONE, 0.5, seed) for seed in range(10)])
    held = np.stack([change("sm-g-abs", ONE, 0.5, seed, max_change=0.2) for seed in range(10)])
    assert np.abs(free).max() > 1
    assert np.abs(held).max() == pytest.approx(0.2)
    np.testing.assert_array_equal(held, np.clip(free, -0.2, 0.2).astype(np.float32))


def test_a_unit_direction_makes_the_second_order_child_proportional_to_its_intensity() -> None:
    small, large = (change("sm-g-so", ONE, intensity, floor=1e-9) for intensity in (0.01, 0.04))
    np.testing.assert_allclose(large, 4 * small, rtol=1e-5)


def test_a_direction_as_it_is_makes_the_second_order_child_grow_with_the_root_of_its_intensity() -> None:
    options = {"unit_direction": False, "floor": 1e-9}
    small, large = (change("sm-g-so", ONE, intensity, **options) for intensity in (0.01, 0.04))
    np.testing.assert_allclose(large, 2 * small, rtol=1e-5)


@pytest.mark.parametrize("unit", [True, False])
def test_the_second_order_child_is_the_twins_whatever_the_direction(unit: bool) -> None:
    of, intensity = case("dense"), 0.3
    noise = intensity * noise_of(5, len(of.genome))
    direction = noise / np.linalg.norm(noise) if unit else noise
    expected = measures.child(of.genome, noise, measures.so_sensitivity(of.jacobian, direction))
    given_options = {"unit_direction": unit}
    found = children(of.network, of.genome[None], of.inputs[None], "sm-g-so", intensity, [5], **given_options)
    np.testing.assert_allclose(found.genome[0], expected, rtol=1e-4, atol=1e-5)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**62), st.floats(1e-4, 10), st.sampled_from(GRADIENT))
def test_the_change_is_noise_over_a_guarded_sensitivity_for_any_seed(seed: int, intensity: float, name: str) -> None:
    noise = intensity * noise_of(seed, 2)
    jacobian = np.array([[[100.0, 0.0], [0.0, 0.1]]])
    s = {
        "sm-g-sum": measures.sum_sensitivity(jacobian),
        "sm-g-abs": measures.abs_sensitivity(jacobian),
        "sm-g-so": measures.so_sensitivity(jacobian, noise / np.linalg.norm(noise)),
        "sm-g-rms": measures.rms_sensitivity(jacobian),
    }[name]
    found = change(name, ONE, intensity, seed)
    np.testing.assert_allclose(found, measures.child(np.zeros(2), noise, s), rtol=1e-4)


def test_experiences_are_sampled_by_number_and_with_replacement_where_asked() -> None:
    # Each experience makes the first weight as sensitive as its own power of two, so that sums tell which were drawn.
    powers = 2.0 ** np.arange(10)
    experience = tf.constant(np.stack([powers / 100, np.zeros(10)], axis=-1)[None], tf.float32)

    def drawn(seed: int, **options: object) -> float:
        return float(0.5 * noise_of(seed, 2)[0] / change("sm-g-sum", experience, 0.5, seed, **options)[0])

    for seed in range(5):
        assert drawn(seed) == pytest.approx(1023, rel=1e-4)
        three = round(drawn(seed, experiences=3))
        assert bin(three).count("1") == 3
    sums = {round(drawn(seed, experiences=3)) for seed in range(5)}
    assert len(sums) > 1
    repeats = [round(drawn(seed, experiences=10, replacement=True)) for seed in range(5)]
    assert all(total != 1023 for total in repeats)


def test_an_operator_is_what_its_options_say() -> None:
    assert operator("sm-g-abs", floor=0.5) == operator("sm-g-abs", floor=0.5)
    assert operator("sm-g-abs", floor=0.5) != operator("sm-g-abs")


@pytest.mark.parametrize("name", ["sm-g-sum", "sm-g-abs", "sm-g-rms"])
def test_a_child_of_a_known_sensitivity_is_the_child_of_a_call(name: str) -> None:
    of, part = case("dense"), operator(name, max_change=0.5)
    parent, seen, seed = tf.constant(of.genome[None]), tf.constant(of.inputs[None]), root_seed(4)[None]
    strength = tf.constant(0.1, tf.float64)
    known = part.sensitivity(of.network, parent, seen, parent)
    called = part(of.network, parent, seen, strength, seed)
    np.testing.assert_array_equal(part.child(of.network, parent, known, strength, seed), called)


def test_a_sensitivity_is_reused_only_where_it_is_the_same_for_every_child() -> None:
    network = case("dense").network
    for name in ("sm-g-sum", "sm-g-abs", "sm-g-rms"):
        assert operator(name, experiences=16).reusable(network, 16)
        assert operator(name, experiences=16).reusable(network, 5)
        assert not operator(name, experiences=16).reusable(network, 17)
        assert not operator(name, experiences=16, replacement=True).reusable(network, 16)
    assert not operator("sm-g-so", experiences=16).reusable(network, 16)
    for name in ("sm-g-sum", "sm-g-rms"):
        assert not operator(name, probes=1).reusable(network, 16)  # other signs for every child
