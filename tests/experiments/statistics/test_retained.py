from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfsm.analysis import compare_retained, retained
from tfsm.errors import TfsmError

ANY = st.floats(allow_nan=False, allow_infinity=False)


def test_a_fraction_between_the_worst_and_the_parent() -> None:
    # From -10 up to 30 there are 40: 10 is half of the way, 30 all of it; beyond either end is clipped.
    children = np.array([10.0, 30.0, -10.0, 20.0, 50.0, -90.0])
    assert retained(30, children, worst=-10).tolist() == [0.5, 1, 0, 0.75, 1, 0]


def test_a_broken_child_retains_nothing() -> None:
    assert retained(2, np.array([np.nan, np.inf, -np.inf, 1]), worst=0).tolist() == [0, 0, 0, 0.5]


@pytest.mark.parametrize("worst", [3.0, 4.0])
def test_of_a_parent_no_better_than_the_worst_equal_children_retain_all(worst: float) -> None:
    assert retained(3, np.array([3.0, 2.0, 5.0, np.nan]), worst=worst).tolist() == [1, 0, 1, 0]


def test_shapes_stay() -> None:
    assert retained(1, np.zeros((3, 50)), worst=0).shape == (3, 50)
    assert retained(1, np.zeros(0), worst=0).shape == (0,)


@pytest.mark.parametrize(("parent", "worst"), [(math.nan, 0), (math.inf, 0), (1, -math.inf), (1, math.nan)])
def test_a_parent_or_worst_that_is_not_finite_is_told(parent: float, worst: float) -> None:
    with pytest.raises(TfsmError, match="must be finite numbers"):
        retained(parent, np.ones(2), worst)


@given(ANY, st.lists(st.floats()), ANY)
def test_always_between_nothing_and_all(parent: float, children: list[float], worst: float) -> None:
    kept = retained(parent, np.array([*children, parent]), worst)
    assert ((kept >= 0) & (kept <= 1)).all()
    assert kept[-1] == 1


def test_two_operators_are_compared_by_where_their_values_lie() -> None:
    # Apart without ties: 2 of C(8, 4) = 70 orders.
    verdict = compare_retained(np.array([0.9, 0.8, 0.95, 1.0]), np.array([0.1, 0.2, 0.3, 0.0]))
    assert (verdict.test, verdict.statistic) == ("Mann-Whitney U", 16)
    assert verdict.p == pytest.approx(2 / 70)


def test_operators_that_cannot_be_told_apart() -> None:
    tied = compare_retained(np.ones(20), np.ones(20))
    assert (tied.p, tied.note) == (1, "all values are tied")
    few = compare_retained(np.ones(1), np.zeros(20))
    assert (few.p, few.note) == (None, "needs two values or more on each side")


def test_values_that_are_not_finite_are_told() -> None:
    with pytest.raises(TfsmError, match="must be finite"):
        compare_retained(np.array([0.5, np.nan]), np.ones(2))
