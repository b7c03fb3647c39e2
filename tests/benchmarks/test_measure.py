"""Timing and its statistics, on synthetic numbers."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.measure import (
    Effort,
    Failure,
    Quartiles,
    Timing,
    compute_quartiles,
    compute_rate,
    compute_ratio,
    fit_power_law,
    interleave,
    require_timing,
)

QUICK = Effort(quick=True, repetitions=3, seconds=1e-4, max_seconds=1.0)


def test_quartiles_include_the_median() -> None:
    assert compute_quartiles([5.0, 1.0, 2.0, 4.0, 3.0]) == Quartiles(3.0, 2.0, 4.0, 5)


def test_quartiles_of_no_values_are_an_error() -> None:
    with pytest.raises(ValueError, match="no samples"):
        compute_quartiles([])


def test_a_rate_is_work_per_time() -> None:
    assert compute_rate([0.5, 0.5], 10.0).median == 20.0


def test_a_ratio_pairs_neighbors_so_that_a_common_disturbance_cancels() -> None:
    disturbance = [1.0, 7.0, 2.0]
    assert compute_ratio([3.0 * d for d in disturbance], [2.0 * d for d in disturbance]) == Quartiles(1.5, 1.5, 1.5, 3)


@given(exponent=st.floats(-2, 3), factor=st.floats(1e-3, 1e3))
def test_a_power_law_is_recovered(exponent: float, factor: float) -> None:
    x = [10.0, 100.0, 1000.0]
    fit = fit_power_law(x, [factor * value**exponent for value in x])
    assert fit.exponent == pytest.approx(exponent, abs=1e-6)
    assert fit.factor == pytest.approx(factor, rel=1e-4)


@pytest.mark.parametrize(("x", "y"), [([1, 2], [1]), ([3, 3], [1, 2]), ([], [])])
def test_a_power_law_needs_two_sizes(x: list[float], y: list[float]) -> None:
    with pytest.raises(ValueError, match="at least two"):
        fit_power_law(x, y)


def test_candidates_are_measured_alternately() -> None:
    order: list[str] = []
    effort = Effort(quick=True, repetitions=3, seconds=0.0, max_seconds=1.0)
    interleave({name: lambda name=name: order.append(name) for name in "ab"}, effort)
    warm_up = 3
    assert order[2 * warm_up :] == ["a", "b"] * 3
    assert [name for name, _ in itertools.groupby(order[: 2 * warm_up])] == ["a", "b"]


def test_a_candidate_that_fails_does_not_stop_the_others() -> None:
    def fails() -> None:
        raise RuntimeError("out of luck")

    results = interleave({"good": lambda: None, "bad": fails}, QUICK)
    assert isinstance(results["good"], Timing)
    assert results["bad"] == Failure("RuntimeError: out of luck")
    with pytest.raises(RuntimeError, match="bad failed: RuntimeError: out of luck"):
        require_timing(results, "bad")


def test_a_ratio_of_unequal_numbers_of_repetitions_uses_the_pairs_there_are() -> None:
    assert compute_ratio([4.0, 6.0], [2.0, 2.0, 2.0]).samples == 2


def test_a_power_law_reports_its_fit() -> None:
    assert fit_power_law([1, 10, 100], [1, 10, 100]).explained == pytest.approx(1.0)
    assert fit_power_law([1, 10, 100], [1, 50, 1]).explained < 0.1
