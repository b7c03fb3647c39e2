"""Curves, intervals, summaries."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from math import hypot, isfinite
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import stats

from tfsm.analysis.results import Method
from tfsm.errors import TfsmError

RESAMPLES = 2_000
BATCH = 100
"""How many resamples are in memory at once."""


@dataclass(frozen=True, eq=False)
class FitnessCurve:
    """The best fitness so far, in the middle of the runs."""

    evaluations: npt.NDArray[np.int64]
    """`[T]`, rising to the budget."""
    middle: npt.NDArray[np.float64]
    """`[T]`, the interquartile mean over runs; the mean of less than four runs."""
    low: npt.NDArray[np.float64]
    """`[T]`, of the bootstrap interval of the middle, as are the high ends."""
    high: npt.NDArray[np.float64]
    count: int
    """Of how many runs."""


def fitness_curve(
    method: Method, *, budget: int, points: int = 200, confidence: float = 0.95, seed: int = 0
) -> FitnessCurve:
    """Return how the best fitness so far grows with the evaluations, in the middle of a method's runs.

    A run's best fitness is the last one logged, also after the run's end. The curve begins where something is known
    of every run; a run of which no finite fitness was ever logged is left out.
    """
    grid, best = _on_a_grid(method, budget, points)
    middle, low, high = _middles(best, confidence, seed)
    return FitnessCurve(grid, middle, low, high, best.shape[-1])


def mean_best_fitness(method: Method, *, budget: int, points: int = 1_000) -> npt.NDArray[np.float64]:
    """Return the best fitness so far of each run `[runs]`, on average over all evaluations of the budget.

    It tells who is ahead for longer, also where all get to the same fitness in the end, or none solves anything.
    """
    _, best = _on_a_grid(method, budget, points)
    return np.asarray(best.mean(axis=0))


def _on_a_grid(method: Method, budget: int, points: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return evaluations `[T]`, and the best fitness of each run by then `[T, runs]`."""
    known = _known(method)
    start = max((int(evaluations[0]) for evaluations, _ in known), default=budget + 1)
    if start > budget:
        raise TfsmError(f"{method.name}: there is no fitness of all runs within {budget:,} evaluations")
    grid = np.unique(np.linspace(start, budget, points).round().astype(np.int64))
    best = [fitness[np.searchsorted(evaluations, grid, side="right") - 1] for evaluations, fitness in known]
    return grid, np.stack(best, axis=-1)


def _known(method: Method) -> list[tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]]:
    """Return each run's evaluations and its best fitness by then, where that is known."""
    runs: dict[int, list[tuple[int, float]]] = {}
    for metrics in method.metrics:
        fitness = metrics["best_fitness"]
        if fitness is not None and np.isfinite(fitness):
            runs.setdefault(metrics["run"], []).append((metrics["evaluations"], fitness))
    return [
        (np.array(evaluations, np.int64), np.maximum.accumulate(np.array(fitness, np.float64)))
        for evaluations, fitness in (zip(*sorted(runs[run]), strict=True) for run in sorted(runs))
    ]


def _middles(
    best: npt.NDArray[np.float64], confidence: float, seed: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    middle = best[:, 0].copy()  # exact where all runs agree; the mean of equal numbers is rounded
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
        # Rounding may put an end on the wrong side of the middle.
        low[differ] = np.minimum(interval.low, middle[differ])
        high[differ] = np.maximum(interval.high, middle[differ])
    return middle, low, high


def _interquartile_mean(values: npt.NDArray[np.float64], axis: int = -1) -> npt.NDArray[np.float64]:
    return np.asarray(stats.trim_mean(values, 0.25, axis=axis))


@dataclass(frozen=True)
class Difference:
    """How much larger one share is than another."""

    value: float
    low: float
    high: float


def wilson_interval(solved: int, runs: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return Wilson's score interval of the share `solved / runs`; there must be a run."""
    interval = stats.binomtest(solved, runs).proportion_ci(confidence, method="wilson")
    return float(interval.low), float(interval.high)


def newcombe_interval(first: tuple[int, int], second: tuple[int, int], confidence: float = 0.95) -> Difference:
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
        wilson_interval(*first, confidence),
        wilson_interval(*second, confidence),
    )
    value = share - other
    return Difference(
        value, value - hypot(share - low, other_high - other), value + hypot(high - share, other - other_low)
    )


Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class SolvedCurve:
    """A right-continuous step function: from each number of evaluations up to the next one the share is the same."""

    evaluations: Integers
    """`[T]`, rising from 0 to the budget."""
    share: Floats
    """`[T]`, of the runs solved so far; never falls."""
    low: Floats
    """`[T]`, of the confidence interval at each point by itself, as are the high ends."""
    high: Floats


def solved_curve(
    method: Method,
    *,
    budget: int,
    kind: Literal["kaplan-meier", "wilson"] = "kaplan-meier",
    confidence: float = 0.95,
) -> SolvedCurve:
    """Return what share of a method's runs was solved within how many evaluations.

    A solution after the budget counts as none within it. The kinds differ in runs that stopped unsolved before the
    budget, because they were interrupted or had a smaller budget of their own:

    - `kaplan-meier` lets them count for as long as they went on. After the last run has stopped nothing is known, and
      the curve stays as it is. Its interval is the log-log one. That is not defined where the share is 0 or 1; there
      it is Wilson's, of as many runs as the estimate is worth: those still going on, divided by the share that was
      left when they did. Without runs that stopped early that is all of them.
    - `wilson` counts them as unsolved: its share is of all runs, and too low if they would have been solved.
    """
    if not method.outcomes:
        raise TfsmError(f"{method.name}: no run has ended, so there is nothing to tell of it")
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
        # Where the interval is not defined another one is put below; the user need not hear of it.
        warnings.filterwarnings("ignore", "The confidence interval is undefined", RuntimeWarning)
        interval = estimate.confidence_interval(confidence, method="log-log")
    evaluations = np.unique(np.array([0, *times, budget], np.int64))
    step = np.searchsorted(estimate.quantiles, evaluations, side="right")
    share, low, high = (
        np.concatenate([[0.0], function.probabilities])[step] for function in (estimate, interval.low, interval.high)
    )
    last = int(np.count_nonzero(times == times.max()))
    for i in np.flatnonzero(share == 0):
        going_on = max(int(np.count_nonzero(times > evaluations[i])), last)
        low[i], high[i] = wilson_interval(0, going_on, confidence)
    if share[-1] == 1:
        left = 1 - share[share < 1].max(initial=0.0)
        worth = int(last / left + 1e-6)  # without runs that stopped early a whole number, but for rounding
        low[share == 1], high[share == 1] = wilson_interval(worth, worth, confidence)
    return SolvedCurve(evaluations, share, low, high)


@dataclass(frozen=True)
class MethodSummary:
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


def summarize(method: Method, *, confidence: float = 0.95) -> MethodSummary:
    """Return a method's runs in a few numbers."""
    if not method.outcomes:
        raise TfsmError(f"{method.name}: no run has ended, so there is nothing to tell of it")
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
