from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.experiments.statistics.cases import logged
from tfsm.analysis import fitness_curve
from tfsm.errors import TfsmError


def test_the_last_value_is_carried_forward_on_a_common_grid() -> None:
    # Known of both from 20 on. Run 0 ends at 40, run 1 goes on:
    # at 20: 1 and 2; at 40: 3 and 2; at 60: 3 and 2; at 80: 3 and 6; at 100: 3 and 6.
    runs = logged({0: {10: 1, 40: 3}, 1: {20: 2, 70: 6}})
    curve = fitness_curve(runs, budget=100, points=5)
    assert curve.evaluations.tolist() == [20, 40, 60, 80, 100]
    np.testing.assert_allclose(curve.middle, [1.5, 2.5, 2.5, 4.5, 4.5])
    assert curve.count == 2


def test_two_runs_give_an_interval_from_one_to_the_other() -> None:
    # A quarter of all resamples is the smaller one twice and a quarter the larger one: more than 2.5% each.
    curve = fitness_curve(logged({0: {10: 1, 40: 3}, 1: {20: 2, 70: 6}}), budget=100, points=5)
    np.testing.assert_allclose(curve.low, [1, 2, 2, 3, 3])
    np.testing.assert_allclose(curve.high, [2, 3, 3, 6, 6])


def test_the_middle_is_the_mean_of_the_middle_half() -> None:
    # Of eight runs the two best and the two worst are left out: (3 + 4 + 5 + 7) / 4.
    values = [100, 1, 7, 3, 4, -50, 5, 8]
    curve = fitness_curve(logged({run: {10: value} for run, value in enumerate(values)}), budget=10)
    assert curve.evaluations.tolist() == [10]
    assert curve.middle.tolist() == [4.75]
    assert -50 < curve.low[0] < 4.75 < curve.high[0] < 100


def test_of_three_runs_the_middle_is_their_mean() -> None:
    curve = fitness_curve(logged({0: {1: 0}, 1: {1: 0}, 2: {1: 6}}), budget=1)
    assert curve.middle.tolist() == [2]


def test_a_single_run_is_its_own_interval() -> None:
    curve = fitness_curve(logged({4: {1: 0.1, 3: 0.7}}), budget=5)
    assert curve.evaluations.tolist() == [1, 2, 3, 4, 5]
    assert curve.middle.tolist() == curve.low.tolist() == curve.high.tolist() == [0.1, 0.1, 0.7, 0.7, 0.7]
    assert curve.count == 1


def test_runs_that_agree_are_their_own_interval() -> None:
    # Summed up and divided, seven times 0.1 would not be 0.1.
    curve = fitness_curve(logged({run: {1: 0.1} for run in range(7)}), budget=3)
    assert curve.middle.tolist() == curve.low.tolist() == curve.high.tolist() == [0.1, 0.1, 0.1]


def test_what_is_not_finite_is_not_known() -> None:
    # Run 1 is known from 30 on only; its later null changes nothing. Of run 2 nothing is ever known.
    runs = logged({0: {10: 1}, 1: {10: None, 30: 5, 40: None}, 2: {10: None, 50: float("nan")}})
    curve = fitness_curve(runs, budget=50, points=3)
    assert curve.evaluations.tolist() == [30, 40, 50]
    assert curve.middle.tolist() == [3, 3, 3]
    assert curve.count == 2


def test_records_out_of_order_and_twice_give_the_best_so_far() -> None:
    curve = fitness_curve(logged({0: {30: 2, 10: 1, 20: 3}}), budget=30, points=3)
    assert curve.middle.tolist() == [1, 3, 3]


@pytest.mark.parametrize("records", [{}, {0: {10: None}}, {0: {10: 1.0}, 1: {60: 1.0}}])
def test_nothing_known_of_all_runs_is_told(records: dict[int, dict[int, float | None]]) -> None:
    with pytest.raises(TfsmError, match="sm-r: there is no fitness of all runs within 50 evaluations"):
        fitness_curve(logged(records), budget=50)


def test_the_seed_decides_the_interval() -> None:
    rng = np.random.default_rng(1)
    runs = logged({run: {10: rng.normal(), 60: 2 + rng.normal()} for run in range(20)})
    one, again, other = (fitness_curve(runs, budget=100, seed=seed) for seed in (3, 3, 4))
    assert one.evaluations.size == 91  # one for each number of evaluations: there are fewer than 200 of them
    np.testing.assert_array_equal(one.low, again.low)
    np.testing.assert_array_equal(one.high, again.high)
    assert (one.low != other.low).any()


def test_the_interval_of_many_runs_is_that_of_a_trimmed_mean() -> None:
    # The interquartile mean of n normal numbers has the variance 4/n · (integral of x² over the middle half + q²/2)
    # with the quartile q = 0.67449: the integral is 1/2 - 2 q phi(q) = 0.5 - 1.34898 · 0.31778 = 0.07132, so that
    # n times the variance is 4 · (0.07132 + 0.22747) = 1.19515, and 95% lie within 1.96 · 1.0932 / sqrt(n).
    runs, half = 400, 1.95996 * 1.0932 / 20
    values = np.random.default_rng(0).normal(size=runs)
    curve = fitness_curve(logged({run: {1: value} for run, value in enumerate(values)}), budget=1)
    assert curve.high[0] - curve.low[0] == pytest.approx(2 * half, rel=0.15)


@settings(max_examples=20, deadline=None)
@given(
    st.dictionaries(
        st.integers(0, 6), st.dictionaries(st.integers(1, 9), st.floats(-1e6, 1e6), min_size=1), min_size=1, max_size=6
    )
)
def test_a_curve_lies_within_its_interval_and_between_the_runs(records: dict[int, dict[int, float | None]]) -> None:
    curve = fitness_curve(logged(records), budget=9, points=4)
    values = [value for known in records.values() for value in known.values() if value is not None]
    assert (curve.low <= curve.middle).all()
    assert (curve.middle <= curve.high).all()
    slack = 1e-9 * max(map(abs, values))
    assert curve.low.min() >= min(values) - slack
    assert curve.high.max() <= max(values) + slack
