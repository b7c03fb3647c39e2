"""Barnard's exact test of two shares."""

from __future__ import annotations

from functools import lru_cache
from math import sqrt

import numpy as np
from scipy import stats

POINTS = 128
"""Where SciPy starts to look for the largest p-value; with the 32 of its own it misses some."""


def score(first: tuple[int, int], second: tuple[int, int]) -> float:
    """Return the difference of two shares over its pooled standard error, by which the test orders all outcomes."""
    (solved, runs), (other_solved, other_runs) = first, second
    pooled = (solved + other_solved) / (runs + other_runs)
    return (solved / runs - other_solved / other_runs) / sqrt(pooled * (1 - pooled) * (1 / runs + 1 / other_runs))


def barnard_p(first: tuple[int, int], second: tuple[int, int]) -> float:
    """Return the two-sided p-value; a share is the number solved and the number of runs, and neither all nor none are.

    SciPy compares rounded scores, and misses outcomes that are exactly as extreme as the observed one (its issue
    18798): 6 and 13 of 20 would get 0.034 where 0.038 is right. All outcomes of an equal score have the same p-value,
    so that the largest one that SciPy finds for any of them is it.
    """
    # The same either way round; one of the two is enough.
    return _p(*min((first, second), (second, first)))


@lru_cache(maxsize=4096)
def _p(first: tuple[int, int], second: tuple[int, int]) -> float:
    if first[0] * second[1] == second[0] * first[1]:
        return 1.0  # no difference at all: every outcome is as extreme
    tables = [
        ((solved, other), (first[1] - solved, second[1] - other))
        for solved, other in _as_extreme(first, second)
        if first[1] != second[1] or solved <= other
    ]
    return min(1.0, max(float(stats.barnard_exact(table, n=POINTS).pvalue) for table in tables))


def _as_extreme(first: tuple[int, int], second: tuple[int, int]) -> list[tuple[int, int]]:
    """Return how many might have been solved of each so that the score is the same but for its sign."""
    (solved, runs), (other, others) = first, second
    # In whole numbers, where equal is equal: the squared score is their ratio, but for a constant.
    # They fit into 64 bits up to 1,400 runs a side.
    counts, other_counts = np.arange(runs + 1, dtype=np.int64)[:, None], np.arange(others + 1, dtype=np.int64)
    above = (counts * others - other_counts * runs) ** 2
    below = (counts + other_counts) * (runs + others - counts - other_counts)
    equal = (above * below[solved, other] == above[solved, other] * below) & (below > 0)
    return [(int(i), int(j)) for i, j in np.argwhere(equal)]
