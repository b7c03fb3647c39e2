from __future__ import annotations

from math import isfinite

import pytest
from hypothesis import given, settings

from tests.experiments.statistics.cases import method, methods, slowly, two_sided
from tfsm.analysis import compare, wilson
from tfsm.analysis.results import Method, Outcome
from tfsm.analysis.significance import _p

KEYS = ["mann-whitney-all", "mann-whitney-solved", "barnard-end", "barnard-at", "log-rank", "mann-whitney-fitness"]
TOO_FEW = "needs two runs or more on each side"


def test_two_methods_by_hand() -> None:
    # The first solves at 1, 2, 3, the second at 50 and never, never.
    # All: U = 0; 2 of the C(6, 3) = 20 deals of 1, 2, 3, 50 and two ties are as extreme.
    # Solved alone: the second has one run.
    # At the end 3 of 3 against 1 of 3, at 50 the same, at 20 3 of 3 against none: 1/32.
    found = compare(method("a", solved=[1, 2, 3]), method("b", solved=[50], failed=2), at=20)
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
    first, second = method("a", solved=[20, 20]), method("b", solved=[21, 21])
    assert compare(first, second, at=20).verdicts["barnard-at"].p == pytest.approx(1 / 8)
    assert compare(first, second, at=21).verdicts["barnard-at"].note == "all runs solved on both sides"
    assert "barnard-at" not in compare(first, second).verdicts


def test_superiority_counts_pairs() -> None:
    # 1 is faster than both, 3 than the unsolved one; unsolved and unsolved are half: (2 + 1 + 1/2) / 6.
    found = compare(method("a", solved=[1, 3], failed=1), method("b", solved=[2], failed=1))
    assert found.superiority == pytest.approx(3.5 / 6)
    assert compare(method("a", solved=[1]), method("b", solved=[9])).superiority == 1
    assert compare(method("a", failed=2), method("b", failed=3)).superiority == 0.5


def test_a_solution_at_the_end_of_the_budget_beats_an_unsolved_run() -> None:
    found = compare(method("a", solved=[100, 100]), method("b", failed=2))
    assert found.superiority == 1
    # Two of the six deals of two solutions and two ties.
    assert found.verdicts["mann-whitney-all"].p == pytest.approx(2 / 6)


def test_the_difference_of_the_shares_is_built_from_wilsons_intervals() -> None:
    difference = compare(method("a", solved=[1, 2, 3]), method("b", solved=[50], failed=2)).solved_difference
    assert difference is not None
    assert difference.value == pytest.approx(2 / 3)
    (low, _), (other_low, other_high) = wilson(3, 3), wilson(1, 3)
    assert (difference.value - difference.low) ** 2 == pytest.approx((1 - low) ** 2 + (other_high - 1 / 3) ** 2)
    assert (difference.high - difference.value) ** 2 == pytest.approx((1 / 3 - other_low) ** 2)


@pytest.mark.parametrize("second", [method("b", solved=[5]), method("b", failed=1)])
@pytest.mark.parametrize("first", [method("a", solved=[5]), method("a", solved=[1, 2, 3], failed=1)])
def test_one_run_on_a_side_is_no_test(first: Method, second: Method) -> None:
    for pair in ((first, second), (second, first)):
        found = compare(*pair, at=50)
        assert {(verdict.p, verdict.note) for verdict in found.verdicts.values()} == {(None, TOO_FEW)}
        assert found.superiority is not None
        assert found.solved_difference is not None


@pytest.mark.parametrize("other", [method("b"), method("b", solved=[5, 6]), method("b", failed=9)])
def test_no_runs_on_a_side(other: Method) -> None:
    found = compare(method("a"), other, at=50)
    assert {(verdict.p, verdict.note) for verdict in found.verdicts.values()} == {(None, TOO_FEW)}
    assert (found.superiority, found.solved_difference) == (None, None)


