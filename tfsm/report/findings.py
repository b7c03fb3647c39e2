"""All numbers of a report: summaries, comparisons, curves, diagnostics, sensitivities and archives of a study."""

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

Band: TypeAlias = Literal["kaplan-meier", "wilson"]
Floats: TypeAlias = npt.NDArray[np.float64]
SensitivityQuantiles: TypeAlias = Mapping[str, tuple[float, float, float]]
"""The 5% quantile, the median and the 95% quantile of the sensitivities of a layer's weights, by layer."""

MAX_POINTS: Final = 50
"""The maximum number of points of a diagnostic's curve."""
SHARES: Final = {
    "better": "children better than their parent",
    "neutral": "children as good as their parent",
    "broken": "broken children",
}
DIVERGENCE: Final = "divergence"
DIVERGENCE_QUANTILES: Final = "divergence_quantiles"
SENSITIVITY: Final = "sensitivity"
_KNOWN_METRICS: Final = {"run", "evaluations", "best_fitness", "mean_fitness", *SHARES, DIVERGENCE}


@dataclass(frozen=True, eq=False)
class DiagnosticSeries:
    """A diagnostic of one method over evaluations."""

    evaluations: Floats
    """`[T]`"""
    middle: Floats
    """`[T]`, the median over the runs that were still active."""
    low: Floats
    """`[T]`, the lower quartile."""
    high: Floats
    """`[T]`, the upper quartile."""
    of_children: bool = False
    """Whether the quartiles are over the children within a run instead of over runs."""


@dataclass(frozen=True, eq=False)
class Diagnostic:
    """A diagnostic of all methods that logged it."""

    key: str
    title: str
    share: bool
    """Whether its values are shares."""
    log: bool
    """Whether to draw it on a logarithmic axis."""
    series: Mapping[str, DiagnosticSeries]
    """By the name of the method."""


@dataclass(frozen=True, eq=False)
class EliteArchive:
    """The elites of one run, by cell."""

    run: int
    cells: np.ndarray
    """`[M, 2]`: the centers of the cells."""
    fitness: np.ndarray
    """`[M]`; minus infinity where a cell is empty."""
    names: tuple[str, ...]
    """The names of the two dimensions of behavior."""

    @cached_property
    def filled(self) -> np.ndarray:
        """Which cells are filled: `[M]`."""
        return np.isfinite(self.fitness)

    def raster(self, width: int, height: int) -> tuple[np.ndarray, tuple[float, float, float, float]]:
        """Return the fitness of each pixel's cell `[height, width]`, NaN where it is empty, and the extent.

        The extent is left, right, bottom and top.
        """
        low, high = self.cells.min(axis=0), self.cells.max(axis=0)
        # Add half a cell on each side: centers do not reach the bounds.
        margin = (high - low) / (2.0 * max(1.0, np.sqrt(len(self.cells)) - 1.0))
        (left, bottom), (right, top) = low - margin, high + margin
        x, y = (np.linspace(0.5 / n, 1 - 0.5 / n, n) for n in (width, height))
        pixels = np.stack(np.meshgrid(left + x * (right - left), bottom + y * (top - bottom)), axis=-1)  # [H, W, 2]
        scale = np.array([right - left, top - bottom])
        nearest = np.stack(
            [(((row[:, None] - self.cells) / scale) ** 2).sum(axis=-1).argmin(axis=-1) for row in pixels]
        )
        return np.where(self.filled, self.fitness, np.nan)[nearest], (left, right, bottom, top)


@dataclass(frozen=True, eq=False)
class Findings:
    """The numbers of a study. Mappings are by method name and leave out methods without such data."""

    study: Study
    at: int | None
    baseline: str | None
    band: Band
    summaries: tuple[MethodSummary, ...]
    comparisons: tuple[Comparison, ...]
    solved: Mapping[str, SolvedCurve]
    fitness: Mapping[str, FitnessCurve]
    diagnostics: tuple[Diagnostic, ...]
    """Diagnostics of the mutations, in the order in which they are shown."""
    sensitivity: Mapping[str, SensitivityQuantiles]
    """Sensitivities of each layer's weights at the end of the runs."""
    archives: Mapping[str, EliteArchive]
    """The fullest archive of each method whose selection scheme divides behavior into cells."""


