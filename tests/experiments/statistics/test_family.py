from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.experiments.statistics.cases import method
from tfsm.analysis import Verdict, compare_all, holm, significant
from tfsm.analysis.results import Study
from tfsm.errors import TfsmError

FAST = method("fast", solved=[*range(1, 21)])
SLOW = method("slow", solved=[*range(51, 71)])
NEVER = method("never", failed=20)
ONCE = method("once", solved=[5])


def test_holm_by_hand() -> None:
    # In order 0.005 · 4 = 0.02, 0.01 · 3 = 0.03, 0.03 · 2 = 0.06, and 0.04 · 1 is not less than the one before.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_tests_that_were_not_made_are_not_of_the_family() -> None:
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


def test_each_test_is_a_family_of_its_own() -> None:
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


def test_an_unknown_baseline_is_told_all_names() -> None:
    with pytest.raises(TfsmError, match="no method named 'control' to compare with; there are fast, slow, never"):
        compare_all(Study("parity", (FAST, SLOW, NEVER)), baseline="control")


def test_one_method_has_nobody_to_be_compared_with() -> None:
    assert compare_all(Study("parity", (FAST,))) == []
    assert compare_all(Study("parity", (FAST,)), baseline="fast") == []


def test_one_run_a_side_is_never_significant() -> None:
    for pair in compare_all(Study("parity", (ONCE, SLOW, NEVER)), baseline="once", at=50):
        assert not any(significant(verdict, level=1.1) for verdict in pair.verdicts.values())


def test_significant_is_what_stays_below_the_level_after_adjusting() -> None:
    assert significant(Verdict("", 1.0, 0.01, adjusted=0.04))
    assert not significant(Verdict("", 1.0, 0.01, adjusted=0.05))
    assert not significant(Verdict("", 1.0, 0.01, adjusted=0.06))
    assert significant(Verdict("", 1.0, 0.01, adjusted=0.06), level=0.1)
    assert not significant(Verdict("", 1.0, 0.01))
