"""Shares of runs, and how sure one can be of them."""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot

from scipy import stats


@dataclass(frozen=True)
class Difference:
    """How much larger one share is than another."""

    value: float
    low: float
    high: float


def wilson(solved: int, runs: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return Wilson's score interval of the share `solved / runs`; there must be a run."""
    interval = stats.binomtest(solved, runs).proportion_ci(confidence, method="wilson")
    return float(interval.low), float(interval.high)


def newcombe(first: tuple[int, int], second: tuple[int, int], confidence: float = 0.95) -> Difference:
    r"""Return how much more of the first was solved, with Newcombe's interval of the difference of two shares.

    Its limits lie as far from the difference as the four Wilson limits :math:`l, u` of the shares say together:

    .. math:: d - \sqrt{(p_1 - l_1)^2 + (u_2 - p_2)^2}, \quad d + \sqrt{(u_1 - p_1)^2 + (p_2 - l_2)^2}

    Args:
        first: How many runs were solved, and how many there were.
        second: The same of the method it is compared with.
        confidence: Of the interval.
    """
    (share, other), (low, high), (other_low, other_high) = (
        (first[0] / first[1], second[0] / second[1]),
        wilson(*first, confidence),
        wilson(*second, confidence),
    )
    value = share - other
    return Difference(
        value, value - hypot(share - low, other_high - other), value + hypot(high - share, other - other_low)
    )
