"""When a run is logged: at regular numbers of evaluations, once its first individuals are there."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Intervals:
    """The regular ends of a run's logging intervals; it has another one where it ends.

    >>> intervals = Intervals(every=20, beginners=40)
    >>> [number for number in range(0, 101, 10) if number in intervals]
    [60, 80, 100]
    >>> list(intervals.until(85))
    [60, 80]
    """

    every: int
    """Evaluations between two of them."""
    beginners: int
    """How many first individuals there are: up to these nobody has had a child."""

    def __contains__(self, evaluations: int) -> bool:
        return evaluations % self.every == 0 and evaluations > self.beginners

    def until(self, evaluations: int) -> range:
        """Return those up to so many evaluations."""
        return range((self.beginners // self.every + 1) * self.every, evaluations + 1, self.every)