def analyze_study(
    study: Study, *, at: int | None = None, baseline: str | None = None, band: Band = "kaplan-meier"
) -> Findings:
    """Compute all numbers of a report on a study.

    Args:
        study: the methods.
        at: also compare success rates after this many evaluations.
        baseline: the method to compare the others with. Without one, all pairs are compared.
        band: how to estimate the share of runs solved.
    """
    if at is not None and not 1 <= at <= study.budget:
        raise TfsmError(f"--at {at}: expected 1 to {study.budget}, the maximum evaluations per run of {study.domain}")
    if baseline is not None and study.method(baseline) is None:
        raise UnknownNameError("method", baseline, method_names(study.methods), f" (in the runs of {study.domain})")
    sensitivity = {method.name: collect_layer_sensitivity(method) for method in study.methods}
    archives = {method.name: load_fullest_archive(method) for method in study.methods}
    return Findings(
        study=study,
        at=at,
        baseline=baseline,
        band=band,
        summaries=tuple(summarize(method) for method in study.methods),
        comparisons=tuple(compare_all(study, baseline=baseline, at=at)),
        solved={method.name: solved_curve(method, budget=method.budget, kind=band) for method in study.methods},
        fitness=_compute_fitness_curves(study),
        diagnostics=collect_diagnostics(study),
        sensitivity={name: quantiles for name, quantiles in sensitivity.items() if quantiles},
        archives={name: archive for name, archive in archives.items() if archive is not None},
    )


def collect_diagnostics(study: Study) -> tuple[Diagnostic, ...]:
    """Return the diagnostics: shares of children, divergence, then anything else that the runs logged."""
    others = dict.fromkeys(
        key
        for method in study.methods
        for line in method.metrics
        for key, value in line.items()
        if key not in _KNOWN_METRICS and _to_float(value) is not None
    )
    titles = {**SHARES, DIVERGENCE: "divergence of children", **{key: key.replace("_", " ") for key in others}}
    diagnostics = []
    for key, title in titles.items():
        series = {method.name: curve for method in study.methods if (curve := _compute_series(method, key)) is not None}
        if series:
            positive = all((curve.middle > 0).any() for curve in series.values())
            diagnostics.append(Diagnostic(key, title, key in SHARES, key == DIVERGENCE and positive, series))
    return tuple(diagnostics)


def collect_layer_sensitivity(method: Method) -> SensitivityQuantiles:
    """Return the sensitivities of each layer's weights at the end of the runs: medians over runs."""
    last: dict[Any, Mapping[str, Any]] = {}
    for line in method.metrics:
        logged = line.get(SENSITIVITY)
        if isinstance(logged, Mapping):
            last[line.get("run")] = logged
    quantiles = {}
    for layer in dict.fromkeys(layer for logged in last.values() for layer in logged):
        rows = [row for logged in last.values() if (row := _to_row(logged.get(layer), 3)) is not None]
        if rows:
            low, median, high = np.median(rows, axis=0)
            quantiles[layer] = (float(low), float(median), float(high))
    return quantiles


def load_fullest_archive(method: Method) -> EliteArchive | None:
    """Return the archive of the run that filled the most cells, if there is one with two dimensions."""
    archives = [archive for outcome in method.outcomes if (archive := _load_archive(method, outcome.run)) is not None]
    return max(archives, key=lambda archive: int(archive.filled.sum()), default=None)


def _compute_fitness_curves(study: Study) -> dict[str, FitnessCurve]:
    curves = {}
    for method in study.methods:
        # Old or broken runs may have logged no finite fitness at all; the others are drawn without them.
        try:
            curves[method.name] = fitness_curve(method, budget=method.budget)
        except TfsmError:
            continue
    return curves


