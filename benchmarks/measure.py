"""Timing by turns within one process, and statistics of the timings."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import shorten
from typing import TypeVar

import numpy as np

Call = Callable[[], object]
Name = TypeVar("Name", bound=Hashable)


@dataclass(frozen=True)
class Effort:
    """How long to measure."""

    quick: bool
    repetitions: int
    seconds: float
    """The approximate duration of one repetition of one candidate."""
    max_seconds: float
    """A slow candidate is repeated less often to stay below this duration, but at least twice."""

    @classmethod
    def choose(cls, quick: bool) -> Effort:
        """Return the effort of a quick or of a full run."""
        return cls(True, 3, 0.05, 1.0) if quick else cls(False, 5, 0.1, 2.0)


@dataclass(frozen=True)
class Timing:
    """The seconds of one call of a candidate, for each repetition."""

    seconds: tuple[float, ...]
    calls: int
    """Calls per repetition."""
    first: float
    """Seconds of the first call, which traces, compiles and executes."""


@dataclass(frozen=True)
class Failure:
    """The reason why a candidate does not work."""

    reason: str


def interleave(candidates: Mapping[Name, Call], effort: Effort) -> dict[Name, Timing | Failure]:
    """Time all candidates in turns (A, B, A, B, ...), so that other load on the machine affects all alike.

    Args:
        candidates: functions that return when their work is done.
        effort: how long to measure.
    """
    results: dict[Name, Timing | Failure] = {}
    ready: dict[Name, tuple[float, int, int]] = {}
    for name, call in candidates.items():
        try:
            first = time_call(call)
            call()
        except Exception as error:  # a candidate may fail in any way; the others are still worth measuring
            results[name] = Failure(_shorten_error(error))
            continue
        once = time_call(call)
        calls = max(1, math.ceil(effort.seconds / max(once, 1e-7)))
        ready[name] = first, calls, max(2, min(effort.repetitions, int(effort.max_seconds / (once * calls))))
    samples: dict[Name, list[float]] = {name: [] for name in ready}
    for repetition in range(effort.repetitions):
        for name, (_, calls, repetitions) in ready.items():
            if repetition < repetitions:
                samples[name].append(time_call(candidates[name], calls))
    for name, (first, calls, _) in ready.items():
        results[name] = Timing(tuple(samples[name]), calls, first)
    return {name: results[name] for name in candidates}


def require_timing(results: Mapping[str, Timing | Failure], name: str) -> Timing:
    """Return the timing of a candidate, or raise an error if it failed."""
    timing = results[name]
    if isinstance(timing, Failure):
        raise RuntimeError(f"{name} failed: {timing.reason}")
    return timing


def time_call(call: Call, calls: int = 1) -> float:
    """Return the seconds of one call, as the mean of several in a row."""
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls


def _shorten_error(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {shorten(text, 200, placeholder=' ...')}"


@dataclass(frozen=True)
class Quartiles:
    """The median and the quartiles of some samples."""

    median: float
    low: float
    high: float
    samples: int


@dataclass(frozen=True)
class PowerLaw:
    """A power law `y = factor * x ** exponent`, and the share of the variance of log y that it explains."""

    exponent: float
    factor: float
    explained: float


def compute_quartiles(samples: Sequence[float]) -> Quartiles:
    """Return the median and the quartiles of samples."""
    if not samples:
        raise ValueError("no samples")
    low, median, high = np.percentile(np.asarray(samples, float), [25, 50, 75])
    return Quartiles(float(median), float(low), float(high), len(samples))


def compute_rate(seconds: Sequence[float], work: float) -> Quartiles:
    """Return work per second, given the seconds that the work took in each repetition."""
    return compute_quartiles([work / s for s in seconds])


def compute_ratio(above: Sequence[float], below: Sequence[float], scale: float = 1.0) -> Quartiles:
    """Return `scale * above / below`, pairing repetitions, because neighbors in time are disturbed alike."""
    return compute_quartiles([scale * a / b for a, b in zip(above, below, strict=False)])


def fit_power_law(x: Sequence[float], y: Sequence[float]) -> PowerLaw:
    """Fit a power law by least squares in log-log coordinates."""
    if len(x) != len(y) or len(set(x)) < 2:
        raise ValueError("a power law needs at least two different x, and as many y")
    log_x, log_y = np.log(np.asarray(x, float)), np.log(np.asarray(y, float))
    exponent, intercept = np.polyfit(log_x, log_y, 1)
    residual = log_y - (exponent * log_x + intercept)
    total = float(((log_y - log_y.mean()) ** 2).sum())
    explained = 1.0 - float((residual**2).sum()) / total if total > 0 else 1.0
    return PowerLaw(float(exponent), math.exp(intercept), explained)
