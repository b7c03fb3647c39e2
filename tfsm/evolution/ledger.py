"""Who was handed out, who is on the way, and who was settled, of runs that are not in step."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from tfsm.evolution.saving import Apart


@dataclass
class Account:
    """One run's."""

    settled: int = 0
    """How many were settled."""
    fresh: int = 0
    """The lowest number that was never handed out."""
    lost: set[int] = field(default_factory=set)
    """Numbers that were handed out, and have to be again."""
    away: dict[int, int] = field(default_factory=dict)
    """How many were settled when those were handed out who are on their way, by number."""
    ended: bool = False
    children: int = 0
    """Settled in this logging interval; so are the following."""
    stale: int = 0
    most: int = 0
    failed: int = 0


class Ledger:
    """Keeps the accounts of some runs.

    Args:
        runs: their numbers.
        beginners: how many first individuals each of them has.
        budget: the most evaluations of one run.
    """

    def __init__(self, runs: Iterable[int], *, beginners: int, budget: int) -> None:
        self.beginners, self._budget = beginners, budget
        self.accounts = {run: Account() for run in runs}

    @property
    def going(self) -> list[int]:
        """The runs that have not ended."""
        return [run for run, account in self.accounts.items() if not account.ended]

    def next(self) -> tuple[int, int] | None:
        """Return the run and number to hand out next; None: none now.

        In the run with the fewest on their way, so that few are stale; among those in the one that is least far, so
        that all runs go on alike.
        """
        open_ = {run: number for run, account in self.accounts.items() if (number := self._open(account)) is not None}
        if not open_:
            return None
        run = min(open_, key=lambda run: (len(self.accounts[run].away), self.accounts[run].settled, run))
        return run, open_[run]

    def _open(self, account: Account) -> int | None:
        if account.ended:
            return None
        if account.lost:
            return min(account.lost)
        # Children only once everybody is there whom they could have for a parent, as in lock step.
        bound = self.beginners if account.settled < self.beginners else self._budget
        return account.fresh if account.fresh < bound else None

    def hand_out(self, run: int, number: int) -> None:
        """Note that somebody is on the way; a `ValueError` says why this cannot be."""
        account = self.accounts.get(run)
        if account is None or account.ended:
            raise ValueError("there is no such run, or it has ended")
        again = number in account.lost or number in account.away
        if not again and number != account.fresh:
            raise ValueError(f"the next number of this run is {account.fresh}")
        if number >= (self.beginners if account.settled < self.beginners else self._budget):
            raise ValueError(f"only {account.settled} of this run were settled")
        account.lost.discard(number)
        account.away[number] = account.settled
        account.fresh = max(account.fresh, number + 1)

    def lose(self, who: Collection[tuple[int, int]]) -> None:
        """Hand those out again who are on a way that leads nowhere."""
        for run, number in who:
            account = self.accounts[run]
            if account.away.pop(number, None) is not None:
                account.lost.add(number)

    def is_away(self, run: int, number: int) -> bool:
        """Say whether somebody is on the way."""
        account = self.accounts.get(run)
        return account is not None and number in account.away

    def settle(self, run: int, number: int, *, failed: bool = False) -> int:
        """Note that somebody has arrived, and return how many were settled now."""
        account = self.accounts[run]
        stale = account.settled - account.away.pop(number)
        account.settled += 1
        account.failed += failed
        if number >= self.beginners:
            account.children += 1
            account.stale += stale
            account.most = max(account.most, stale)
        return account.settled

    def end(self, run: int) -> None:
        """Note that a run has ended; whoever is on the way for it is forgotten."""
        account = self.accounts[run]
        account.ended = True
        account.away.clear()
        account.lost.clear()

    def interval(self, run: int) -> dict[str, Any]:
        """Return what the metrics say of a logging interval that ends here; the next one begins."""
        account = self.accounts[run]
        told = {
            "staleness": account.stale / account.children if account.children else None,
            "staleness_most": account.most if account.children else None,
            "failed": account.failed,
        }
        account.children = account.stale = account.most = account.failed = 0
        return told

    def apart(self, run: int) -> Apart:
        """Return what is worth keeping of a run."""
        account = self.accounts[run]
        away = tuple(sorted(account.lost | account.away.keys()))
        return Apart(away, account.children, account.stale, account.most, account.failed)

    def restore(self, run: int, settled: int, kept: Apart) -> None:
        """Go on with a run of which so many were settled."""
        self.accounts[run] = Account(
            settled=settled,
            fresh=settled + len(kept.away),
            # A budget that is less than it was then has no use for later ones, and can be spent without them.
            lost={number for number in kept.away if number < self._budget},
            children=kept.children,
            stale=kept.stale,
            most=kept.most,
            failed=kept.failed,
        )
