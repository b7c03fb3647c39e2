"""Significance tests between methods: Mann-Whitney, Barnard and log-rank, adjusted by Holm's method."""

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
"""Points at which SciPy starts its search for the largest p-value; with its default of 32 it misses some."""


def score_statistic(first: tuple[int, int], second: tuple[int, int]) -> float:
    """Compute the difference of two shares over its pooled standard error, by which Barnard's test orders outcomes."""
    (solved, runs), (other_solved, other_runs) = first, second
    pooled = (solved + other_solved) / (runs + other_runs)
    return (solved / runs - other_solved / other_runs) / sqrt(pooled * (1 - pooled) * (1 / runs + 1 / other_runs))


def barnard_p_value(first: tuple[int, int], second: tuple[int, int]) -> float:
    """Compute the two-sided p-value of Barnard's exact test.

    SciPy compares rounded scores, and misses outcomes that are exactly as extreme as the observed one (its issue
    18798): 6 and 13 of 20 would get 0.034, but 0.038 is right. All outcomes with the same score have the same p-value,
    so the largest one that SciPy finds for any of them is correct.

    Args:
        first: Number of solved runs, and number of runs; in both together, neither all nor none are solved.
        second: The same for the other method.
    """
    # The test is symmetric; caching one of the two orders is enough.
    return _p(*min((first, second), (second, first)))


@lru_cache(maxsize=4096)
def _p(first: tuple[int, int], second: tuple[int, int]) -> float:
    if first[0] * second[1] == second[0] * first[1]:
        return 1.0  # equal shares: every outcome is at least as extreme
    tables = [
        ((solved, other), (first[1] - solved, second[1] - other))
        for solved, other in _as_extreme(first, second)
        if first[1] != second[1] or solved <= other
    ]
    return min(1.0, max(float(stats.barnard_exact(table, n=POINTS).pvalue) for table in tables))


def _as_extreme(first: tuple[int, int], second: tuple[int, int]) -> list[tuple[int, int]]:
    """Return the numbers of solved runs that have the same score up to its sign."""
    (solved, runs), (other, others) = first, second
    # In integers, where equality is exact: the squared score is their ratio, up to a constant factor.
    # They fit into 64 bits up to 1,400 runs per side.
    counts, other_counts = np.arange(runs + 1, dtype=np.int64)[:, None], np.arange(others + 1, dtype=np.int64)
    numerator = (counts * others - other_counts * runs) ** 2
    denominator = (counts + other_counts) * (runs + others - counts - other_counts)
    same = numerator * denominator[solved, other] == numerator[solved, other] * denominator
    return [(int(i), int(j)) for i, j in np.argwhere(same & (denominator > 0))]


ENUMERABLE = 20_000
"""Largest number of permutations that are enumerated for an exact p-value with ties."""


@dataclass(frozen=True)
class Verdict:
    """Result of a two-sided test; p is None if the test could not be made."""

    test: str
    statistic: float | None
    p: float | None
    adjusted: float | None = None
    """The p-value adjusted for its family of tests; None outside of a family."""
    note: str = ""
    """A remark on the result."""


def _too_few(test: str, what: str = "runs") -> Verdict:
    return Verdict(test, None, None, note=f"needs two {what} or more on each side")


def mann_whitney(first: Sequence[float], second: Sequence[float], *, what: str = "runs") -> Verdict:
    """Compare the locations of two samples by the Mann-Whitney U test.

    Small samples are tested exactly, also with ties, where the normal approximation is too optimistic.

    Args:
        first: The first sample; infinite values are tied with each other and later than all others.
        second: The second sample.
        what: What the samples consist of, for the notes.
    """
    name = "Mann-Whitney U"
    sizes = len(first), len(second)
    if min(sizes) < 2:
        return _too_few(name, what)
    ranks = stats.rankdata([*first, *second])
    if np.ptp(ranks) == 0:
        return Verdict(name, sizes[0] * sizes[1] / 2, 1.0, note=f"all {what} are tied")
    tied = np.unique(ranks).size < ranks.size
    permutations = comb(sum(sizes), sizes[0])
    method = stats.PermutationMethod(n_resamples=permutations) if tied and permutations <= ENUMERABLE else "auto"
    result = stats.mannwhitneyu(ranks[: sizes[0]], ranks[sizes[0] :], method=method)
    return Verdict(name, float(result.statistic), float(result.pvalue))


def barnard(first: tuple[int, int], second: tuple[int, int]) -> Verdict:
    """Compare two shares by Barnard's exact test.

    Args:
        first: Number of solved runs, and number of runs.
        second: The same for the other method.
    """
    name = "Barnard's exact"
    if min(first[1], second[1]) < 2:
        return _too_few(name)
    solved, runs = first[0] + second[0], first[1] + second[1]
    if solved in (0, runs):
        return Verdict(name, None, 1.0, note="all runs solved on both sides" if solved else "no solved runs")
    return Verdict(name, score_statistic(first, second), barnard_p_value(first, second))


def log_rank(first: tuple[Sequence[int], Sequence[bool]], second: tuple[Sequence[int], Sequence[bool]]) -> Verdict:
    """Compare how soon runs are solved by the log-rank test, which counts unsolved runs until they stopped.

    Args:
        first: The evaluations of each run, and whether it was solved.
        second: The same for the other method.
    """
    name = "log-rank"
    if min(len(first[0]), len(second[0])) < 2:
        return _too_few(name)
    if not (any(first[1]) or any(second[1])):
        return Verdict(name, None, 1.0, note="no solved runs")
    samples = [stats.CensoredData.right_censored(times, np.logical_not(solved)) for times, solved in (first, second)]
    with np.errstate(divide="ignore", invalid="ignore"):
        result = stats.logrank(*samples)
    if not np.isfinite(result.statistic):
        return Verdict(name, None, 1.0, note="runs were solved only all at once, or while only one side was active")
    return Verdict(name, float(result.statistic), float(result.pvalue))