def _compute_series(method: Method, key: str) -> DiagnosticSeries | None:
    if key == DIVERGENCE:
        # Minimum and maximum are not drawn. Where children broke, the maximum is not a number.
        quartiles = list(
            _read_metric(method, DIVERGENCE_QUANTILES, 3, lambda five: five[1:4] if isinstance(five, list) else None)
        )
        if quartiles:
            return _aggregate_bins(quartiles, of_children=True)
    rows = list(_read_metric(method, key, 1))
    return _aggregate_bins(rows, of_children=False) if rows else None


def _read_metric(
    method: Method, key: str, length: int, part: Callable[[Any], object] = lambda value: value
) -> Iterator[tuple[int, float, list[float]]]:
    """Yield run, evaluations and values of each line that logged this metric properly."""
    for line in method.metrics:
        run, evaluations, row = (
            line.get("run"),
            _to_float(line.get("evaluations")),
            _to_row(part(line.get(key)), length),
        )
        if isinstance(run, int) and evaluations is not None and row is not None:
            yield run, evaluations, row


def _aggregate_bins(rows: list[tuple[int, float, list[float]]], *, of_children: bool) -> DiagnosticSeries:
    """Combine runs that logged at different times: the mean of each run in a bin, then the quartiles over runs."""
    evaluations = np.array([when for _, when, _ in rows])
    count = min(MAX_POINTS, np.unique(evaluations).size)
    width = evaluations.max() / count
    bins = np.minimum(np.ceil(evaluations / width).astype(int), count) if width > 0 else np.ones(evaluations.size, int)
    runs_by_bin: dict[int, dict[int, list[list[float]]]] = {}
    for i, (run, _, row) in zip(bins, rows, strict=True):
        runs_by_bin.setdefault(int(i), {}).setdefault(run, []).append(row)
    points = []
    for i in sorted(runs_by_bin):
        means = np.array([np.mean(values, axis=0) for values in runs_by_bin[i].values()])  # [runs, 1 or 3]
        quartiles = np.median(means, axis=0) if of_children else np.quantile(means[:, 0], [0.25, 0.5, 0.75])
        points.append([evaluations[bins == i].mean(), *quartiles])
    when, low, middle, high = np.array(points).T
    return DiagnosticSeries(when, middle, low, high, of_children)


def _to_row(value: object, length: int) -> list[float] | None:
    items = value if isinstance(value, list | tuple) else [value]
    numbers = [number for item in items if (number := _to_float(item)) is not None]
    return numbers if len(numbers) == len(items) == length else None


def _to_float(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # An integer may be too large for a float.
    return float(value) if abs(value) <= sys.float_info.max else None


def _load_archive(method: Method, run: int) -> EliteArchive | None:
    file = None if method.directory is None else behavior_file(method.directory, run)
    if file is None or not file.is_file():
        return None
    tables = read_behavior(file)
    cells = tables.get("cells", np.zeros(0))
    if cells.ndim != 2 or cells.shape[-1] != 2:
        return None
    _check_tables(file, cells, tables)
    used = np.isfinite(cells).all(axis=1)
    fitness, names = tables["fitness"][-1], tuple(map(str, tables["names"]))
    archive = EliteArchive(run, cells[used].astype(np.float64), fitness[used], names)
    return archive if archive.filled.any() else None


def _check_tables(file: Path, cells: np.ndarray, tables: Mapping[str, np.ndarray]) -> None:
    fitness, names = (tables.get(name, np.zeros(0)) for name in ("fitness", "names"))
    numeric = all(table.dtype.kind in "fiu" for table in (cells, fitness))
    consistent = fitness.ndim == 2 and len(fitness) > 0 and fitness.shape[1] == len(cells) and names.shape == (2,)
    if not (numeric and consistent):
        raise TfsmError(f"{file}: not a behavior log: its tables do not match each other")
