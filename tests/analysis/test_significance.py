""""""

from __future__ import annotations

import math
import subprocess
import sys
from math import inf, isfinite, sqrt

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.analysis.cases import compute_barnard_slowly, draw_methods, make_method, two_sided
from tfsm import analysis as statistics
from tfsm.analysis import (
    Verdict,
    compare,
    compare_all,
    compare_retention,
    holm,
    is_significant,
    retention,
    wilson_interval,
)
from tfsm.analysis.results import Method, RunOutcome, Study
from tfsm.analysis.significance import _p, barnard, barnard_p_value, log_rank, mann_whitney, score_statistic
from tfsm.errors import TfsmError


@pytest.mark.parametrize(
    ("first", "second", "p"),
    [
        # Only all against none is as extreme, in both directions: 2 q² (1 - q)², at the most 2/16.
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
    assert barnard_p_value(first, second) == pytest.approx(p, rel=1e-6)


def test_the_score_by_hand() -> None:
    # 3/4 - 1/4 over sqrt(1/2 · 1/2 · (1/4 + 1/4)) = 0.5 / 0.35355.
    assert score_statistic((3, 4), (1, 4)) == pytest.approx(2**0.5)


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
    assert barnard_p_value(first, second) == pytest.approx(compute_barnard_slowly(first, second), rel=2e-3)


@settings(max_examples=30, deadline=None)
@given(st.tuples(*[st.integers(2, 9).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))] * 2))
def test_any_small_table(pair: tuple[tuple[int, int], tuple[int, int]]) -> None:
    first, second = pair
    assume(0 < first[0] + second[0] < first[1] + second[1])
    p = barnard_p_value(first, second)
    assert p == pytest.approx(compute_barnard_slowly(first, second), rel=2e-3)
    assert p == barnard_p_value(second, first)
    unsolved = (first[1] - first[0], first[1]), (second[1] - second[0], second[1])
    assert p == pytest.approx(barnard_p_value(*unsolved), rel=1e-9)


KEYS = ["mann-whitney-all", "mann-whitney-solved", "barnard-end", "barnard-at", "log-rank", "mann-whitney-fitness"]
TOO_FEW = "needs two runs or more on each side"


def test_two_methods_by_hand() -> None:
    # The first solves at 1, 2, 3, the second at 50 and never, never.
    # All: U = 0; 2 of the C(6, 3) = 20 deals of 1, 2, 3, 50 and two ties are as extreme.
    # Solved alone: the second has one run.
    # At the end 3 of 3 against 1 of 3, at 50 the same, at 20 3 of 3 against none: 1/32.
    found = compare(make_method("a", solved=[1, 2, 3]), make_method("b", solved=[50], failed=2), at=20)
    assert (found.first, found.second, found.at, list(found.verdicts)) == ("a", "b", 20, KEYS)
    verdicts = found.verdicts
    assert verdicts["mann-whitney-all"].statistic == 0
    assert verdicts["mann-whitney-all"].p == pytest.approx(2 / 20)
    assert verdicts["mann-whitney-solved"].p is None
    assert verdicts["mann-whitney-solved"].note == "needs two solved runs or more on each side"
    assert verdicts["barnard-at"].p == pytest.approx(1 / 32)
    # Log-rank: expected 1/2 + 2/5 + 1/4 of the first at 1, 2, 3, variance 1/4 + 6/25 + 3/16; at 50 none is left.
    z = (3 - 1.15) / (1 / 4 + 6 / 25 + 3 / 16) ** 0.5
    assert verdicts["log-rank"].statistic == pytest.approx(z)
    assert verdicts["log-rank"].p == pytest.approx(two_sided(z))
    assert all(verdict.adjusted is None for verdict in verdicts.values())


def test_the_solution_at_exactly_the_evaluations_counts() -> None:
    first, second = make_method("a", solved=[20, 20]), make_method("b", solved=[21, 21])
    assert compare(first, second, at=20).verdicts["barnard-at"].p == pytest.approx(1 / 8)
    assert compare(first, second, at=21).verdicts["barnard-at"].note == "all runs solved on both sides"
    assert "barnard-at" not in compare(first, second).verdicts


