from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.experiments.statistics.cases import slowly
from tfsm.analysis.significance import barnard_p, score


@pytest.mark.parametrize(
    ("first", "second", "p"),
    [
        # Only all against none is as extreme, either way round: 2 q² (1 - q)², at the most 2/16.
        ((2, 2), (0, 2), 1 / 8),
        ((3, 3), (0, 3), 1 / 32),
        ((20, 20), (0, 20), 2 / 4**20),
        # q² (1 - q)³ + (1 - q)² q³ = q² (1 - q)², at the most 1/16.
        ((2, 2), (0, 3), 1 / 16),
        # Equal shares: everything is as extreme.
        ((1, 2), (1, 2), 1),
        # Every difference is as extreme: 1 - P(equal) = 1 - ((1-q)⁴ + 4 q² (1-q)² + q⁴), at the most 1 - 6/16.
        ((1, 2), (0, 2), 5 / 8),
    ],
)
def test_small_tables_by_hand(first: tuple[int, int], second: tuple[int, int], p: float) -> None:
    assert barnard_p(first, second) == pytest.approx(p, rel=1e-6)


def test_the_score_by_hand() -> None:
    # 3/4 - 1/4 over sqrt(1/2 · 1/2 · (1/4 + 1/4)) = 0.5 / 0.35355.
    assert score((3, 4), (1, 4)) == pytest.approx(2**0.5)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((6, 20), (13, 20)),  # as extreme as 7 and 14, but for rounding
        ((2, 20), (20, 20)),
        ((3, 8), (4, 5)),
        ((9, 50), (12, 50)),  # largest near the edge, where 32 points do not find it
        ((42, 50), (48, 50)),
    ],
)
def test_no_outcome_that_is_as_extreme_is_missed(first: tuple[int, int], second: tuple[int, int]) -> None:
    assert barnard_p(first, second) == pytest.approx(slowly(first, second), rel=2e-3)


@settings(max_examples=30, deadline=None)
@given(st.tuples(*[st.integers(2, 9).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))] * 2))
def test_any_small_table(pair: tuple[tuple[int, int], tuple[int, int]]) -> None:
    first, second = pair
    assume(0 < first[0] + second[0] < first[1] + second[1])
    p = barnard_p(first, second)
    assert p == pytest.approx(slowly(first, second), rel=2e-3)
    assert p == barnard_p(second, first)
    unsolved = (first[1] - first[0], first[1]), (second[1] - second[0], second[1])
    assert p == pytest.approx(barnard_p(*unsolved), rel=1e-9)
