"""Mann-Whitney, Barnard, log-rank, Holm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from math import comb, inf, isfinite, sqrt

import numpy as np
import numpy.typing as npt
from scipy import stats

from tfsm.analysis.results import Method, Study, method_names
from tfsm.analysis.statistics import Difference, newcombe_interval
from tfsm.errors import TfsmError

POINTS = 128
"""Where SciPy starts to look for the largest p-value; with the 32 of its own it misses some."""


def score_statistic(first: tuple[int, int], second: tuple[int, int]) -> float:
    """Return the difference of two shares over its pooled standard error, by which the test orders all outcomes."""
    (solved, runs), (other_solved, other_runs) = first, second
    pooled = (solved + other_solved) / (runs + other_runs)
    return (solved / runs - other_solved / other_runs) / sqrt(pooled * (1 - pooled) * (1 / runs + 1 / other_runs))


def barnard_p_value(first: tuple[int, int], second: tuple[int, int]) -> float:
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
    return Verdict(name, score_statistic(first, second), barnard_p_value(first, second))


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


@dataclass(frozen=True)
class Comparison:
    """How two methods compare."""

    first: str
    second: str
    at: int | None
    """The evaluations of `barnard-at`."""
    verdicts: Mapping[str, Verdict]
    """By test, all two-sided.

    - `mann-whitney-all`: evaluations to the solution, unsolved runs tied beyond the largest
    - `mann-whitney-solved`: those of the solved runs alone
    - `barnard-end`: how many were solved
    - `barnard-at`: how many were solved within some evaluations, if they were given
    - `log-rank`: how soon runs are solved, an unsolved one counting for as long as it went on
    - `mann-whitney-fitness`: the best fitness of each run, at its end; one without a finite fitness is below all
    """
    superiority: float | None
    """The probability that a run of the first is faster than one of the second, ties half (Vargha and Delaney's A).

    Unsolved runs are tied at the end. Nothing if a side has no runs.
    """
    solved_difference: Difference | None
    """Of the shares solved, first minus second; nothing if a side has no runs."""


def compare(first: Method, second: Method, *, at: int | None = None) -> Comparison:
    """Compare two methods.

    A run that stopped unsolved before the budget counts as unsolved where a test cannot say otherwise; then the
    verdict's note tells so. Only the log-rank test can.

    Args:
        first: A method.
        second: The method it is compared with.
        at: Evaluations within which to compare how many were solved.
    """
    budget = max(first.budget, second.budget)
    verdicts = {
        "mann-whitney-all": _noted(_mann_whitney_all(first, second), first, second, budget),
        "mann-whitney-solved": _mann_whitney_solved(first, second),
        "barnard-end": _noted(barnard(_solved(first), _solved(second)), first, second, budget),
    }
    if at is not None:
        verdicts["barnard-at"] = _noted(barnard(_solved(first, at), _solved(second, at)), first, second, at)
    verdicts["log-rank"] = log_rank(_observed(first), _observed(second))
    verdicts["mann-whitney-fitness"] = mann_whitney(_fitness(first), _fitness(second))
    empty = not (first.outcomes and second.outcomes)
    return Comparison(
        first=first.name,
        second=second.name,
        at=at,
        verdicts=verdicts,
        superiority=None if empty else _superiority(_with_unsolved(first), _with_unsolved(second)),
        solved_difference=None if empty else newcombe_interval(_solved(first), _solved(second)),
    )


def _mann_whitney_all(first: Method, second: Method) -> Verdict:
    verdict = mann_whitney(_with_unsolved(first), _with_unsolved(second))
    unsolved = first.solved + second.solved == 0
    return replace(verdict, note="no solved runs") if unsolved and verdict.p is not None else verdict


def _mann_whitney_solved(first: Method, second: Method) -> Verdict:
    if min(len(first.outcomes), len(second.outcomes)) < 2:
        return too_few("Mann-Whitney U")
    return mann_whitney(_solutions(first), _solutions(second), what="solved runs")


def _superiority(first: list[float], second: list[float]) -> float:
    # U counts the pairs in which the first took longer.
    longer = float(stats.mannwhitneyu(first, second, method="asymptotic").statistic)
    return 1 - longer / (len(first) * len(second))


def _noted(verdict: Verdict, first: Method, second: Method, end: int) -> Verdict:
    """Say how many runs might have been solved by the end, had they gone on."""
    stopped = sum(not outcome.solved and outcome.evaluations < end for outcome in (*first.outcomes, *second.outcomes))
    if verdict.p is None or not stopped:
        return verdict
    note = f"runs that stopped before {end:,} evaluations and count as unsolved: {stopped}"
    return replace(verdict, note="; ".join(filter(None, (verdict.note, note))))


def _fitness(method: Method) -> list[float]:
    return [-inf if outcome.best_fitness is None else outcome.best_fitness for outcome in method.outcomes]


def _solutions(method: Method) -> list[float]:
    return [float(outcome.evaluations) for outcome in method.outcomes if outcome.solved]


def _with_unsolved(method: Method) -> list[float]:
    return [float(outcome.evaluations) if outcome.solved else float("inf") for outcome in method.outcomes]


def _solved(method: Method, within: float = float("inf")) -> tuple[int, int]:
    solved = sum(outcome.solved and outcome.evaluations <= within for outcome in method.outcomes)
    return solved, len(method.outcomes)


def _observed(method: Method) -> tuple[list[int], list[bool]]:
    return [outcome.evaluations for outcome in method.outcomes], [outcome.solved for outcome in method.outcomes]


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjust the p-values of a family of tests by Holm's step-down method.

    A test that could not be made has no p-value and does not belong to the family.

    >>> holm([0.5, None, 0.125])
    [0.5, None, 0.25]
    """
    made = sorted((p, i) for i, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, i) in enumerate(made):
        largest = max(largest, min(1.0, (len(made) - rank) * p))
        adjusted[i] = largest
    return adjusted


def compare_all(study: Study, *, baseline: str | None = None, at: int | None = None) -> list[Comparison]:
    """Compare all pairs of a study's methods, or every other method with the baseline.

    The p-values of each test are adjusted over all pairs.

    Args:
        study: The methods.
        baseline: The second of every comparison; without one all pairs are compared, in the study's order.
        at: Evaluations within which to compare how many were solved.
    """
    if baseline is None:
        pairs = list(combinations(study.methods, 2))
    else:
        base = study.method(baseline)
        if base is None:
            raise TfsmError(
                f"no method named {baseline!r} to compare with; there are {', '.join(method_names(study.methods))}"
            )
        pairs = [(method, base) for method in study.methods if method is not base]
    return _adjusted([compare(first, second, at=at) for first, second in pairs])


def is_significant(verdict: Verdict, level: float = 0.05) -> bool:
    """Return whether a difference is significant among all that were looked for; never so without adjusting."""
    return verdict.adjusted is not None and verdict.adjusted < level


def _adjusted(comparisons: list[Comparison]) -> list[Comparison]:
    verdicts: list[dict[str, Verdict]] = [dict(comparison.verdicts) for comparison in comparisons]
    for key in verdicts[0] if verdicts else ():
        for of_pair, adjusted in zip(verdicts, holm([of_pair[key].p for of_pair in verdicts]), strict=True):
            of_pair[key] = replace(of_pair[key], adjusted=adjusted)
    return [replace(comparison, verdicts=of_pair) for comparison, of_pair in zip(comparisons, verdicts, strict=True)]


def retention(fitness_of_parent: float, fitness_of_children: npt.ArrayLike, worst: float) -> npt.NDArray[np.float64]:
    """Return the fraction of the parent's performance that each child retains, from 0 to 1.

    That is `(child - worst) / (parent - worst)`, clipped; a child whose fitness is not finite is broken and retains
    nothing. Of a parent that is no better than the worst, a child that is no worse than the parent retains all, any
    other one nothing.
    """
    if not (isfinite(fitness_of_parent) and isfinite(worst)):
        raise TfsmError(
            f"the parent's fitness and the worst one must be finite numbers, not {fitness_of_parent} and {worst}"
        )
    children = np.asarray(fitness_of_children, np.float64)
    whole = np.isfinite(children)
    # Halves, because the difference of two numbers may be larger than the largest one.
    gap = fitness_of_parent / 2 - worst / 2
    if gap <= 0:
        return np.where(whole & (children >= fitness_of_parent), 1.0, 0.0)
    kept = np.clip(np.where(whole, children, worst), worst, fitness_of_parent)
    return np.asarray((kept / 2 - worst / 2) / gap)


def compare_retention(a: npt.ArrayLike, b: npt.ArrayLike) -> Verdict:
    """Compare what was retained under two operators, by the Mann-Whitney U test: say, the means of each solution."""
    first, second = np.ravel(np.asarray(a, np.float64)), np.ravel(np.asarray(b, np.float64))
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise TfsmError("fractions of performance retained must be finite numbers")
    return mann_whitney(first.tolist(), second.tolist(), what="values")