def test_superiority_counts_pairs() -> None:
    # 1 is faster than both, 3 than the unsolved one; unsolved and unsolved are half: (2 + 1 + 1/2) / 6.
    found = compare(make_method("a", solved=[1, 3], failed=1), make_method("b", solved=[2], failed=1))
    assert found.superiority == pytest.approx(3.5 / 6)
    assert compare(make_method("a", solved=[1]), make_method("b", solved=[9])).superiority == 1
    assert compare(make_method("a", failed=2), make_method("b", failed=3)).superiority == 0.5


def test_a_solution_at_the_end_of_the_budget_beats_an_unsolved_run() -> None:
    found = compare(make_method("a", solved=[100, 100]), make_method("b", failed=2))
    assert found.superiority == 1
    # Two of the six deals of two solutions and two ties.
    assert found.verdicts["mann-whitney-all"].p == pytest.approx(2 / 6)


def test_the_difference_of_the_shares_is_built_from_wilsons_intervals() -> None:
    difference = compare(make_method("a", solved=[1, 2, 3]), make_method("b", solved=[50], failed=2)).solved_difference
    assert difference is not None
    assert difference.value == pytest.approx(2 / 3)
    (low, _), (other_low, other_high) = wilson_interval(3, 3), wilson_interval(1, 3)
    assert (difference.value - difference.low) ** 2 == pytest.approx((1 - low) ** 2 + (other_high - 1 / 3) ** 2)
    assert (difference.high - difference.value) ** 2 == pytest.approx((1 / 3 - other_low) ** 2)


@pytest.mark.parametrize("second", [make_method("b", solved=[5]), make_method("b", failed=1)])
@pytest.mark.parametrize("first", [make_method("a", solved=[5]), make_method("a", solved=[1, 2, 3], failed=1)])
def test_one_run_on_a_side_is_no_test(first: Method, second: Method) -> None:
    for pair in ((first, second), (second, first)):
        found = compare(*pair, at=50)
        assert {(verdict.p, verdict.note) for verdict in found.verdicts.values()} == {(None, TOO_FEW)}
        assert found.superiority is not None
        assert found.solved_difference is not None


@pytest.mark.parametrize("other", [make_method("b"), make_method("b", solved=[5, 6]), make_method("b", failed=9)])
def test_no_runs_on_a_side(other: Method) -> None:
    found = compare(make_method("a"), other, at=50)
    assert {(verdict.p, verdict.note) for verdict in found.verdicts.values()} == {(None, TOO_FEW)}
    assert (found.superiority, found.solved_difference) == (None, None)


def test_nothing_solved_on_either_side() -> None:
    found = compare(make_method("a", failed=20), make_method("b", failed=20), at=50)
    for key in ("mann-whitney-all", "barnard-end", "barnard-at", "log-rank"):
        assert (found.verdicts[key].p, found.verdicts[key].note) == (1, "no solved runs"), key
    assert found.verdicts["mann-whitney-solved"].p is None
    assert found.solved_difference is not None
    assert found.solved_difference.low < found.solved_difference.value == 0 < found.solved_difference.high


def test_everything_solved_at_once() -> None:
    found = compare(make_method("a", solved=[7, 7, 7]), make_method("b", solved=[7, 7]), at=7)
    assert {verdict.p for verdict in found.verdicts.values()} == {1}
    assert all(verdict.note for verdict in found.verdicts.values())
    assert found.superiority == 0.5


def test_runs_that_stopped_early_are_noted() -> None:
    first, second = make_method("a", solved=[10, 20], stopped=[40, 60]), make_method("b", solved=[30], failed=3)
    verdicts = compare(first, second, at=50).verdicts
    note = "runs that stopped before 100 evaluations and count as unsolved: 2"
    assert verdicts["mann-whitney-all"].note == verdicts["barnard-end"].note == note
    assert verdicts["barnard-at"].note == "runs that stopped before 50 evaluations and count as unsolved: 1"
    assert verdicts["log-rank"].note == ""
    nothing = compare(make_method("a", stopped=[5, 5]), make_method("b", failed=2)).verdicts["mann-whitney-all"]
    assert nothing.note == f"no solved runs; {note}"


