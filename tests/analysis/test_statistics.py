""""""

from __future__ import annotations

from dataclasses import replace
from math import exp, log, sqrt
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analysis.cases import Z, draw_methods, make_logged_method, make_method
from tfsm.analysis import fitness_curve, newcombe_interval, solved_curve, summarize, wilson_interval
from tfsm.analysis.results import Method
from tfsm.errors import TfsmError

KINDS: list[Literal["kaplan-meier", "wilson"]] = ["kaplan-meier", "wilson"]


def test_a_run_that_stopped_early_counts_until_it_stopped() -> None:
    # Four runs until 10, where one is solved: 3/4 are left. Of the two that continue after 20 one is solved at 30:
    # 3/4 · 1/2 = 3/8 are left.
    curve = solved_curve(make_method(solved=[10, 30], failed=1, stopped=[20]), budget=100)
    assert curve.evaluations.tolist() == [0, 10, 20, 30, 100]
    np.testing.assert_allclose(curve.share, [0, 1 / 4, 1 / 4, 5 / 8, 5 / 8])


def test_the_interval_is_the_log_log_one() -> None:
    # Greenwood's sums are 1/(4 · 3) after the first solution and 1/12 + 1/(2 · 1) after the second.
    # The share left, S, has the ends S^exp(±z sqrt(sum) / |log S|).
    curve = solved_curve(make_method(solved=[10, 30], failed=1, stopped=[20]), budget=100)
    for point, left, greenwood in [(1, 3 / 4, 1 / 12), (3, 3 / 8, 7 / 12)]:
        wide = exp(Z * sqrt(greenwood) / abs(log(left)))
        assert curve.low[point] == pytest.approx(1 - left ** (1 / wide))
        assert curve.high[point] == pytest.approx(1 - left**wide)
    # The first of them in numbers: wide = exp(1.95996 · 0.288675 / 0.287682) = 7.1473.
    assert (curve.low[1], curve.high[1]) == pytest.approx((0.03945, 0.87205), abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_all_runs_failed(kind: Literal["kaplan-meier", "wilson"]) -> None:
    curve = solved_curve(make_method(failed=20), budget=100, kind=kind)
    assert curve.evaluations.tolist() == [0, 100]
    assert curve.share.tolist() == curve.low.tolist() == [0, 0]
    np.testing.assert_allclose(curve.high, Z**2 / (20 + Z**2))  # Wilson's of 0 of 20


@pytest.mark.parametrize("kind", KINDS)
def test_all_runs_solved(kind: Literal["kaplan-meier", "wilson"]) -> None:
    curve = solved_curve(make_method(solved=[40, 10, 10, 20]), budget=100, kind=kind)
    assert curve.evaluations.tolist() == [0, 10, 20, 40, 100]
    np.testing.assert_allclose(curve.share, [0, 0.5, 0.75, 1, 1])
    np.testing.assert_allclose(curve.low[-2:], 4 / (4 + Z**2))  # Wilson's of 4 of 4
    np.testing.assert_allclose(curve.high[-2:], 1)


@pytest.mark.parametrize("kind", KINDS)
def test_one_run(kind: Literal["kaplan-meier", "wilson"]) -> None:
    solved = solved_curve(make_method(solved=[10]), budget=100, kind=kind)
    assert solved.share.tolist() == [0, 1, 1]
    np.testing.assert_allclose(solved.low, [0, 1 / (1 + Z**2), 1 / (1 + Z**2)])
    np.testing.assert_allclose(solved.high, [Z**2 / (1 + Z**2), 1, 1])
    failed = solved_curve(make_method(failed=1), budget=100, kind=kind)
    assert failed.share.tolist() == [0, 0]


def test_without_a_solution_the_interval_widens_as_runs_stop() -> None:
    # Five runs continue until 20, then two.
    curve = solved_curve(make_method(failed=2, stopped=[20, 20, 20]), budget=100)
    assert curve.evaluations.tolist() == [0, 20, 100]
    np.testing.assert_allclose(curve.high, [Z**2 / (5 + Z**2), Z**2 / (2 + Z**2), Z**2 / (2 + Z**2)])


def test_all_runs_interrupted_at_once() -> None:
    curve = solved_curve(make_method(stopped=[30, 30]), budget=100)
    assert curve.evaluations.tolist() == [0, 30, 100]
    np.testing.assert_allclose(curve.high, Z**2 / (2 + Z**2))


def test_a_last_solution_after_many_stopped_is_worth_few_runs() -> None:
    # Half of 100 are solved at 10; 49 stop; the one that is left is solved, and stands for the other half: 1 / (1/2).
    curve = solved_curve(make_method(solved=[10] * 50 + [60], stopped=[40] * 49), budget=100)
    np.testing.assert_allclose(curve.share, [0, 0.5, 0.5, 1, 1])
    np.testing.assert_allclose(curve.low[-2:], 2 / (2 + Z**2))
    # Two thirds are left when one run continues: it is worth 1 1/2 runs, and counts as 1.
    fraction = solved_curve(make_method(solved=[10, 30], stopped=[20]), budget=100)
    np.testing.assert_allclose(fraction.low[-2:], 1 / (1 + Z**2))


def test_wilson_counts_runs_that_stopped_early_as_unsolved() -> None:
    curve = solved_curve(make_method(solved=[10, 30], failed=1, stopped=[20]), budget=100, kind="wilson")
    assert curve.evaluations.tolist() == [0, 10, 30, 100]
    np.testing.assert_allclose(curve.share, [0, 1 / 4, 1 / 2, 1 / 2])
    # 2 of 4: centre 1/2, half width z sqrt(1 + z²/4) / (4 + z²) = 1.95996 · 1.40011 / 7.84146 = 0.34996.
    assert (curve.low[-1], curve.high[-1]) == pytest.approx((0.15004, 0.84996), abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_solution_after_the_budget_does_not_count(kind: Literal["kaplan-meier", "wilson"]) -> None:
    curve = solved_curve(make_method(solved=[10, 50, 51, 90]), budget=50, kind=kind)
    assert curve.evaluations.tolist() == [0, 10, 50]
    np.testing.assert_allclose(curve.share, [0, 1 / 4, 1 / 2])


def test_a_curve_is_constant_beyond_the_budget_of_its_method() -> None:
    curve = solved_curve(make_method(solved=[10], failed=1, budget=100), budget=500)
    assert curve.evaluations.tolist() == [0, 10, 100, 500]
    np.testing.assert_allclose(curve.share, [0, 0.5, 0.5, 0.5])


@pytest.mark.parametrize("kind", KINDS)
def test_a_curve_of_no_runs_is_an_error(kind: Literal["kaplan-meier", "wilson"]) -> None:
    with pytest.raises(TfsmError, match="sm-r: no run has ended"):
        solved_curve(make_method(), budget=100, kind=kind)


@given(draw_methods(min_size=1), st.sampled_from(KINDS), st.sampled_from([0.5, 0.95, 0.999]))
def test_a_curve_rises_from_nothing_to_the_budget_within_its_interval(
    runs: Method, kind: Literal["kaplan-meier", "wilson"], confidence: float
) -> None:
    curve = solved_curve(runs, budget=20, kind=kind, confidence=confidence)
    assert (curve.evaluations[0], curve.share[0], curve.evaluations[-1]) == (0, 0, 20)
    assert (np.diff(curve.evaluations) > 0).all()
    assert (np.diff(curve.share) >= 0).all()
    assert ((curve.low >= 0) & (curve.low <= curve.share) & (curve.share <= curve.high) & (curve.high <= 1)).all()
    assert (curve.low < curve.high).all()


@given(draw_methods(min_size=1, stop_early=False))
def test_without_runs_that_stopped_early_both_kinds_are_the_share_solved_so_far(runs: Method) -> None:
    curve, plain = solved_curve(runs, budget=20), solved_curve(runs, budget=20, kind="wilson")
    for evaluations, share in zip(curve.evaluations, curve.share, strict=True):
        solved = sum(outcome.solved and outcome.evaluations <= evaluations for outcome in runs.outcomes)
        assert share == pytest.approx(solved / len(runs.outcomes))
    np.testing.assert_array_equal(curve.evaluations, plain.evaluations)
    np.testing.assert_allclose(curve.share, plain.share)
    if runs.solved in (0, len(runs.outcomes)):
        assert (curve.low[-1], curve.high[-1]) == wilson_interval(runs.solved, len(runs.outcomes))


def test_the_last_value_is_carried_forward_on_a_common_grid() -> None:
    # Known of both from 20 on. Run 0 ends at 40, run 1 continues:
    # at 20: 1 and 2; at 40: 3 and 2; at 60: 3 and 2; at 80: 3 and 6; at 100: 3 and 6.
    runs = make_logged_method({0: {10: 1, 40: 3}, 1: {20: 2, 70: 6}})
    curve = fitness_curve(runs, budget=100, points=5)
    assert curve.evaluations.tolist() == [20, 40, 60, 80, 100]
    np.testing.assert_allclose(curve.middle, [1.5, 2.5, 2.5, 4.5, 4.5])
    assert curve.count == 2


def test_two_runs_give_an_interval_from_one_to_the_other() -> None:
    # A quarter of all resamples is the smaller one twice and a quarter the larger one: more than 2.5% each.
    curve = fitness_curve(make_logged_method({0: {10: 1, 40: 3}, 1: {20: 2, 70: 6}}), budget=100, points=5)
    np.testing.assert_allclose(curve.low, [1, 2, 2, 3, 3])
    np.testing.assert_allclose(curve.high, [2, 3, 3, 6, 6])


def test_the_middle_is_the_mean_of_the_middle_half() -> None:
    # Of eight runs the two best and the two worst are left out: (3 + 4 + 5 + 7) / 4.
    values = [100, 1, 7, 3, 4, -50, 5, 8]
    curve = fitness_curve(make_logged_method({run: {10: value} for run, value in enumerate(values)}), budget=10)
    assert curve.evaluations.tolist() == [10]
    assert curve.middle.tolist() == [4.75]
    assert -50 < curve.low[0] < 4.75 < curve.high[0] < 100


def test_of_three_runs_the_middle_is_their_mean() -> None:
    curve = fitness_curve(make_logged_method({0: {1: 0}, 1: {1: 0}, 2: {1: 6}}), budget=1)
    assert curve.middle.tolist() == [2]


def test_a_single_run_is_its_own_interval() -> None:
    curve = fitness_curve(make_logged_method({4: {1: 0.1, 3: 0.7}}), budget=5)
    assert curve.evaluations.tolist() == [1, 2, 3, 4, 5]
    assert curve.middle.tolist() == curve.low.tolist() == curve.high.tolist() == [0.1, 0.1, 0.7, 0.7, 0.7]
    assert curve.count == 1


def test_runs_that_agree_are_their_own_interval() -> None:
    # Summed up and divided, seven times 0.1 would not be 0.1.
    curve = fitness_curve(make_logged_method({run: {1: 0.1} for run in range(7)}), budget=3)
    assert curve.middle.tolist() == curve.low.tolist() == curve.high.tolist() == [0.1, 0.1, 0.1]


def test_values_that_are_not_finite_are_unknown() -> None:
    # Run 1 is known from 30 on only; its later null changes nothing. Of run 2 nothing is ever known.
    runs = make_logged_method({0: {10: 1}, 1: {10: None, 30: 5, 40: None}, 2: {10: None, 50: float("nan")}})
    curve = fitness_curve(runs, budget=50, points=3)
    assert curve.evaluations.tolist() == [30, 40, 50]
    assert curve.middle.tolist() == [3, 3, 3]
    assert curve.count == 2


def test_records_out_of_order_and_twice_give_the_best_so_far() -> None:
    curve = fitness_curve(make_logged_method({0: {30: 2, 10: 1, 20: 3}}), budget=30, points=3)
    assert curve.middle.tolist() == [1, 3, 3]


@pytest.mark.parametrize("records", [{}, {0: {10: None}}, {0: {10: 1.0}, 1: {60: 1.0}}])
def test_a_run_without_a_fitness_is_an_error(records: dict[int, dict[int, float | None]]) -> None:
    with pytest.raises(TfsmError, match="sm-r: not all runs have a fitness within 50 evaluations"):
        fitness_curve(make_logged_method(records), budget=50)


def test_the_seed_decides_the_interval() -> None:
    rng = np.random.default_rng(1)
    runs = make_logged_method({run: {10: rng.normal(), 60: 2 + rng.normal()} for run in range(20)})
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
    curve = fitness_curve(make_logged_method({run: {1: value} for run, value in enumerate(values)}), budget=1)
    assert curve.high[0] - curve.low[0] == pytest.approx(2 * half, rel=0.15)


@settings(max_examples=20, deadline=None)
@given(
    st.dictionaries(
        st.integers(0, 6), st.dictionaries(st.integers(1, 9), st.floats(-1e6, 1e6), min_size=1), min_size=1, max_size=6
    )
)
def test_a_curve_lies_within_its_interval_and_between_the_runs(records: dict[int, dict[int, float | None]]) -> None:
    curve = fitness_curve(make_logged_method(records), budget=9, points=4)
    values = [value for known in records.values() for value in known.values() if value is not None]
    assert (curve.low <= curve.middle).all()
    assert (curve.middle <= curve.high).all()
    slack = 1e-9 * max(map(abs, values))
    assert curve.low.min() >= min(values) - slack
    assert curve.high.max() <= max(values) + slack


def test_wilson_of_half_the_runs() -> None:
    # Centre (10 + z²/2) / (20 + z²) = 0.5; half width z sqrt(10 · 10 / 20 + z²/4) / (20 + z²)
    # = 1.95996 · sqrt(5.96036) / 23.84146 = 0.20070.
    assert wilson_interval(10, 20) == pytest.approx((0.29930, 0.70070), abs=1e-5)


@pytest.mark.parametrize("runs", [1, 2, 20, 1_000])
def test_wilson_of_none_and_of_all(runs: int) -> None:
    # With k = 0 the centre and half of the width are z²/2 / (n + z²), with k = n it is the mirror image.
    assert wilson_interval(0, runs) == pytest.approx((0, Z**2 / (runs + Z**2)))
    assert wilson_interval(runs, runs) == pytest.approx((runs / (runs + Z**2), 1))


@given(st.integers(1, 200).flatmap(lambda runs: st.tuples(st.integers(0, runs), st.just(runs))), st.floats(0.01, 0.999))
def test_wilson_contains_the_share(counts: tuple[int, int], confidence: float) -> None:
    low, high = wilson_interval(*counts, confidence)
    assert 0 <= low <= counts[0] / counts[1] <= high <= 1


def test_newcombe_of_all_against_none() -> None:
    # Both Wilson intervals reach z²/(10 + z²) = 3.84146 / 13.84146 = 0.27753 inwards and not at all outwards:
    # 1 - sqrt(2) · 0.27753 = 0.60751.
    difference = newcombe_interval((10, 10), (0, 10))
    assert (difference.value, difference.low, difference.high) == pytest.approx((1, 0.60751, 1), abs=1e-5)


def test_newcombe_of_unequal_numbers_of_runs() -> None:
    # Wilson of 56/70: centre 57.92073 / 73.84146 = 0.78439, half width z sqrt(11.2 + 0.96036) / 73.84146 = 0.09256.
    # Wilson of 48/80: centre 49.92073 / 83.84146 = 0.59542, half width z sqrt(19.2 + 0.96036) / 83.84146 = 0.10496.
    # Limits 0.69183, 0.87695 and 0.49046, 0.70038.
    # 0.2 - sqrt(0.10817² + 0.10038²) = 0.2 - 0.14757, 0.2 + sqrt(0.07695² + 0.10954²) = 0.2 + 0.13387.
    difference = newcombe_interval((56, 70), (48, 80))
    assert (difference.value, difference.low, difference.high) == pytest.approx((0.2, 0.05243, 0.33387), abs=2e-5)


@given(st.integers(0, 9), st.integers(0, 7))
def test_newcombe_is_antisymmetric(first: int, second: int) -> None:
    one, other = newcombe_interval((first, 9), (second, 7)), newcombe_interval((second, 7), (first, 9))
    assert (one.value, one.low, one.high) == pytest.approx((-other.value, -other.high, -other.low))
    assert -1 <= one.low <= one.value <= one.high <= 1


def test_the_summary_of_a_method() -> None:
    summary = summarize(make_method(solved=[40, 10, 20], failed=2))
    assert (summary.name, summary.runs, summary.solved, summary.share) == ("sm-r", 5, 3, 0.6)
    # Centre (3 + z²/2) / (5 + z²) = 4.92073 / 8.84146 = 0.55655; half width z sqrt(1.2 + z²/4) / 8.84146 = 0.32583.
    assert summary.share_interval == pytest.approx((0.23072, 0.88238), abs=1e-5)
    assert summary.median_evaluations == 40  # 10 20 40 later later
    assert summary.mean_solved == pytest.approx(70 / 3)
    assert summary.median_solved == 20
    assert summary.median_best_fitness == 0.5


@pytest.mark.parametrize(
    ("solved", "failed", "median"),
    [
        ([10, 20, 30, 40], 0, 25),
        ([10, 20, 30], 1, 25),
        ([10, 20], 2, 20),  # by 20 half of the runs were solved
        ([10], 3, None),
        ([10, 20, 20, 20, 90], 0, 20),
        ([10, 20, 20, 90], 0, 20),
        ([10, 20], 1, 20),
        ([10], 2, None),
        ([10], 1, 10),
        ([10], 0, 10),
        ([], 1, None),
        ([], 4, None),
    ],
)
def test_the_median_counts_unsolved_runs_as_later(solved: list[int], failed: int, median: float | None) -> None:
    assert summarize(make_method(solved=solved, failed=failed)).median_evaluations == median


def test_a_solution_at_the_end_of_the_budget_comes_before_an_unsolved_run() -> None:
    assert summarize(make_method(solved=[100, 100, 100], failed=2)).median_evaluations == 100
    assert summarize(make_method(solved=[100, 100], failed=3)).median_evaluations is None


def test_a_run_that_stopped_early_is_later_than_every_solution() -> None:
    assert summarize(make_method(solved=[50, 60, 70], stopped=[5, 5])).median_evaluations == 70


def test_the_interval_of_the_median_from_order_statistics() -> None:
    # All six lie above the median with probability 1/64 < 2.5%, five or six with 7/64: the ends are the extremes.
    assert summarize(make_method(solved=[10, 20, 30, 40, 50, 60])).median_interval == (10, 60)
    # Of 20, at most five lie below with probability 0.0207, at most six with 0.0577: the 6th and the 15th.
    assert summarize(make_method(solved=[*range(1, 21)])).median_interval == (6, 15)


@pytest.mark.parametrize(
    ("solved", "failed", "interval"),
    [
        ([*range(1, 16)], 5, (6, 15)),
        ([*range(1, 15)], 6, (6, None)),
        ([*range(1, 7)], 14, (6, None)),
        ([*range(1, 6)], 15, (None, None)),
        ([], 20, (None, None)),
        ([7] * 20, 0, (7, 7)),
        ([1, 2, 3, 4, 5], 0, (None, None)),  # all five above: 1/32 is more than 2.5%
        ([1], 0, (None, None)),
    ],
)
def test_an_unknown_end_of_the_interval_is_none(
    solved: list[int], failed: int, interval: tuple[float | None, float | None]
) -> None:
    assert summarize(make_method(solved=solved, failed=failed)).median_interval == interval


def test_no_run_solved() -> None:
    summary = summarize(make_method(failed=20))
    assert (summary.solved, summary.share, summary.mean_solved, summary.median_solved) == (0, 0, None, None)
    assert summary.share_interval == pytest.approx((0, Z**2 / (20 + Z**2)))


def test_the_best_fitness_is_that_of_the_runs_where_it_is_finite() -> None:
    runs = make_method(failed=5)
    fitness = [3.0, None, 1.0, float("nan"), 8.0]
    known = tuple(replace(outcome, best_fitness=value) for outcome, value in zip(runs.outcomes, fitness, strict=True))
    assert summarize(replace(runs, outcomes=known)).median_best_fitness == 3
    unknown = tuple(replace(outcome, best_fitness=None) for outcome in runs.outcomes)
    assert summarize(replace(runs, outcomes=unknown)).median_best_fitness is None


def test_a_summary_of_no_runs_is_an_error() -> None:
    with pytest.raises(TfsmError, match="sm-r: no run has ended"):
        summarize(make_method())


@given(draw_methods(min_size=1))
def test_the_median_is_reached_if_half_were_solved_and_lies_within_its_interval(runs: Method) -> None:
    summary = summarize(runs)
    assert (summary.median_evaluations is not None) == (2 * summary.solved >= summary.runs)
    low, high = summary.median_interval
    if summary.median_evaluations is not None:
        assert low is None or low <= summary.median_evaluations
        assert high is None or summary.median_evaluations <= high
    assert summary.share_interval[0] <= summary.share <= summary.share_interval[1]
