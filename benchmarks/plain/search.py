"""SM-R's search for a magnitude, in Python, for the eager loop."""

from __future__ import annotations

import math
from collections.abc import Callable


def rescaled(divergence: Callable[[float], float], target: float, tolerance: float, most: int = 60) -> float:
    """Return a magnitude whose divergence is within a relative tolerance of the target.

    Divergence grows with the square of a small magnitude; where that guess leaves the bracket, the middle is taken.
    """
    low, high, magnitude = 0.0, math.inf, math.sqrt(target)
    for _ in range(most):
        value = divergence(magnitude)
        if abs(value - target) <= tolerance * target:
            break
        low, high = (magnitude, high) if value < target else (low, magnitude)
        guess = magnitude * math.sqrt(target / max(value, 1e-30))
        inside = low < guess < high
        magnitude = guess if inside else (0.5 * (low + high) if math.isfinite(high) else 2.0 * magnitude)
        magnitude = min(magnitude, 1e6)
    return magnitude