@dataclass(frozen=True)
class Comparison:
    """Comparison of two methods."""

    first: str
    second: str
    at: int | None
    """Number of evaluations for `barnard-at`."""
    verdicts: Mapping[str, Verdict]
    """By test, all two-sided.

    - `mann-whitney-all`: evaluations until the solution, with unsolved runs tied after all others
    - `mann-whitney-solved`: the same among solved runs
    - `barnard-end`: share of solved runs
    - `barnard-at`: share of runs solved within `at` evaluations, if given
    - `log-rank`: how soon runs are solved; an unsolved run counts until it stopped
    - `mann-whitney-fitness`: best fitness at the end of each run; a run without a finite fitness is below all others
    """
    superiority: float | None
    """Probability that a run of the first is faster than one of the second, ties half (Vargha and Delaney's A).

    Unsolved runs are tied at the end. None if a side has no runs.
    """
    solved_difference: Difference | None
    """Difference of the shares solved, first minus second; None if a side has no runs."""


def compare(first: Method, second: Method, *, at: int | None = None) -> Comparison:
    """Compare two methods.

    A run that stopped unsolved before the budget counts as unsolved in all tests except the log-rank test; the
    verdict's note says so.

    Args:
        first: A method.
        second: The method to compare it with.
        at: Also compare the shares solved within this many evaluations.
    """
    budget = max(first.budget, second.budget)
    verdicts = {
        "mann-whitney-all": _add_note(_mann_whitney_all(first, second), first, second, budget),
        "mann-whitney-solved": _mann_whitney_solved(first, second),
        "barnard-end": _add_note(barnard(_solved(first), _solved(second)), first, second, budget),
    }
    if at is not None:
        verdicts["barnard-at"] = _add_note(barnard(_solved(first, at), _solved(second, at)), first, second, at)
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
        return _too_few("Mann-Whitney U")
    return mann_whitney(_solutions(first), _solutions(second), what="solved runs")


def _superiority(first: list[float], second: list[float]) -> float:
    # U counts the pairs in which the first took longer.
    longer = float(stats.mannwhitneyu(first, second, method="asymptotic").statistic)
    return 1 - longer / (len(first) * len(second))


def _add_note(verdict: Verdict, first: Method, second: Method, end: int) -> Verdict:
    """Add the number of runs that stopped early and might have been solved by the end."""
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

    A test that could not be made has no p-value and is not part of the family.

    >>> holm([0.5, None, 0.125])
    [0.5, None, 0.25]
    """
    tests = sorted((p, i) for i, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, i) in enumerate(tests):
        largest = max(largest, min(1.0, (len(tests) - rank) * p))
        adjusted[i] = largest
    return adjusted


def compare_all(study: Study, *, baseline: str | None = None, at: int | None = None) -> list[Comparison]:
    """Compare all pairs of a study's methods, or every other method with the baseline.

    The p-values of each test are adjusted over all pairs.

    Args:
        study: The methods.
        baseline: The second method of every comparison; if None, all pairs are compared in the study's order.
        at: Also compare the shares solved within this many evaluations.
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
    return _adjust([compare(first, second, at=at) for first, second in pairs])


def is_significant(verdict: Verdict, level: float = 0.05) -> bool:
    """Return whether the adjusted p-value is below the level; False if it was not adjusted."""
    return verdict.adjusted is not None and verdict.adjusted < level


def _adjust(comparisons: list[Comparison]) -> list[Comparison]:
    verdicts: list[dict[str, Verdict]] = [dict(comparison.verdicts) for comparison in comparisons]
    for key in verdicts[0] if verdicts else ():
        for of_pair, adjusted in zip(verdicts, holm([of_pair[key].p for of_pair in verdicts]), strict=True):
            of_pair[key] = replace(of_pair[key], adjusted=adjusted)
    return [replace(comparison, verdicts=of_pair) for comparison, of_pair in zip(comparisons, verdicts, strict=True)]


def retention(fitness_of_parent: float, fitness_of_children: npt.ArrayLike, worst: float) -> npt.NDArray[np.float64]:
    """Compute the fraction of the parent's performance that each child retains, from 0 to 1.

    That is `(child - worst) / (parent - worst)`, clipped. A child whose fitness is not finite retains nothing. If the
    parent is no better than `worst`, a child that is at least as good as the parent retains all, any other nothing.

    Args:
        fitness_of_parent: Performance of the parent.
        fitness_of_children: Performance of each child.
        worst: The performance that counts as zero.
    """
    if not (isfinite(fitness_of_parent) and isfinite(worst)):
        raise TfsmError(
            f"the fitness of the parent and the worst fitness must be finite, not {fitness_of_parent} and {worst}"
        )
    children = np.asarray(fitness_of_children, np.float64)
    finite = np.isfinite(children)
    # Halved, because the difference of two numbers may overflow.
    gap = fitness_of_parent / 2 - worst / 2
    if gap <= 0:
        return np.where(finite & (children >= fitness_of_parent), 1.0, 0.0)
    clipped = np.clip(np.where(finite, children, worst), worst, fitness_of_parent)
    return np.asarray((clipped / 2 - worst / 2) / gap)


def compare_retention(a: npt.ArrayLike, b: npt.ArrayLike) -> Verdict:
    """Compare the fractions retained under two operators by the Mann-Whitney U test, such as means per solution."""
    first, second = np.ravel(np.asarray(a, np.float64)), np.ravel(np.asarray(b, np.float64))
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise TfsmError("fractions of performance retained must be finite")
    return mann_whitney(first.tolist(), second.tolist(), what="values")
