"""Tests of whether two samples differ, which never fail: where there is nothing to test they say so in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

import numpy as np
from scipy import stats

from tfsm.experiments.statistics.barnard import barnard_p, score

ENUMERABLE = 20_000
"""Ways to deal the values to the two samples that are still gone through one by one."""


@dataclass(frozen=True)
class Verdict:
    """What a two-sided test says; p is nothing if it could not be made."""

    test: str
    statistic: float | None
    p: float | None
    adjusted: float | None = None
    """The p-value among those of its family; nothing outside of one."""
    note: str = ""
    """What to know about it, in words."""


def too_few(test: str, what: str = "runs") -> Verdict:
    """Return the verdict that samples are too small."""
    return Verdict(test, None, None, note=f"needs two {what} or more on each side")


def mann_whitney(first: Sequence[float], second: Sequence[float], *, what: str = "runs") -> Verdict:
    """Compare where two samples lie, by the Mann-Whitney U test.

    Small samples are tested exactly, also with ties, for which the normal approximation promises too much.

    Args:
        first: The first sample; infinity is later than everything, and tied with itself.
        second: The second sample.
        what: The samples are of.
    """
    name = "Mann-Whitney U"
    sizes = len(first), len(second)
    if min(sizes) < 2:
        return too_few(name, what)
    ranks = stats.rankdata([*first, *second])
    if np.ptp(ranks) == 0:
        return Verdict(name, sizes[0] * sizes[1] / 2, 1.0, note=f"all {what} are tied")
    tied = np.unique(ranks).size < ranks.size
    deals = comb(sum(sizes), sizes[0])
    method = stats.PermutationMethod(n_resamples=deals) if tied and deals <= ENUMERABLE else "auto"
    result = stats.mannwhitneyu(ranks[: sizes[0]], ranks[sizes[0] :], method=method)
    return Verdict(name, float(result.statistic), float(result.pvalue))


def barnard(first: tuple[int, int], second: tuple[int, int]) -> Verdict:
    """Compare two shares, each given as the number solved and the number of runs, by Barnard's exact test."""
    name = "Barnard's exact"
    if min(first[1], second[1]) < 2:
        return too_few(name)
    solved, runs = first[0] + second[0], first[1] + second[1]
    if solved in (0, runs):
        return Verdict(name, None, 1.0, note="all runs solved on both sides" if solved else "no solved runs")
    return Verdict(name, score(first, second), barnard_p(first, second))


def log_rank(first: tuple[Sequence[int], Sequence[bool]], second: tuple[Sequence[int], Sequence[bool]]) -> Verdict:
    """Compare how soon runs are solved, by the log-rank test, in which runs count for as long as they went on.

    Args:
        first: The evaluations of each run, and whether it was solved then.
        second: The same of the method it is compared with.
    """
    name = "log-rank"
    if min(len(first[0]), len(second[0])) < 2:
        return too_few(name)
    if not (any(first[1]) or any(second[1])):
        return Verdict(name, None, 1.0, note="no solved runs")
    samples = [stats.CensoredData.right_censored(times, np.logical_not(solved)) for times, solved in (first, second)]
    with np.errstate(divide="ignore", invalid="ignore"):
        result = stats.logrank(*samples)
    if not np.isfinite(result.statistic):
        return Verdict(name, None, 1.0, note="runs were solved only all at once, or while one side alone went on")
    return Verdict(name, float(result.statistic), float(result.pvalue))
