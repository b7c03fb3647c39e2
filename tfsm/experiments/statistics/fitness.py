"""How the best fitness of a method's runs grows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from tfsm.errors import TfsmError
from tfsm.experiments.outcomes import Method

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


def mean_best(method: Method, *, budget: int, points: int = 1_000) -> npt.NDArray[np.float64]:
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