def test_different_budgets_are_noted() -> None:
    first, second = make_method("a", solved=[10], failed=2, budget=50), make_method("b", solved=[60, 70], budget=100)
    note = compare(first, second).verdicts["barnard-end"].note
    assert note == "runs that stopped before 100 evaluations and count as unsolved: 2"


def test_a_hundred_runs_per_side() -> None:
    # Of the first 80 are solved, of the second 50, and 40 and 10 by then: every test detects that.
    first, second = (
        make_method("a", solved=[*range(11, 91)], failed=20),
        make_method("b", solved=[*range(41, 91)], failed=50),
    )
    verdicts = compare(first, second, at=50).verdicts
    assert verdicts["barnard-end"].p == pytest.approx(compute_barnard_slowly((80, 100), (50, 100)), rel=2e-3)
    assert verdicts["barnard-at"].p == pytest.approx(compute_barnard_slowly((40, 100), (10, 100)), rel=2e-3)
    times = [verdict.p for key, verdict in verdicts.items() if key != "mann-whitney-fitness"]
    assert all(p is not None and p < 1e-3 for p in times)


def test_a_table_is_computed_once() -> None:
    first, second = make_method("a", solved=[1, 2, 3, 4], failed=1), make_method("b", solved=[5], failed=6)
    compare(first, second)
    before = _p.cache_info()
    compare(second, first)
    assert (_p.cache_info().misses, _p.cache_info().hits) == (before.misses, before.hits + 1)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(draw_methods("a"), draw_methods("b"))
def test_a_comparison_is_symmetric(first: Method, second: Method) -> None:
    one, other = compare(first, second, at=10), compare(second, first, at=10)
    assert list(one.verdicts) == KEYS
    for key in KEYS:
        verdict, turned = one.verdicts[key], other.verdicts[key]
        assert verdict.note == turned.note
        if verdict.p is None:
            assert turned.p is None
            assert verdict.note
        else:
            assert 0 <= verdict.p <= 1
            assert verdict.p == pytest.approx(turned.p)
        assert verdict.statistic is None or isfinite(verdict.statistic)
    if one.superiority is None or other.superiority is None:
        assert one.superiority is other.superiority is None
    else:
        assert one.superiority + other.superiority == pytest.approx(1)
    assert (one.solved_difference is None) == (other.solved_difference is None)


@settings(max_examples=30, deadline=None)
@given(draw_methods("a", min_size=2))
def test_a_method_does_not_differ_from_itself(runs: Method) -> None:
    found = compare(runs, runs, at=10)
    assert found.superiority == 0.5
    assert all(verdict.p is None or verdict.p == pytest.approx(1) for verdict in found.verdicts.values())


def test_fitness_is_compared_where_nothing_is_solved() -> None:
    def unsolved(name: str, fitness: list[float | None]) -> Method:
        return Method(name, tuple(RunOutcome(run, False, 100, value) for run, value in enumerate(fitness)), 100)

    # Four against four without overlap, one of the lower without any fitness: U = 16, p = 2 / C(8, 4) = 2 / 70.
    verdict = compare(unsolved("a", [4.0, 5.0, 6.0, 7.0]), unsolved("b", [None, 1.0, 2.0, 3.0])).verdicts[
        "mann-whitney-fitness"
    ]
    assert verdict.statistic == 16.0
    assert verdict.p == pytest.approx(2 / 70)
    tied = compare(unsolved("a", [None, None]), unsolved("b", [None, None])).verdicts["mann-whitney-fitness"]
    assert tied.p == 1.0


FAST = make_method("fast", solved=[*range(1, 21)])
SLOW = make_method("slow", solved=[*range(51, 71)])
NEVER = make_method("never", failed=20)
ONCE = make_method("once", solved=[5])


