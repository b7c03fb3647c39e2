"""Two methods compared: who is faster, and who solves more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf

from scipy import stats

from tfsm.experiments.outcomes import Method
from tfsm.experiments.statistics.proportions import Difference, newcombe
from tfsm.experiments.statistics.verdicts import Verdict, barnard, log_rank, mann_whitney, too_few


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
        solved_difference=None if empty else newcombe(_solved(first), _solved(second)),
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
