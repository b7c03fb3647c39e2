from __future__ import annotations

from math import inf, sqrt

import pytest

from tests.experiments.statistics.cases import two_sided
from tfsm.analysis.significance import barnard, log_rank, mann_whitney


def test_mann_whitney_without_ties() -> None:
    # All of the first before all of the second: one of the C(8, 4) = 70 orders, and another one on the other side.
    verdict = mann_whitney([1, 2, 3, 4], [5, 6, 7, 8])
    assert (verdict.test, verdict.statistic, verdict.note) == ("Mann-Whitney U", 0, "")
    assert verdict.p == pytest.approx(2 / 70)


def test_mann_whitney_of_few_with_ties_is_exact() -> None:
    # One of the C(6, 3) = 20 ways to deal three values and three ties has all ties on the second side, and one on
    # the first; the normal approximation would say 0.064.
    verdict = mann_whitney([1, 2, 3], [inf, inf, inf])
    assert verdict.statistic == 0
    assert verdict.p == pytest.approx(2 / 20)
    # Dealing 1, 2, 2, 3 two and two, the first gets 1 and 2 in two of six ways (U = 0.5, the least), and in two
    # 2 and 3, the most.
    assert mann_whitney([1, 2], [2, 3]).p == pytest.approx(2 * 2 / 6)
    assert mann_whitney([1, 2], [2, 3]).statistic == 0.5


def test_mann_whitney_of_many_with_ties_is_normal() -> None:
    # U is 0 where 200 is expected. Its variance is 20 · 20 / 12 · (41 - (10³ - 10) / (40 · 39)) = 1345.51, and with the
    # correction for continuity z = 199.5 / 36.6812 = 5.4388.
    verdict = mann_whitney([*range(1, 21)], [*range(21, 31)] + [inf] * 10)
    variance = 400 / 12 * (41 - 990 / 1560)
    assert verdict.statistic == 0
    assert verdict.p == pytest.approx(two_sided(199.5 / sqrt(variance)))


def test_mann_whitney_where_all_are_tied() -> None:
    verdict = mann_whitney([inf, inf, inf], [inf, inf])
    assert (verdict.statistic, verdict.p, verdict.note) == (3, 1, "all runs are tied")


@pytest.mark.parametrize(("first", "second"), [([], []), ([1], [2, 3]), ([1, 2], []), ([1], [1])])
def test_mann_whitney_of_too_few(first: list[float], second: list[float]) -> None:
    verdict = mann_whitney(first, second, what="solved runs")
    assert (verdict.statistic, verdict.p) == (None, None)
    assert verdict.note == "needs two solved runs or more on each side"


def test_barnard_by_hand() -> None:
    # p is worked out in test_barnard.py; the score is 1 / sqrt(1/4 · (1/2 + 1/2)).
    verdict = barnard((2, 2), (0, 2))
    assert (verdict.statistic, verdict.note) == (2, "")
    assert verdict.p == pytest.approx(1 / 8)


def test_barnard_of_equal_shares() -> None:
    verdict = barnard((1, 2), (2, 4))
    assert (verdict.statistic, verdict.p, verdict.note) == (0, 1, "")


@pytest.mark.parametrize(("solved", "note"), [(0, "no solved runs"), (5, "all runs solved on both sides")])
def test_barnard_where_nothing_can_differ(solved: int, note: str) -> None:
    verdict = barnard((solved, 5), (solved, 5))
    assert (verdict.statistic, verdict.p, verdict.note) == (None, 1, note)


@pytest.mark.parametrize(("first", "second"), [((1, 1), (0, 20)), ((3, 5), (0, 0))])
def test_barnard_of_too_few(first: tuple[int, int], second: tuple[int, int]) -> None:
    assert barnard(first, second).p is None
    assert barnard(first, second).note == "needs two runs or more on each side"


# At 1 two of four runs are the first's: 1/2 of a solution is expected of it, with the variance 1/2 · 1/2.
# At 2 one of three: 1/3, with 1/3 · 2/3. Later none is left of the first. Two were solved.
Z = (2 - 1 / 2 - 1 / 3) / sqrt(1 / 4 + 2 / 9)


@pytest.mark.parametrize("second", [([3, 4], [True, True]), ([100, 100], [False, False]), ([2, 50], [False, False])])
def test_log_rank_counts_runs_as_long_as_they_went_on(second: tuple[list[int], list[bool]]) -> None:
    verdict = log_rank(([1, 2], [True, True]), second)
    assert verdict.statistic == pytest.approx(Z)
    assert verdict.p == pytest.approx(two_sided(Z))


def test_log_rank_with_ties_and_a_run_that_stopped_early() -> None:
    # At 5 six runs, three of each side, and two solutions, one of each: 1 expected of the first,
    # variance 2 · 3/6 · 3/6 · (6 - 2)/(6 - 1) = 2/5. The first's second run stops at 6. At 7 one of three is the
    # first's: 1/3 expected, variance 2/9; it is the second's that is solved. At 9 one of two: 1/2, variance 1/4; again.
    first, second = ([5, 6, 10], [True, False, False]), ([5, 7, 9], [True, True, True])
    z = (1 - 1 - 1 / 3 - 1 / 2) / sqrt(2 / 5 + 2 / 9 + 1 / 4)
    assert log_rank(first, second).statistic == pytest.approx(z)
    assert log_rank(first, second).p == pytest.approx(two_sided(z))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (([5, 5], [True, True]), ([5, 5, 5], [True, True, True])),  # all at once
        (([5, 5], [False, False]), ([7, 9], [True, True])),  # after one side stopped
        (([5, 5], [False, False]), ([5, 5], [False, False])),
    ],
)
def test_log_rank_where_nothing_can_differ(
    first: tuple[list[int], list[bool]], second: tuple[list[int], list[bool]]
) -> None:
    verdict = log_rank(first, second)
    assert (verdict.statistic, verdict.p) == (None, 1)
    assert verdict.note in (
        "no solved runs",
        "runs were solved only all at once, or while one side alone went on",
    )


def test_log_rank_of_too_few() -> None:
    assert log_rank(([1], [True]), ([2, 3], [True, True])).p is None
