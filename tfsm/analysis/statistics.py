"""Fitness and success curves, confidence intervals, and summaries of a method's runs."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from math import hypot, isfinite
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import stats

from tfsm.analysis.results import Method
from tfsm.errors import TfsmError

RESAMPLES = 2_000
BATCH = 100
"""Resamples in memory at once."""

Floats: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int64]
Booleans: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class FitnessCurve:
    """Best fitness so far over evaluations, averaged over the middle half of the runs."""

    evaluations: Integers
    """`[T]`, increasing up to the budget."""
    middle: Floats
    """`[T]`: the interquartile mean over runs; the plain mean if there are fewer than four."""
    low: Floats
    """`[T]`: lower end of the bootstrap interval of the mean; `high` is the upper end."""
    high: Floats
    count: int
    """Number of runs."""


def fitness_curve(
    method: Method, *, budget: int, points: int = 200, confidence: float = 0.95, seed: int = 0
) -> FitnessCurve:
    """Compute the interquartile mean of the best fitness so far, with a bootstrap interval.

    The best fitness of a run is the last one logged, also after the run has ended. The curve begins where every run
    has a logged fitness. A run without any finite fitness is left out.

    Args:
        method: The runs.
        budget: The last point of the curve, in evaluations.
        points: Number of points.
        confidence: Level of the interval.
        seed: Random seed of the bootstrap.
    """
    grid, best = _sample_best_fitness(method, budget, points)
    middle, low, high = _bootstrap(best, confidence, seed)
    return FitnessCurve(grid, middle, low, high, best.shape[-1])


def mean_best_fitness(method: Method, *, budget: int, points: int = 1_000) -> Floats:
    """Compute the best fitness so far of each run `[runs]`, averaged over all evaluations of the budget.

    It shows which method is ahead for longer, even if all reach the same fitness in the end or none solves a run.

    Args:
        method: The runs.
        budget: Evaluations to average over.
        points: Number of points at which the fitness is sampled.
    """
    _, best = _sample_best_fitness(method, budget, points)
    return np.asarray(best.mean(axis=0))


def _sample_best_fitness(method: Method, budget: int, points: int) -> tuple[Integers, Floats]:
    """Return evaluations `[T]`, and the best fitness of each run by then `[T, runs]`."""
    runs = _logged_fitness(method)
    start = max((int(evaluations[0]) for evaluations, _ in runs), default=budget + 1)
    if start > budget:
        raise TfsmError(f"{method.name}: not all runs have a fitness within {budget:,} evaluations")
    grid = np.unique(np.linspace(start, budget, points).round().astype(np.int64))
    best = [fitness[np.searchsorted(evaluations, grid, side="right") - 1] for evaluations, fitness in runs]
    return grid, np.stack(best, axis=-1)


def _logged_fitness(method: Method) -> list[tuple[Integers, Floats]]:
    """Return for each run the evaluations at which a finite fitness was logged, and the best fitness by then."""
    runs: dict[int, list[tuple[int, float]]] = {}
    for metrics in method.metrics:
        fitness = metrics["best_fitness"]
        if fitness is not None and np.isfinite(fitness):
            runs.setdefault(metrics["run"], []).append((metrics["evaluations"], fitness))
    return [
        (np.array(evaluations, np.int64), np.maximum.accumulate(np.array(fitness, np.float64)))
        for evaluations, fitness in (zip(*sorted(runs[run]), strict=True) for run in sorted(runs))
    ]


def _bootstrap(best: Floats, confidence: float, seed: int) -> tuple[Floats, Floats, Floats]:
    """Return the interquartile mean over runs and its percentile interval, each `[T]`."""
    middle = best[:, 0].copy()  # exact where all runs agree; the mean of equal numbers would be rounded
    low, high = middle.copy(), middle.copy()
    differ = np.ptp(best, axis=-1) > 0
    if differ.any():
        middle[differ] = _interquartile_mean(best[differ])
        interval = stats.bootstrap(
            (best[differ],),
            _interquartile_mean,
            n_resamples=RESAMPLES,
            batch=BATCH,
            vectorized=True,
            axis=-1,
            confidence_level=confidence,
            method="percentile",
            random_state=np.random.default_rng(seed),
        ).confidence_interval
        # Rounding may put an end on the wrong side of the mean.
        low[differ] = np.minimum(interval.low, middle[differ])
        high[differ] = np.maximum(interval.high, middle[differ])
    return middle, low, high


def _interquartile_mean(values: Floats, axis: int = -1) -> Floats:
    return np.asarray(stats.trim_mean(values, 0.25, axis=axis))


@dataclass(frozen=True)
class Difference:
    """Difference of two shares, with its interval."""

    value: float
    low: float
    high: float


def wilson_interval(solved: int, runs: int, confidence: float = 0.95) -> tuple[float, float]:
    """Compute Wilson's score interval of the share `solved / runs`; `runs` must be positive."""
    interval = stats.binomtest(solved, runs).proportion_ci(confidence, method="wilson")
    return float(interval.low), float(interval.high)


def newcombe_interval(first: tuple[int, int], second: tuple[int, int], confidence: float = 0.95) -> Difference:
    r"""Compute the difference of two shares, first minus second, with Newcombe's interval.

    Its limits combine the Wilson limits :math:`l, u` of the two shares:

    .. math:: d - \sqrt{(p_1 - l_1)^2 + (u_2 - p_2)^2}, \quad d + \sqrt{(u_1 - p_1)^2 + (p_2 - l_2)^2}

    Args:
        first: Number of solved runs, and number of runs.
        second: The same for the other method.
        confidence: Level of the interval.
    """
    (share, other), (low, high), (other_low, other_high) = (
        (first[0] / first[1], second[0] / second[1]),
        wilson_interval(*first, confidence),
        wilson_interval(*second, confidence),
    )
    value = share - other
    return Difference(
        value, value - hypot(share - low, other_high - other), value + hypot(high - share, other - other_low)
    )


