"""What is made of measurements: medians with their spread, paired ratios, exponents of growth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Spread:
    """A median, the quartiles around it, and how many samples they come from."""

    median: float
    low: float
    high: float
    samples: int


@dataclass(frozen=True)
class Fit:
    """A power law `y = factor * x ** exponent`, and how well it fits: the share of variance of log y explained."""

    exponent: float
    factor: float
    explained: float


def spread(samples: Sequence[float]) -> Spread:
    """Return the median and quartiles of some samples."""
    if not samples:
        raise ValueError("no samples")
    low, median, high = np.percentile(np.asarray(samples, float), [25, 50, 75])
    return Spread(float(median), float(low), float(high), len(samples))


def rate(seconds: Sequence[float], work: float) -> Spread:
    """Return work per second, for the seconds that this work took each time."""
    return spread([work / s for s in seconds])


def ratio(above: Sequence[float], below: Sequence[float], scale: float = 1.0) -> Spread:
    """Return `scale * above / below`, repetition by repetition: neighbours in time are disturbed alike."""
    return spread([scale * a / b for a, b in zip(above, below, strict=False)])


def power_law(x: Sequence[float], y: Sequence[float]) -> Fit:
    """Fit a power law by least squares in log-log coordinates."""
    if len(x) != len(y) or len(set(x)) < 2:
        raise ValueError("a power law needs at least two different x, and a y for each")
    log_x, log_y = np.log(np.asarray(x, float)), np.log(np.asarray(y, float))
    exponent, intercept = np.polyfit(log_x, log_y, 1)
    residual = log_y - (exponent * log_x + intercept)
    total = float(((log_y - log_y.mean()) ** 2).sum())
    explained = 1.0 - float((residual**2).sum()) / total if total > 0 else 1.0
    return Fit(float(exponent), math.exp(intercept), explained)