def test_holm_by_hand() -> None:
    # In order 0.005 · 4 = 0.02, 0.01 · 3 = 0.03, 0.03 · 2 = 0.06, and 0.04 · 1 is not less than the one before.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_skipped_tests_do_not_count_in_the_family() -> None:
    assert holm([None, 0.01, None, 0.04]) == [None, pytest.approx(0.02), None, pytest.approx(0.04)]
    assert holm([None]) == [None]
    assert holm([]) == []


def test_holm_of_ties_and_of_large_values() -> None:
    assert holm([0.25, 0.25, 0.25]) == [0.75, 0.75, 0.75]
    assert holm([0.6, 1.0]) == [1, 1]


@given(st.lists(st.none() | st.floats(0, 1), max_size=12))
def test_holm_keeps_the_order_and_never_lowers(values: list[float | None]) -> None:
    adjusted = holm(values)
    pairs = [(p, q) for p, q in zip(values, adjusted, strict=True) if p is not None and q is not None]
    assert [p is None for p in values] == [q is None for q in adjusted]
    assert all(p <= q <= min(1, p * len(pairs)) + 1e-300 for p, q in pairs)
    ordered = [q for _, q in sorted(pairs)]
    assert ordered == sorted(ordered)


def test_all_pairs_in_order() -> None:
    found = compare_all(Study("parity", (FAST, SLOW, NEVER)), at=50)
    assert [(pair.first, pair.second) for pair in found] == [("fast", "slow"), ("fast", "never"), ("slow", "never")]
    assert all(
        verdict.adjusted is None or verdict.adjusted >= (verdict.p or 0) for verdict in found[0].verdicts.values()
    )


def test_each_kind_of_test_is_a_separate_family() -> None:
    found = compare_all(Study("parity", (FAST, SLOW, NEVER)), at=50)
    # At 50 all of the first and none of the others are solved: the largest over q of q²⁰ (1 - q)²⁰ twice,
    # 2/4²⁰, and 1. Two of three are equal and least: each times 3 and the last stays.
    at = [pair.verdicts["barnard-at"] for pair in found]
    assert [verdict.p for verdict in at] == pytest.approx([2 / 4**20, 2 / 4**20, 1])
    assert [verdict.adjusted for verdict in at] == pytest.approx([6 / 4**20, 6 / 4**20, 1])
    # Among the solved alone there is one pair: a family of one.
    solved = [pair.verdicts["mann-whitney-solved"] for pair in found]
    assert solved[0].adjusted == solved[0].p
    assert [verdict.adjusted for verdict in solved[1:]] == [None, None]


def test_against_a_baseline() -> None:
    found = compare_all(Study("parity", (FAST, SLOW, NEVER)), baseline="slow")
    assert [(pair.first, pair.second) for pair in found] == [("fast", "slow"), ("never", "slow")]
    assert [pair.superiority for pair in found] == [1, 0]
    assert "barnard-at" not in found[0].verdicts


def test_an_unknown_baseline_is_an_error_with_all_names() -> None:
    with pytest.raises(TfsmError, match="no method named 'control' to compare with; there are fast, slow, never"):
        compare_all(Study("parity", (FAST, SLOW, NEVER)), baseline="control")


def test_a_single_method_has_no_comparisons() -> None:
    assert compare_all(Study("parity", (FAST,))) == []
    assert compare_all(Study("parity", (FAST,)), baseline="fast") == []


def test_one_run_per_side_is_never_significant() -> None:
    for pair in compare_all(Study("parity", (ONCE, SLOW, NEVER)), baseline="once", at=50):
        assert not any(is_significant(verdict, level=1.1) for verdict in pair.verdicts.values())


def test_significance_is_decided_after_adjustment() -> None:
    assert is_significant(Verdict("", 1.0, 0.01, adjusted=0.04))
    assert not is_significant(Verdict("", 1.0, 0.01, adjusted=0.05))
    assert not is_significant(Verdict("", 1.0, 0.01, adjusted=0.06))
    assert is_significant(Verdict("", 1.0, 0.01, adjusted=0.06), level=0.1)
    assert not is_significant(Verdict("", 1.0, 0.01))


