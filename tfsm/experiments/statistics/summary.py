"""One method's runs in a few numbers."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

import numpy as np
from scipy import stats

from tfsm.errors import TfsmError
from tfsm.experiments.outcomes import Method
from tfsm.experiments.statistics.proportions import wilson


@dataclass(frozen=True)
class Summary:
    """What a table says of a method."""

    name: str
    runs: int
    solved: int
    share: float
    share_interval: tuple[float, float]
    """Wilson's."""
    median_evaluations: float | None
    """Of all runs, an unsolved one later than every solution; nothing if less than half were solved.

    Where exactly half were solved it is the last of those solutions: by then half of the runs were solved.
    """
    median_interval: tuple[float | None, float | None]
    """From order statistics; an end is nothing where there are too few runs for it, or too few that were solved."""
    mean_solved: float | None
    """Mean evaluations of the solved runs alone, nothing without any; flatters a method that seldom solves."""
    median_solved: float | None
    median_best_fitness: float | None
    """Of the runs whose best fitness is finite."""


def summarize(method: Method, *, confidence: float = 0.95) -> Summary:
    """Return a method's runs in a few numbers."""
    if not method.outcomes:
        raise TfsmError(f"{method.name}: no run has ended, so there is nothing to tell of it")
    solutions = sorted(float(outcome.evaluations) for outcome in method.outcomes if outcome.solved)
    fitness = [outcome.best_fitness for outcome in method.outcomes if outcome.best_fitness is not None]
    runs, solved = len(method.outcomes), len(solutions)
    return Summary(
        name=method.name,
        runs=runs,
        solved=solved,
        share=solved / runs,
        share_interval=wilson(solved, runs, confidence),
        median_evaluations=solutions[-1] if 2 * solved == runs else _median(_with_unsolved(solutions, runs)),
        median_interval=_median_interval(_with_unsolved(solutions, runs), confidence),
        mean_solved=float(np.mean(solutions)) if solutions else None,
        median_solved=_median(solutions),
        median_best_fitness=_median([value for value in fitness if isfinite(value)]),
    )


def _with_unsolved(solutions: list[float], runs: int) -> list[float]:
    return solutions + [float("inf")] * (runs - len(solutions))


def _median(values: list[float]) -> float | None:
    return _finite(float(np.median(values))) if values else None


def _median_interval(values: list[float], confidence: float) -> tuple[float | None, float | None]:
    # The interval does not depend on the median that is tested.
    interval = stats.quantile_test(values, q=0, p=0.5).confidence_interval(confidence)
    return _finite(interval.low), _finite(interval.high)


def _finite(value: float) -> float | None:
    return float(value) if isfinite(value) else None
