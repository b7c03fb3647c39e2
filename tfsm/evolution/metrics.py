"""From numbers of a logging interval to a line of metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tfsm.models.sections import Section

QUANTILES = (0.05, 0.5, 0.95)
"""Of a layer's sensitivities."""


def quartiles(values: np.ndarray) -> list[float]:
    """Return least, quartiles and greatest of 4 n + 1 values, each of them one of the values.

    What is not a number counts as greater than any.

    >>> quartiles(np.array([8.0, np.nan, 2.0, 4.0, 6.0]))
    [2.0, 4.0, 6.0, 8.0, nan]
    """
    found: list[float] = np.sort(values)[:: (len(values) - 1) // 4].tolist()
    return found


def spread(sections: Sequence[Section], values: np.ndarray) -> dict[str, list[float]]:
    """Return the `QUANTILES` of each layer's values, of values `[P]`."""
    with np.errstate(invalid="ignore"):  # infinities have no value between them: that gives NaN, as it should
        return {section.name: np.quantile(section.of(values), QUANTILES).tolist() for section in sections}


def plain(value: Any) -> Any:
    """Return JSON's own types: whole numbers stay whole, and what is not finite becomes null."""
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if value is None or isinstance(value, int | np.integer):
        return None if value is None else int(value)
    return float(value) if np.isfinite(value) else None