def test_mann_whitney_without_ties() -> None:
    # All of the first before all of the second: one of the C(8, 4) = 70 orders, and another one on the other side.
    verdict = mann_whitney([1, 2, 3, 4], [5, 6, 7, 8])
    assert (verdict.test, verdict.statistic, verdict.note) == ("Mann-Whitney U", 0, "")
    assert verdict.p == pytest.approx(2 / 70)


def test_mann_whitney_of_few_with_ties_is_exact() -> None:
    # One of the C(6, 3) = 20 ways to deal three values and three ties has all ties on the second side, and one on
    # the first; the normal approximation would give 0.064.
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
    # p is computed by hand above; the score is 1 / sqrt(1/4 · (1/2 + 1/2)).
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
def test_log_rank_counts_runs_until_they_stopped(second: tuple[list[int], list[bool]]) -> None:
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
        "runs were solved only all at once, or while only one side was active",
    )


def test_log_rank_of_too_few() -> None:
    assert log_rank(([1], [True]), ([2, 3], [True, True])).p is None


ANY = st.floats(allow_nan=False, allow_infinity=False)


def test_a_fraction_between_the_worst_and_the_parent() -> None:
    # From -10 up to 30 there are 40: 10 is half of the way, 30 all of it; beyond either end is clipped.
    children = np.array([10.0, 30.0, -10.0, 20.0, 50.0, -90.0])
    assert retention(30, children, worst=-10).tolist() == [0.5, 1, 0, 0.75, 1, 0]


def test_a_broken_child_retains_nothing() -> None:
    assert retention(2, np.array([np.nan, np.inf, -np.inf, 1]), worst=0).tolist() == [0, 0, 0, 0.5]


@pytest.mark.parametrize("worst", [3.0, 4.0])
def test_equal_children_of_the_worst_parent_retain_everything(worst: float) -> None:
    assert retention(3, np.array([3.0, 2.0, 5.0, np.nan]), worst=worst).tolist() == [1, 0, 1, 0]


def test_shapes_are_kept() -> None:
    assert retention(1, np.zeros((3, 50)), worst=0).shape == (3, 50)
    assert retention(1, np.zeros(0), worst=0).shape == (0,)


@pytest.mark.parametrize(("parent", "worst"), [(math.nan, 0), (math.inf, 0), (1, -math.inf), (1, math.nan)])
def test_a_parent_or_worst_that_is_not_finite_is_an_error(parent: float, worst: float) -> None:
    with pytest.raises(TfsmError, match="must be finite"):
        retention(parent, np.ones(2), worst)


@given(ANY, st.lists(st.floats()), ANY)
def test_a_fraction_lies_between_zero_and_one(parent: float, children: list[float], worst: float) -> None:
    kept = retention(parent, np.array([*children, parent]), worst)
    assert ((kept >= 0) & (kept <= 1)).all()
    assert kept[-1] == 1


def test_two_operators_are_compared_by_rank() -> None:
    # Apart without ties: 2 of C(8, 4) = 70 orders.
    verdict = compare_retention(np.array([0.9, 0.8, 0.95, 1.0]), np.array([0.1, 0.2, 0.3, 0.0]))
    assert (verdict.test, verdict.statistic) == ("Mann-Whitney U", 16)
    assert verdict.p == pytest.approx(2 / 70)


def test_operators_with_equal_values_do_not_differ() -> None:
    tied = compare_retention(np.ones(20), np.ones(20))
    assert (tied.p, tied.note) == (1, "all values are tied")
    few = compare_retention(np.ones(1), np.zeros(20))
    assert (few.p, few.note) == (None, "needs two values or more on each side")


def test_values_that_are_not_finite_are_an_error() -> None:
    with pytest.raises(TfsmError, match="must be finite"):
        compare_retention(np.array([0.5, np.nan]), np.ones(2))


def test_importing_the_statistics_imports_no_tensorflow() -> None:
    code = "import sys, tfsm.analysis; print(sorted({'keras', 'tensorflow'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_every_public_name_exists() -> None:
    assert sorted(statistics.__all__) == statistics.__all__
    assert all(callable(getattr(statistics, name)) for name in statistics.__all__)
