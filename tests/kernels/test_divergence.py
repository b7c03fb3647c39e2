from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.reference import measures
from tfsm.kernels.sensitivity import divergence

ROWS = arrays(np.float64, (3, 4), elements=st.floats(-100, 100))


def test_outputs_are_summed_and_experiences_averaged() -> None:
    before, after = tf.zeros([5, 2]), tf.constant([[1.0, 2.0]] * 5)
    assert float(divergence(before, after)) == 5.0


@settings(max_examples=30, deadline=None)
@given(ROWS, ROWS)
def test_it_is_the_papers_equation_1(before: np.ndarray, after: np.ndarray) -> None:
    found = divergence(tf.constant(before), tf.constant(after))
    assert float(found) == pytest.approx(measures.divergence(before, after), rel=1e-12)


@settings(max_examples=30, deadline=None)
@given(ROWS, ROWS)
def test_it_is_symmetric_zero_at_home_and_unmoved_by_a_common_shift(before: np.ndarray, after: np.ndarray) -> None:
    a, b = tf.constant(before), tf.constant(after)
    assert float(divergence(a, a)) == 0.0
    assert float(divergence(a, b)) == float(divergence(b, a))
    assert float(divergence(a + 1.0, b + 1.0)) == pytest.approx(float(divergence(a, b)), rel=1e-6, abs=1e-9)


def test_a_batch_diverges_genome_by_genome() -> None:
    before, after = np.random.default_rng(0).standard_normal((2, 7, 5, 3))
    together = divergence(tf.constant(before), tf.constant(after))
    np.testing.assert_allclose(together, [measures.divergence(b, a) for b, a in zip(before, after, strict=True)])


def test_what_is_not_finite_stays_so() -> None:
    for value in (np.nan, np.inf):
        assert not np.isfinite(divergence(tf.zeros([2, 2]), tf.constant([[0.0, value], [0.0, 0.0]])))