@dataclass(frozen=True, eq=False)
class SolvedCurve:
    """Share of runs solved over evaluations: a right-continuous step function."""

    evaluations: Integers
    """`[T]`, increasing from 0 to the budget."""
    share: Floats
    """`[T]`: the share of runs solved so far; never decreases."""
    low: Floats
    """`[T]`: lower end of the pointwise confidence interval; `high` is the upper end."""
    high: Floats


def solved_curve(
    method: Method,
    *,
    budget: int,
    kind: Literal["kaplan-meier", "wilson"] = "kaplan-meier",
    confidence: float = 0.95,
) -> SolvedCurve:
    """Compute the share of a method's runs that are solved within a number of evaluations.

    A solution after the budget counts as unsolved. The kinds differ in how they treat runs that stopped unsolved before
    the budget, because they were interrupted or had a smaller budget of their own:

    - `kaplan-meier` counts them until they stopped. After the last run has stopped, the curve stays constant. Its
      interval is the log-log interval, which is undefined where the share is 0 or 1. There, Wilson's interval is used,
      with the effective number of runs: those still active, divided by the share that was unsolved at that point.
      Without runs that stopped early this is the number of runs.
    - `wilson` counts them as unsolved. Its share refers to all runs, and is too low if they would have been solved.

    Args:
        method: The runs.
        budget: The last point of the curve, in evaluations.
        kind: The estimate.
        confidence: Level of the interval.
    """
    if not method.outcomes:
        raise TfsmError(f"{method.name}: no run has ended")
    times = np.array([min(outcome.evaluations, budget) for outcome in method.outcomes], np.int64)
    solved = np.array([outcome.solved and outcome.evaluations <= budget for outcome in method.outcomes], np.bool_)
    if kind == "wilson":
        return _wilson_curve(times, solved, budget, confidence)
    return _kaplan_meier_curve(times, solved, budget, confidence)


def _wilson_curve(times: Integers, solved: Booleans, budget: int, confidence: float) -> SolvedCurve:
    evaluations = np.unique(np.array([0, *times[solved], budget], np.int64))
    counts = np.searchsorted(np.sort(times[solved]), evaluations, side="right")
    low, high = np.array([wilson_interval(int(count), times.size, confidence) for count in counts]).T
    return SolvedCurve(evaluations, counts / times.size, low, high)


def _kaplan_meier_curve(times: Integers, solved: Booleans, budget: int, confidence: float) -> SolvedCurve:
    estimate = stats.ecdf(stats.CensoredData.right_censored(times, ~solved)).cdf
    with warnings.catch_warnings():
        # Where this interval is undefined, another one replaces it below; the warning is no news to the user.
        warnings.filterwarnings("ignore", "The confidence interval is undefined", RuntimeWarning)
        interval = estimate.confidence_interval(confidence, method="log-log")
    evaluations = np.unique(np.array([0, *times, budget], np.int64))
    step = np.searchsorted(estimate.quantiles, evaluations, side="right")
    share, low, high = (
        np.concatenate([[0.0], function.probabilities])[step] for function in (estimate, interval.low, interval.high)
    )
    last = int(np.count_nonzero(times == times.max()))
    for i in np.flatnonzero(share == 0):
        active = max(int(np.count_nonzero(times > evaluations[i])), last)
        low[i], high[i] = wilson_interval(0, active, confidence)
    if share[-1] == 1:
        unsolved = 1 - share[share < 1].max(initial=0.0)
        effective = int(last / unsolved + 1e-6)  # an integer up to rounding if no run stopped early
        low[share == 1], high[share == 1] = wilson_interval(effective, effective, confidence)
    return SolvedCurve(evaluations, share, low, high)


@dataclass(frozen=True)
class MethodSummary:
    """A method's runs in a few numbers."""

    name: str
    runs: int
    solved: int
    share: float
    share_interval: tuple[float, float]
    """Wilson's interval."""
    median_evaluations: float | None
    """Over all runs, with unsolved runs later than every solution; None if fewer than half were solved.

    If exactly half were solved, it is the last of those solutions: by then half of the runs were solved.
    """
    median_interval: tuple[float | None, float | None]
    """From order statistics; an end is None if too few runs, or too few solved ones, determine it."""
    mean_solved: float | None
    """Mean evaluations of the solved runs, None if there are none; flatters a method that seldom solves."""
    median_solved: float | None
    median_best_fitness: float | None
    """Over the runs whose best fitness is finite."""


def summarize(method: Method, *, confidence: float = 0.95) -> MethodSummary:
    """Summarize a method's runs."""
    if not method.outcomes:
        raise TfsmError(f"{method.name}: no run has ended")
    solutions = sorted(float(outcome.evaluations) for outcome in method.outcomes if outcome.solved)
    fitness = [outcome.best_fitness for outcome in method.outcomes if outcome.best_fitness is not None]
    runs, solved = len(method.outcomes), len(solutions)
    return MethodSummary(
        name=method.name,
        runs=runs,
        solved=solved,
        share=solved / runs,
        share_interval=wilson_interval(solved, runs, confidence),
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
