"""What runs logged about their mutations, put together run by run and interval by interval."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from tfsm.experiments.outcomes import Method, Study

Floats: TypeAlias = npt.NDArray[np.float64]
Spread: TypeAlias = Mapping[str, tuple[float, float, float]]
"""By layer: the 5 % quantile, the median and the 95 % quantile of its weights' sensitivities."""

POINTS: Final = 50
SHARES: Final = {
    "better": "children better than their parent",
    "neutral": "children as good as their parent",
    "broken": "broken children",
}
DIVERGENCE: Final = "divergence"
QUANTILES: Final = "divergence_quantiles"
SENSITIVITY: Final = "sensitivity"
_TOLD_ELSEWHERE: Final = {"run", "evaluations", "best_fitness", "mean_fitness", *SHARES, DIVERGENCE}


@dataclass(frozen=True, eq=False)
class Series:
    """A diagnostic of one method."""

    evaluations: Floats
    """`[T]`"""
    middle: Floats
    """`[T]`, the median of the runs that went on."""
    low: Floats
    """`[T]`, the lower quartile, as are the high ends the upper one."""
    high: Floats
    of_children: bool = False
    """Whether the quartiles are those of children within a run, not those of runs."""


@dataclass(frozen=True, eq=False)
class Panel:
    """A diagnostic of all methods that logged it."""

    key: str
    title: str
    share: bool
    log: bool
    series: Mapping[str, Series]


def panels_of(study: Study) -> tuple[Panel, ...]:
    """Return the diagnostics: shares of children, divergence, then whatever else operators measured of themselves."""
    own = dict.fromkeys(
        key
        for method in study.methods
        for line in method.metrics
        for key, value in line.items()
        if key not in _TOLD_ELSEWHERE and _number(value) is not None
    )
    titles = {**SHARES, DIVERGENCE: "divergence of children", **{key: key.replace("_", " ") for key in own}}
    panels = []
    for key, title in titles.items():
        series = {method.name: found for method in study.methods if (found := _series(method, key)) is not None}
        if series:
            positive = all((curve.middle > 0).any() for curve in series.values())
            panels.append(Panel(key, title, key in SHARES, key == DIVERGENCE and positive, series))
    return tuple(panels)


def spread_of(method: Method) -> Spread:
    """Return how sensitive each layer's weights were when the runs ended: the medians over runs."""
    last: dict[Any, Mapping[str, Any]] = {}
    for line in method.metrics:
        found = line.get(SENSITIVITY)
        if isinstance(found, Mapping):
            last[line.get("run")] = found
    layers = dict.fromkeys(layer for found in last.values() for layer in found)
    spread = {}
    for layer in layers:
        known = [row for found in last.values() if (row := _row(found.get(layer), 3)) is not None]
        if known:
            low, middle, high = np.median(known, axis=0)
            spread[layer] = (float(low), float(middle), float(high))
    return spread


def _series(method: Method, key: str) -> Series | None:
    if key == DIVERGENCE:
        # Least and greatest are not drawn; where some children broke, the greatest is no number.
        quartiles = list(_logged(method, QUANTILES, 3, lambda five: five[1:4] if isinstance(five, list) else None))
        if quartiles:
            return _binned(quartiles, of_children=True)
    rows = list(_logged(method, key, 1))
    return _binned(rows, of_children=False) if rows else None


def _logged(
    method: Method, key: str, length: int, part: Callable[[Any], object] = lambda value: value
) -> Iterator[tuple[int, float, list[float]]]:
    for line in method.metrics:
        run, when, row = line.get("run"), _number(line.get("evaluations")), _row(part(line.get(key)), length)
        if isinstance(run, int) and when is not None and row is not None:
            yield run, when, row


def _binned(rows: list[tuple[int, float, list[float]]], *, of_children: bool) -> Series:
    """Put runs together that logged at different times: the mean of each run in a bin, then the quartiles of runs."""
    when = np.array([evaluations for _, evaluations, _ in rows])
    bins = min(POINTS, np.unique(when).size)
    width = when.max() / bins
    place = np.minimum(np.ceil(when / width).astype(int), bins) if width > 0 else np.ones(when.size, int)
    found: dict[int, dict[int, list[list[float]]]] = {}
    for at, (run, _, row) in zip(place, rows, strict=True):
        found.setdefault(int(at), {}).setdefault(run, []).append(row)
    points = []
    for at in sorted(found):
        runs = np.array([np.mean(own, axis=0) for own in found[at].values()])  # [runs, 1 or 3]
        quartiles = np.median(runs, axis=0) if of_children else np.quantile(runs[:, 0], [0.25, 0.5, 0.75])
        points.append([when[place == at].mean(), *quartiles])
    evaluations, low, middle, high = np.array(points).T
    return Series(evaluations, middle, low, high, of_children)


def _row(value: object, length: int) -> list[float] | None:
    items = value if isinstance(value, list | tuple) else [value]
    numbers = [number for item in items if (number := _number(item)) is not None]
    return numbers if len(numbers) == len(items) == length else None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # A whole number may be too large for a float.
    return float(value) if abs(value) <= sys.float_info.max else None
