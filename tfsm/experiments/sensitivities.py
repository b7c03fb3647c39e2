"""How sensitive each layer of a model is, in a few numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

FLOOR: Final = 0.01
"""The operators' default for the least sensitivity that noise is divided by."""


@dataclass(frozen=True)
class Spread:
    """The sensitivities of some weights, summed up."""

    name: str
    """The layer's."""
    weights: int
    median: float
    low: float
    """5 % are below."""
    high: float
    """5 % are above."""
    zero: float
    """Share of weights that the outputs do not depend on at all."""
    floored: float
    """Share of the weights above zero but below the floor, which the operators raise to it."""


def spread(name: str, values: np.ndarray) -> Spread:
    """Sum up sensitivities.

    >>> found = spread("dense", np.array([0.0, 0.005, 1.0, 3.0, 4.0]))
    >>> found.median, found.zero, found.floored
    (1.0, 0.2, 0.2)
    """
    low, median, high = (float(value) for value in np.quantile(values.astype(np.float64), [0.05, 0.5, 0.95]))
    floored = (values > 0) & (values < FLOOR)
    return Spread(name, values.size, median, low, high, float(np.mean(values == 0)), float(np.mean(floored)))
