"""Who may be handed out when, and how stale whoever arrives is, against books kept in the plainest way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfsm.evolution.async_loop import Ledger
from tfsm.evolution.checkpoint import Apart

MOVES = st.lists(st.tuples(st.sampled_from(["out", "in", "in", "end", "save"]), st.integers(0, 99)), max_size=120)


class Books:
    """Everything that ever happened, looked through from the beginning at every question."""

    def __init__(self, runs: int, beginners: int, budget: int) -> None:
        self.runs, self.beginners, self.budget = runs, beginners, budget
        self.past: list[tuple[str, int, int]] = []
        self.ended: set[int] = set()

    def settled(self, run: int) -> list[int]:
        return [number for kind, own, number in self.past if kind == "in" and own == run]

    def away(self, run: int) -> list[int]:
        found: list[int] = []
        for kind, own, number in self.past:
            if kind == "lost":
                found = []
            elif own == run:
                found = [*found, number] if kind == "out" else [other for other in found if other != number]
        return [] if run in self.ended else found

    def staleness(self, run: int, number: int) -> int:
        out = max(i for i, event in enumerate(self.past) if event == ("out", run, number))
        return sum(kind == "in" and own == run for kind, own, _ in self.past[out:])

    def allowed(self, run: int) -> set[int]:
        bound = self.beginners if len(self.settled(run)) < self.beginners else self.budget
        taken = {*self.settled(run), *self.away(run)}
        return set() if run in self.ended else set(range(bound)) - taken


@given(st.integers(1, 4), st.integers(1, 5), st.integers(0, 8), MOVES)
def test_the_books_agree(runs: int, beginners: int, more: int, moves: list[tuple[str, int]]) -> None:
    budget = beginners + more
    ledger, books = Ledger(range(runs), beginners=beginners, budget=budget), Books(runs, beginners, budget)
    stale: dict[int, list[int]] = {run: [] for run in range(runs)}
    for move, which in moves:
        away = [(run, number) for run in range(runs) for number in books.away(run)]
        if move == "out":
            allowed = {run: books.allowed(run) for run in range(runs) if books.allowed(run)}
            expected = min(allowed, key=lambda run: (len(books.away(run)), len(books.settled(run)), run), default=None)
            found = ledger.next()
            assert found == (None if expected is None else (expected, min(allowed[expected])))
            if found is not None:
                ledger.hand_out(*found)
                books.past.append(("out", *found))
        elif move == "in" and away:
            run, number = away[which % len(away)]
            if number >= beginners:
                stale[run].append(books.staleness(run, number))
            books.past.append(("in", run, number))
            assert ledger.settle(run, number) == len(books.settled(run))
        elif move == "end" and which < runs:
            ledger.end(which)
            books.ended.add(which)
        elif move == "save":
            kept = {run: (ledger.accounts[run].settled, ledger.apart(run)) for run in ledger.going}
            ledger = Ledger(range(runs), beginners=beginners, budget=budget)
            for run in range(runs):
                if run in kept:
                    ledger.restore(run, *kept[run])
                else:
                    ledger.end(run)
            books.past.append(("lost", -1, -1))
        for run in range(runs):
            assert all(ledger.is_away(run, number) == (number in books.away(run)) for number in range(budget))
            assert len(set(books.settled(run))) == len(books.settled(run)) <= budget
    for run in set(range(runs)) - books.ended:
        own = stale[run]
        told = ledger.interval(run)
        assert told["staleness"] == (sum(own) / len(own) if own else None)
        assert told["staleness_most"] == (max(own) if own else None)
        assert ledger.interval(run)["staleness"] is None, "the next interval begins"


@pytest.mark.parametrize(
    ("run", "number", "why"),
    [(7, 0, "no such run"), (1, 0, "it has ended"), (0, 5, "next number of this run is 2"), (0, 2, "only 1 of this")],
)
def test_what_cannot_be_is_said(run: int, number: int, why: str) -> None:
    ledger = Ledger(range(2), beginners=2, budget=9)
    ledger.hand_out(0, 0)
    ledger.hand_out(0, 1)
    ledger.settle(0, 1)
    ledger.end(1)
    with pytest.raises(ValueError, match=why):
        ledger.hand_out(run, number)


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(1, 4))
def test_a_lesser_budget_is_spent_too(moves: list[int], more: int) -> None:
    ledger = Ledger(range(1), beginners=2, budget=20)
    for move in moves:
        account, chosen = ledger.accounts[0], ledger.next()
        if move % 2 and chosen is not None:
            ledger.hand_out(*chosen)
        elif account.away:
            ledger.settle(0, sorted(account.away)[move % len(account.away)])
    settled, kept = ledger.accounts[0].settled, ledger.apart(0)
    ledger = Ledger(range(1), beginners=2, budget=settled + 1 + more)
    ledger.restore(0, settled, kept)
    while ledger.accounts[0].settled < settled + 1 + more:
        chosen = ledger.next()
        assert chosen is not None
        assert chosen[1] < settled + 1 + more
        ledger.hand_out(*chosen)
        ledger.settle(*chosen)


def test_failures_of_an_interval_are_counted() -> None:
    ledger = Ledger(range(1), beginners=1, budget=9)
    for number in range(3):
        ledger.hand_out(0, number)
        ledger.settle(0, number, failed=number != 1)
    assert ledger.apart(0) == Apart((), children=2, failed=2)
    assert ledger.interval(0)["failed"] == 2
    assert ledger.interval(0)["failed"] == 0
