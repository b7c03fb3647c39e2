from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from tests.experiments.statistics.cases import Z, method, methods
from tfsm.analysis import summarize
from tfsm.analysis.results import Method
from tfsm.errors import TfsmError


def test_a_method_in_numbers() -> None:
    summary = summarize(method(solved=[40, 10, 20], failed=2))
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
    assert summarize(method(solved=solved, failed=failed)).median_evaluations == median


def test_a_solution_at_the_end_of_the_budget_comes_before_an_unsolved_run() -> None:
    assert summarize(method(solved=[100, 100, 100], failed=2)).median_evaluations == 100
    assert summarize(method(solved=[100, 100], failed=3)).median_evaluations is None


def test_a_run_that_stopped_early_is_later_than_every_solution() -> None:
    assert summarize(method(solved=[50, 60, 70], stopped=[5, 5])).median_evaluations == 70


def test_the_interval_of_the_median_from_order_statistics() -> None:
    # All six lie above the median with probability 1/64 < 2.5%, five or six with 7/64: the ends are the extremes.
    assert summarize(method(solved=[10, 20, 30, 40, 50, 60])).median_interval == (10, 60)
    # Of 20, at most five lie below with probability 0.0207, at most six with 0.0577: the 6th and the 15th.
    assert summarize(method(solved=[*range(1, 21)])).median_interval == (6, 15)


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
def test_an_end_of_the_interval_is_nothing_where_it_is_not_known(
    solved: list[int], failed: int, interval: tuple[float | None, float | None]
) -> None:
    assert summarize(method(solved=solved, failed=failed)).median_interval == interval


def test_no_run_solved() -> None:
    summary = summarize(method(failed=20))
    assert (summary.solved, summary.share, summary.mean_solved, summary.median_solved) == (0, 0, None, None)
    assert summary.share_interval == pytest.approx((0, Z**2 / (20 + Z**2)))


def test_the_best_fitness_is_that_of_the_runs_where_it_is_finite() -> None:
    runs = method(failed=5)
    fitness = [3.0, None, 1.0, float("nan"), 8.0]
    known = tuple(replace(outcome, best_fitness=value) for outcome, value in zip(runs.outcomes, fitness, strict=True))
    assert summarize(replace(runs, outcomes=known)).median_best_fitness == 3
    unknown = tuple(replace(outcome, best_fitness=None) for outcome in runs.outcomes)
    assert summarize(replace(runs, outcomes=unknown)).median_best_fitness is None


def test_no_runs_are_told() -> None:
    with pytest.raises(TfsmError, match="sm-r: no run has ended"):
        summarize(method())


@given(methods(min_size=1))
def test_the_median_is_reached_if_half_were_solved_and_lies_within_its_interval(runs: Method) -> None:
    summary = summarize(runs)
    assert (summary.median_evaluations is not None) == (2 * summary.solved >= summary.runs)
    low, high = summary.median_interval
    if summary.median_evaluations is not None:
        assert low is None or low <= summary.median_evaluations
        assert high is None or summary.median_evaluations <= high
    assert summary.share_interval[0] <= summary.share <= summary.share_interval[1]
