"""What share of the runs was solved within how many evaluations."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import stats

from tfsm.errors import TfsmError
from tfsm.experiments.outcomes import Method
from tfsm.experiments.statistics.proportions import wilson

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
    low, high = np.array([wilson(int(count), times.size, confidence) for count in counts]).T
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
        low[i], high[i] = wilson(0, going_on, confidence)
    if share[-1] == 1:
        left = 1 - share[share < 1].max(initial=0.0)
        worth = int(last / left + 1e-6)  # without runs that stopped early a whole number, but for rounding
        low[share == 1], high[share == 1] = wilson(worth, worth, confidence)
    return SolvedCurve(evaluations, share, low, high)
