"""What a check that fails says: what was found, and what the author can do about it."""

from __future__ import annotations


class Failed(AssertionError):
    """A part does not satisfy a check.

    Args:
        found: what is wrong, with numbers.
        advice: what to do about it.
    """

    def __init__(self, found: str, advice: str) -> None:
        self.found, self.advice = found, advice
        super().__init__(f"{found}\nwhat to do: {advice}")


def require(condition: object, found: str, advice: str) -> None:
    """Fail unless something is so."""
    if not bool(condition):
        raise Failed(found, advice)
