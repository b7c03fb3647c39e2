from __future__ import annotations

from math import exp, log, sqrt
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.experiments.statistics.cases import Z, method, methods
from tfsm.analysis import solved_curve, wilson
from tfsm.analysis.results import Method
from tfsm.errors import TfsmError

KINDS: list[Literal["kaplan-meier", "wilson"]] = ["kaplan-meier", "wilson"]


def test_a_run_that_stopped_early_counts_for_as_long_as_it_went_on() -> None:
    # Four runs until 10, where one is solved: 3/4 are left. Of the two that go on after 20 one is solved at 30:
    # 3/4 · 1/2 = 3/8 are left.
    curve = solved_curve(method(solved=[10, 30], failed=1, stopped=[20]), budget=100)
    assert curve.evaluations.tolist() == [0, 10, 20, 30, 100]
    np.testing.assert_allclose(curve.share, [0, 1 / 4, 1 / 4, 5 / 8, 5 / 8])


def test_the_interval_is_the_log_log_one() -> None:
    # Greenwood's sums are 1/(4 · 3) after the first solution and 1/12 + 1/(2 · 1) after the second.
    # The share left, S, has the ends S^exp(±z sqrt(sum) / |log S|).
    curve = solved_curve(method(solved=[10, 30], failed=1, stopped=[20]), budget=100)
    for point, left, greenwood in [(1, 3 / 4, 1 / 12), (3, 3 / 8, 7 / 12)]:
        wide = exp(Z * sqrt(greenwood) / abs(log(left)))
        assert curve.low[point] == pytest.approx(1 - left ** (1 / wide))
        assert curve.high[point] == pytest.approx(1 - left**wide)
    # The first of them in numbers: wide = exp(1.95996 · 0.288675 / 0.287682) = 7.1473.
    assert (curve.low[1], curve.high[1]) == pytest.approx((0.03945, 0.87205), abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_all_runs_failed(kind: Literal["kaplan-meier", "wilson"]) -> None:
    curve = solved_curve(method(failed=20), budget=100, kind=kind)
    assert curve.evaluations.tolist() == [0, 100]
    assert curve.share.tolist() == curve.low.tolist() == [0, 0]
    np.testing.assert_allclose(curve.high, Z**2 / (20 + Z**2))  # Wilson's of 0 of 20


@pytest.mark.parametrize("kind", KINDS)
def test_all_runs_solved(kind: Literal["kaplan-meier", "wilson"]) -> None:
    curve = solved_curve(method(solved=[40, 10, 10, 20]), budget=100, kind=kind)
    assert curve.evaluations.tolist() == [0, 10, 20, 40, 100]
    np.testing.assert_allclose(curve.share, [0, 0.5, 0.75, 1, 1])
    np.testing.assert_allclose(curve.low[-2:], 4 / (4 + Z**2))  # Wilson's of 4 of 4
    np.testing.assert_allclose(curve.high[-2:], 1)


@pytest.mark.parametrize("kind", KINDS)
def test_one_run(kind: Literal["kaplan-meier", "wilson"]) -> None:
    solved = solved_curve(method(solved=[10]), budget=100, kind=kind)
    assert solved.share.tolist() == [0, 1, 1]
    np.testing.assert_allclose(solved.low, [0, 1 / (1 + Z**2), 1 / (1 + Z**2)])
    np.testing.assert_allclose(solved.high, [Z**2 / (1 + Z**2), 1, 1])
    failed = solved_curve(method(failed=1), budget=100, kind=kind)
    assert failed.share.tolist() == [0, 0]


def test_without_a_solution_the_interval_widens_as_runs_stop() -> None:
    # Five runs go on until 20, then two.
    curve = solved_curve(method(failed=2, stopped=[20, 20, 20]), budget=100)
    assert curve.evaluations.tolist() == [0, 20, 100]
    np.testing.assert_allclose(curve.high, [Z**2 / (5 + Z**2), Z**2 / (2 + Z**2), Z**2 / (2 + Z**2)])


def test_all_runs_interrupted_at_once() -> None:
    curve = solved_curve(method(stopped=[30, 30]), budget=100)
    assert curve.evaluations.tolist() == [0, 30, 100]
    np.testing.assert_allclose(curve.high, Z**2 / (2 + Z**2))


def test_a_last_solution_after_many_stopped_is_worth_few_runs() -> None:
    # Half of 100 are solved at 10; 49 stop; the one that is left is solved, and stands for the other half: 1 / (1/2).
    curve = solved_curve(method(solved=[10] * 50 + [60], stopped=[40] * 49), budget=100)
    np.testing.assert_allclose(curve.share, [0, 0.5, 0.5, 1, 1])
    np.testing.assert_allclose(curve.low[-2:], 2 / (2 + Z**2))
    # Two thirds are left when one run goes on: it is worth 1 1/2 runs, and counts as 1.
    fraction = solved_curve(method(solved=[10, 30], stopped=[20]), budget=100)
    np.testing.assert_allclose(fraction.low[-2:], 1 / (1 + Z**2))


def test_wilson_counts_runs_that_stopped_early_as_unsolved() -> None:
    curve = solved_curve(method(solved=[10, 30], failed=1, stopped=[20]), budget=100, kind="wilson")
    assert curve.evaluations.tolist() == [0, 10, 30, 100]
    np.testing.assert_allclose(curve.share, [0, 1 / 4, 1 / 2, 1 / 2])
    # 2 of 4: centre 1/2, half width z sqrt(1 + z²/4) / (4 + z²) = 1.95996 · 1.40011 / 7.84146 = 0.34996.
    assert (curve.low[-1], curve.high[-1]) == pytest.approx((0.15004, 0.84996), abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_solution_after_the_budget_is_none(kind: Literal["kaplan-meier", "wilson"]) -> None:
    curve = solved_curve(method(solved=[10, 50, 51, 90]), budget=50, kind=kind)
    assert curve.evaluations.tolist() == [0, 10, 50]
    np.testing.assert_allclose(curve.share, [0, 1 / 4, 1 / 2])


def test_a_method_of_a_smaller_budget_stays_as_it_was() -> None:
    curve = solved_curve(method(solved=[10], failed=1, budget=100), budget=500)
    assert curve.evaluations.tolist() == [0, 10, 100, 500]
    np.testing.assert_allclose(curve.share, [0, 0.5, 0.5, 0.5])


@pytest.mark.parametrize("kind", KINDS)
def test_no_runs_are_told(kind: Literal["kaplan-meier", "wilson"]) -> None:
    with pytest.raises(TfsmError, match="sm-r: no run has ended"):
        solved_curve(method(), budget=100, kind=kind)


@given(methods(min_size=1), st.sampled_from(KINDS), st.sampled_from([0.5, 0.95, 0.999]))
def test_a_curve_rises_from_nothing_to_the_budget_within_its_interval(
    runs: Method, kind: Literal["kaplan-meier", "wilson"], confidence: float
) -> None:
    curve = solved_curve(runs, budget=20, kind=kind, confidence=confidence)
    assert (curve.evaluations[0], curve.share[0], curve.evaluations[-1]) == (0, 0, 20)
    assert (np.diff(curve.evaluations) > 0).all()
    assert (np.diff(curve.share) >= 0).all()
    assert ((curve.low >= 0) & (curve.low <= curve.share) & (curve.share <= curve.high) & (curve.high <= 1)).all()
    assert (curve.low < curve.high).all()


@given(methods(min_size=1, stop_early=False))
def test_without_runs_that_stopped_early_both_kinds_are_the_share_solved_so_far(runs: Method) -> None:
    curve, plain = solved_curve(runs, budget=20), solved_curve(runs, budget=20, kind="wilson")
    for evaluations, share in zip(curve.evaluations, curve.share, strict=True):
        solved = sum(outcome.solved and outcome.evaluations <= evaluations for outcome in runs.outcomes)
        assert share == pytest.approx(solved / len(runs.outcomes))
    np.testing.assert_array_equal(curve.evaluations, plain.evaluations)
    np.testing.assert_allclose(curve.share, plain.share)
    if runs.solved in (0, len(runs.outcomes)):
        assert (curve.low[-1], curve.high[-1]) == wilson(runs.solved, len(runs.outcomes))