def test_nothing_solved_on_either_side() -> None:
    found = compare(method("a", failed=20), method("b", failed=20), at=50)
    for key in ("mann-whitney-all", "barnard-end", "barnard-at", "log-rank"):
        assert (found.verdicts[key].p, found.verdicts[key].note) == (1, "no solved runs"), key
    assert found.verdicts["mann-whitney-solved"].p is None
    assert found.solved_difference is not None
    assert found.solved_difference.low < found.solved_difference.value == 0 < found.solved_difference.high


def test_everything_solved_at_once() -> None:
    found = compare(method("a", solved=[7, 7, 7]), method("b", solved=[7, 7]), at=7)
    assert {verdict.p for verdict in found.verdicts.values()} == {1}
    assert all(verdict.note for verdict in found.verdicts.values())
    assert found.superiority == 0.5


def test_runs_that_stopped_early_are_told() -> None:
    first, second = method("a", solved=[10, 20], stopped=[40, 60]), method("b", solved=[30], failed=3)
    verdicts = compare(first, second, at=50).verdicts
    told = "runs that stopped before 100 evaluations and count as unsolved: 2"
    assert verdicts["mann-whitney-all"].note == verdicts["barnard-end"].note == told
    assert verdicts["barnard-at"].note == "runs that stopped before 50 evaluations and count as unsolved: 1"
    assert verdicts["log-rank"].note == ""
    nothing = compare(method("a", stopped=[5, 5]), method("b", failed=2)).verdicts["mann-whitney-all"]
    assert nothing.note == f"no solved runs; {told}"


def test_different_budgets_are_told() -> None:
    first, second = method("a", solved=[10], failed=2, budget=50), method("b", solved=[60, 70], budget=100)
    note = compare(first, second).verdicts["barnard-end"].note
    assert note == "runs that stopped before 100 evaluations and count as unsolved: 2"


def test_a_hundred_runs_a_side() -> None:
    # Of the first 80 are solved, of the second 50, and 40 and 10 by then: every test sees that.
    first, second = method("a", solved=[*range(11, 91)], failed=20), method("b", solved=[*range(41, 91)], failed=50)
    verdicts = compare(first, second, at=50).verdicts
    assert verdicts["barnard-end"].p == pytest.approx(slowly((80, 100), (50, 100)), rel=2e-3)
    assert verdicts["barnard-at"].p == pytest.approx(slowly((40, 100), (10, 100)), rel=2e-3)
    times = [verdict.p for key, verdict in verdicts.items() if key != "mann-whitney-fitness"]
    assert all(p is not None and p < 1e-3 for p in times)


def test_a_table_is_worked_out_once() -> None:
    first, second = method("a", solved=[1, 2, 3, 4], failed=1), method("b", solved=[5], failed=6)
    compare(first, second)
    before = _p.cache_info()
    compare(second, first)
    assert (_p.cache_info().misses, _p.cache_info().hits) == (before.misses, before.hits + 1)


@settings(max_examples=60, deadline=None)
@given(methods("a"), methods("b"))
def test_turned_round_a_comparison_says_the_same(first: Method, second: Method) -> None:
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
@given(methods("a", min_size=2))
def test_a_method_does_not_differ_from_itself(runs: Method) -> None:
    found = compare(runs, runs, at=10)
    assert found.superiority == 0.5
    assert all(verdict.p is None or verdict.p == pytest.approx(1) for verdict in found.verdicts.values())


def test_fitness_is_compared_where_nothing_is_solved() -> None:
    def unsolved(name: str, fitness: list[float | None]) -> Method:
        return Method(name, tuple(Outcome(run, False, 100, value) for run, value in enumerate(fitness)), 100)

    # Four against four without overlap, one of the lower without any fitness: U = 16, p = 2 / C(8, 4) = 2 / 70.
    verdict = compare(unsolved("a", [4.0, 5.0, 6.0, 7.0]), unsolved("b", [None, 1.0, 2.0, 3.0])).verdicts[
        "mann-whitney-fitness"
    ]
    assert verdict.statistic == 16.0
    assert verdict.p == pytest.approx(2 / 70)
    tied = compare(unsolved("a", [None, None]), unsolved("b", [None, None])).verdicts["mann-whitney-fitness"]
    assert tied.p == 1.0
