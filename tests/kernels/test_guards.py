from __future__ import annotations

import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference import measures
from tfsm.kernels.sensitivity import bounded, clipped

POSITIVE = st.floats(1e-3, 1e3)


def test_zero_is_replaced_before_the_floor_is_laid() -> None:
    sensitivity = tf.constant([0.0, 0.001, 0.01, 0.5, 3.0])
    np.testing.assert_array_equal(bounded(sensitivity, 1.0, 0.01), np.float32([1.0, 0.01, 0.01, 0.5, 3.0]))


def test_a_stand_in_below_the_floor_is_raised_to_it() -> None:
    np.testing.assert_array_equal(bounded(tf.constant([0.0]), 0.001, 0.25), [0.25])


def test_the_smallest_positive_sensitivity_is_not_zero() -> None:
    np.testing.assert_array_equal(bounded(tf.constant([1e-30]), 1.0, 0.5), [0.5])


@settings(max_examples=50, deadline=None)
@given(st.lists(st.just(0.0) | st.floats(0, 1e6, allow_subnormal=False), min_size=1), POSITIVE, POSITIVE)
def test_guards_agree_with_the_twin(sensitivity: list[float], zero: float, floor: float) -> None:
    found = bounded(tf.constant(sensitivity, tf.float64), zero, floor)
    np.testing.assert_array_equal(found, measures.guarded(np.array(sensitivity), zero, floor))


def test_no_weight_changes_by_more_than_the_most() -> None:
    change = tf.constant([-5.0, -0.2, -0.1, 0.0, 0.1, 0.2, 5.0])
    np.testing.assert_array_equal(clipped(change, 0.2), np.float32([-0.2, -0.2, -0.1, 0.0, 0.1, 0.2, 0.2]))


def test_without_a_most_nothing_is_touched() -> None:
    change = tf.constant([-1e30, 1e30])
    assert clipped(change, None) is change
