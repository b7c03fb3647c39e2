"""All numbers of a report."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from tfsm.analysis import (
    Comparison,
    FitnessCurve,
    MethodSummary,
    SolvedCurve,
    compare_all,
    fitness_curve,
    solved_curve,
    summarize,
)
from tfsm.analysis.results import Method, Study, method_names
from tfsm.errors import TfsmError, UnknownNameError
from tfsm.runs.behavior_log import read_behavior
from tfsm.runs.records import behavior_file

Floats: TypeAlias = npt.NDArray[np.float64]
SensitivityQuantiles: TypeAlias = Mapping[str, tuple[float, float, float]]
"""By layer: the 5 % quantile, the median and the 95 % quantile of its weights' sensitivities."""

MAX_POINTS: Final = 50
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
class DiagnosticSeries:
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
class Diagnostic:
    """A diagnostic of all methods that logged it."""

    key: str
    title: str
    share: bool
    log: bool
    series: Mapping[str, DiagnosticSeries]


def collect_diagnostics(study: Study) -> tuple[Diagnostic, ...]:
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
            panels.append(Diagnostic(key, title, key in SHARES, key == DIVERGENCE and positive, series))
    return tuple(panels)


def collect_layer_sensitivity(method: Method) -> SensitivityQuantiles:
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


def _series(method: Method, key: str) -> DiagnosticSeries | None:
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


def _binned(rows: list[tuple[int, float, list[float]]], *, of_children: bool) -> DiagnosticSeries:
    """Put runs together that logged at different times: the mean of each run in a bin, then the quartiles of runs."""
    when = np.array([evaluations for _, evaluations, _ in rows])
    bins = min(MAX_POINTS, np.unique(when).size)
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
    return DiagnosticSeries(evaluations, middle, low, high, of_children)


def _row(value: object, length: int) -> list[float] | None:
    items = value if isinstance(value, list | tuple) else [value]
    numbers = [number for item in items if (number := _number(item)) is not None]
    return numbers if len(numbers) == len(items) == length else None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # A whole number may be too large for a float.
    return float(value) if abs(value) <= sys.float_info.max else None


@dataclass(frozen=True, eq=False)
class EliteArchive:
    """The elites of one run, cell by cell."""

    run: int
    cells: np.ndarray
    """`[M, 2]`: the cells' middles."""
    fitness: np.ndarray
    """`[M]`; minus infinity where nobody is."""
    names: tuple[str, ...]
    """What the two numbers of a behavior are."""

    @cached_property
    def filled(self) -> np.ndarray:
        """Where somebody is: `[M]`."""
        return np.isfinite(self.fitness)

    def raster(self, width: int, height: int) -> tuple[np.ndarray, tuple[float, float, float, float]]:
        """Return the fitness of each pixel's cell `[height, width]`, NaN where nobody is, and its edges.

        The edges are left, right, bottom and top.
        """
        low, high = self.cells.min(axis=0), self.cells.max(axis=0)
        # Half a cell around: middles do not reach the bounds.
        margin = (high - low) / (2.0 * max(1.0, np.sqrt(len(self.cells)) - 1.0))
        (left, bottom), (right, top) = low - margin, high + margin
        x, y = (np.linspace(0.5 / n, 1 - 0.5 / n, n) for n in (width, height))
        place = np.stack(np.meshgrid(left + x * (right - left), bottom + y * (top - bottom)), axis=-1)
        scale = np.array([right - left, top - bottom])
        nearest = np.stack([(((row[:, None] - self.cells) / scale) ** 2).sum(axis=-1).argmin(axis=-1) for row in place])
        return np.where(self.filled, self.fitness, np.nan)[nearest], (left, right, bottom, top)


def load_fullest_archive(method: Method) -> EliteArchive | None:
    """Return the archive of the run that filled most cells, where there is one in two dimensions."""
    found = [archive for outcome in method.outcomes if (archive := _read(method, outcome.run)) is not None]
    return max(found, key=lambda archive: int(archive.filled.sum()), default=None)


def _read(method: Method, run: int) -> EliteArchive | None:
    file = None if method.directory is None else behavior_file(method.directory, run)
    if file is None or not file.is_file():
        return None
    kept = read_behavior(file)
    cells = kept.get("cells", np.zeros(0))
    if cells.ndim != 2 or cells.shape[-1] != 2:
        return None
    _check(file, cells, kept)
    fitness, names = kept["fitness"][-1], tuple(map(str, kept["names"]))
    used = np.isfinite(cells).all(axis=1)
    archive = EliteArchive(run, cells[used].astype(np.float64), fitness[used], names)
    return archive if archive.filled.any() else None


def _check(file: Path, cells: np.ndarray, kept: Mapping[str, np.ndarray]) -> None:
    fitness, names = (kept.get(name, np.zeros(0)) for name in ("fitness", "names"))
    numbers = all(table.dtype.kind in "fiu" for table in (cells, fitness))
    fits = fitness.ndim == 2 and len(fitness) > 0 and fitness.shape[1] == len(cells) and names.shape == (2,)
    if not (numbers and fits):
        raise TfsmError(f"{file}: not what a run keeps of its populations: its tables do not go together")


Band: TypeAlias = Literal["kaplan-meier", "wilson"]


@dataclass(frozen=True, eq=False)
class Findings:
    """What came of a study; mappings go by the methods' names, and leave out methods without such data."""

    study: Study
    at: int | None
    baseline: str | None
    band: Band
    summaries: tuple[MethodSummary, ...]
    comparisons: tuple[Comparison, ...]
    solved: Mapping[str, SolvedCurve]
    fitness: Mapping[str, FitnessCurve]
    diagnostics: tuple[Diagnostic, ...]
    """The diagnostics of mutations, in the order in which they are shown."""
    sensitivity: Mapping[str, SensitivityQuantiles]
    """How sensitive each layer's weights were at the end."""
    archives: Mapping[str, EliteArchive]
    """What the best run had found of each kind of behavior, where a scheme divides it into cells."""


def analyze_study(
    study: Study, *, at: int | None = None, baseline: str | None = None, band: Band = "kaplan-meier"
) -> Findings:
    """Compute all that a report tells of a study.

    Args:
        study: the methods.
        at: evaluations within which to compare how many runs were solved, too.
        baseline: whom to compare the others with; without one all pairs are compared.
        band: how the share of runs solved is estimated.
    """
    if at is not None and not 1 <= at <= study.budget:
        raise TfsmError(f"--at {at}: expected 1 to {study.budget}, the most evaluations of a run of {study.domain}")
    if baseline is not None and study.method(baseline) is None:
        raise UnknownNameError("method", baseline, method_names(study.methods), f" (in the runs of {study.domain})")
    return Findings(
        study=study,
        at=at,
        baseline=baseline,
        band=band,
        summaries=tuple(summarize(method) for method in study.methods),
        comparisons=tuple(compare_all(study, baseline=baseline, at=at)),
        solved={method.name: solved_curve(method, budget=method.budget, kind=band) for method in study.methods},
        fitness=_fitness(study),
        diagnostics=collect_diagnostics(study),
        sensitivity={method.name: spread for method in study.methods if (spread := collect_layer_sensitivity(method))},
        archives={
            method.name: found for method in study.methods if (found := load_fullest_archive(method)) is not None
        },
    )


def _fitness(study: Study) -> dict[str, FitnessCurve]:
    curves = {}
    for method in study.methods:
        # Old or broken runs may have logged no finite fitness at all; the others are drawn without them.
        try:
            curves[method.name] = fitness_curve(method, budget=method.budget)
        except TfsmError:
            continue
    return curves
