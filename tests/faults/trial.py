"""One fault that was injected, and what became of the experiment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tests.faults.final import Final


class Trial(NamedTuple):
    """What was done, whether it was survived, and how many pieces of the result were lost."""

    what: str
    survived: bool
    """Whether what was said and returned is right, and the experiment came to its end afterwards."""
    lost: int
    words: str = ""
    """What went wrong, or what is worth knowing."""


def compared(what: str, expected: Final, found: Final, problems: Iterable[str] = ()) -> Trial:
    """Return a trial from what should have come of it and what has, and from what else was not right."""
    lost, wrong = expected.lost(found), list(problems)
    words = "; ".join([*wrong, *(f"other: {name}" for name in lost[:5])])
    return Trial(what, not wrong and found.pieces.get("status", "finished") == "finished", len(lost), words)


def assert_nothing_lost(trials: Iterable[Trial]) -> int:
    """Fail with the words of all that went wrong, and return how many there were."""
    found = list(trials)
    wrong = [f"{trial.what}: {trial.words or 'did not survive'}" for trial in found if trial.lost or not trial.survived]
    assert not wrong, "\n".join(wrong)
    assert found, "no fault was injected"
    return len(found)
