"""Curves, panels, archives, draw by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from math import ceil, floor, log10
from pathlib import Path
from re import sub
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from tfsm.analysis import SolvedCurve
from tfsm.analysis.results import method_names
from tfsm.errors import TfsmError
from tfsm.report.alt_text import describe_figure, list_drawable_figures
from tfsm.report.document import write_file
from tfsm.report.findings import Diagnostic, Findings, SensitivityQuantiles
from tfsm.report.formatting import format_percent, replace_unprintable, shorten
from tfsm.report.plot_style import (
    INK,
    PAPER,
    MethodStyle,
    add_legend,
    assign_styles,
    find_last_evaluation,
    format_evaluations_axis,
    format_percent_axis,
    house_style,
    new_figure,
)

if TYPE_CHECKING:
    from tfsm.analysis.robustness import MutantSample, Robustness


def plot_solved(findings: Findings, width: float) -> Figure:
    """Draw the share of runs solved against evaluations."""
    study = findings.study
    chosen = assign_styles(method_names(study.methods))
    figure = new_figure(width, 0.2 * width + 2)
    axes = figure.add_subplot()
    for method in study.methods:
        curve, style = findings.solved[method.name], chosen[method.name]
        axes.fill_between(curve.evaluations, curve.low, curve.high, step="post", **style.band)
        axes.step(curve.evaluations, curve.share, where="post", **style.line)
        stopped = [o.evaluations for o in method.outcomes if not o.solved and o.evaluations < method.budget]
        if stopped and findings.band == "kaplan-meier":
            axes.plot(stopped, _share(curve, stopped), "|", color=style.color, markersize=8)
    axes.set_ylim(-0.015, 1.015)  # lines at both ends are to be seen whole
    format_percent_axis(axes)
    axes.set_ylabel("runs solved")
    axes.set_xlabel("evaluations")
    format_evaluations_axis(axes, find_last_evaluation(findings))
    if findings.at is not None:
        _mark(axes, findings.at)
    add_legend(figure, chosen)
    return figure


def plot_fitness(findings: Findings, width: float) -> Figure:
    """Draw the best fitness against evaluations."""
    chosen = assign_styles(method_names(findings.study.methods))
    figure = new_figure(width, 0.2 * width + 2)
    axes = figure.add_subplot()
    for name, curve in findings.fitness.items():
        axes.fill_between(curve.evaluations, curve.low, curve.high, **chosen[name].band)
        axes.plot(curve.evaluations, curve.middle, **chosen[name].line)
    axes.set_ylabel("best fitness")
    axes.set_xlabel("evaluations")
    format_evaluations_axis(axes, find_last_evaluation(findings))
    if findings.at is not None:
        _mark(axes, findings.at)
    add_legend(figure, {name: chosen[name] for name in findings.fitness})
    return figure


def _share(curve: SolvedCurve, evaluations: list[int]) -> np.ndarray:
    return curve.share[np.searchsorted(curve.evaluations, evaluations, side="right") - 1]


def _mark(axes: Axes, at: int) -> None:
    axes.axvline(at, color=INK, linewidth=0.9, linestyle=(0, (4, 3)))
    left = at > axes.get_xlim()[1] / 2
    axes.annotate(
        f"{at:,}",
        (at, 1),
        xycoords=axes.get_xaxis_transform(),
        xytext=(-4 if left else 4, 2),
        textcoords="offset points",
        ha="right" if left else "left",
        va="bottom",
        fontsize=8,
    )


_TICKS: Final = 5


def plot_diagnostics(findings: Findings, width: float) -> Figure:
    """Draw what runs logged about their mutations."""
    chosen = assign_styles(method_names(findings.study.methods))
    there = {name: chosen[name] for name in chosen if any(name in panel.series for panel in findings.diagnostics)}
    figure, panels = _grid(len(findings.diagnostics), width, least=2.3, height=1.75)
    last = find_last_evaluation(findings)
    for axes, panel in zip(panels, findings.diagnostics, strict=True):
        _measure(axes, panel, chosen)
        format_evaluations_axis(axes, last, ticks=3)
    figure.supxlabel("evaluations", fontsize=9)
    add_legend(figure, there)
    return figure


def plot_sensitivity(findings: Findings, width: float) -> Figure:
    """Draw how sensitive the weights of each layer were, one panel a method."""
    chosen = assign_styles(method_names(findings.study.methods))
    rows = max(map(len, findings.sensitivity.values()))
    figure, panels = _grid(len(findings.sensitivity), width, least=3.0, height=0.18 * rows + 0.9)
    for axes, (name, spread) in zip(panels, findings.sensitivity.items(), strict=True):
        _spread(axes, spread, chosen[name])
        axes.set_title(shorten(replace_unprintable(name), 30))
    figure.supxlabel("sensitivity of weights", fontsize=9)
    return figure


def _grid(count: int, width: float, *, least: float, height: float) -> tuple[Figure, list[Axes]]:
    rows = ceil(count / max(1, int(width / least)))
    columns = ceil(count / rows)
    figure = new_figure(width, rows * height + 0.4)
    return figure, [figure.add_subplot(rows, columns, i + 1) for i in range(count)]


def _measure(axes: Axes, panel: Diagnostic, chosen: dict[str, MethodStyle]) -> None:
    for name, series in panel.series.items():
        axes.fill_between(series.evaluations, series.low, series.high, **chosen[name].band)
        axes.plot(series.evaluations, series.middle, **(chosen[name].line | {"linewidth": 1.4}))
    axes.set_title(shorten(replace_unprintable(panel.title), 34), fontsize=8.5)
    if panel.log:
        axes.set_yscale("log")
        _log_ticks(axes.yaxis, *axes.get_ylim())
        return
    axes.yaxis.set_major_locator(MaxNLocator(4))
    lowest = min(float(series.low.min()) for series in panel.series.values())
    highest = max(float(series.high.max()) for series in panel.series.values())
    if lowest >= 0:
        least = 0.05 if panel.share else 1.0  # nothing but zeros is no reason for a finer scale
        top = highest * 1.08 if highest else least
        axes.set_ylim(-0.03 * top, top)  # so that a curve along the bottom is not taken for the axis
    if panel.share:
        format_percent_axis(axes)


def _spread(axes: Axes, spread: SensitivityQuantiles, style: MethodStyle) -> None:
    low, middle, high = np.array(list(spread.values())).T
    places = np.arange(len(spread))
    positive = np.concatenate([low, middle, high])
    positive = positive[positive > 0]
    if positive.size:
        # No sensitivity at all has no place on a logarithmic axis: it is drawn at its lower end.
        least = positive.min()
        low, middle, high = (np.maximum(ends, least) for ends in (low, middle, high))
        axes.set_xscale("log")
    axes.hlines(places, low, high, color=style.color, linewidth=2.2, alpha=0.6)
    axes.plot(middle, places, "o", color=style.color, markeredgecolor=INK, markeredgewidth=0.5, markersize=5)
    axes.set_yticks(places, [shorten(replace_unprintable(layer), 24) for layer in spread], fontsize=8)
    axes.set_ylim(len(spread) - 0.5, -0.5)  # the first layer on top
    axes.margins(x=0.08)
    if positive.size:
        _log_ticks(axes.xaxis, *axes.get_xlim())


def _log_ticks(axis: Axis, low: float, high: float) -> None:
    """Put a few round numbers on a logarithmic axis, also where it has no power of ten."""
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    ticks = [step * 10.0**power for power in powers for step in (1, 2, 5)]
    ticks = [tick for tick in ticks if low <= tick <= high]
    if len(ticks) > _TICKS:
        ticks = [10.0**power for power in powers if low <= 10.0**power <= high]
    axis.set_major_locator(FixedLocator(ticks[:: max(1, ceil(len(ticks) / _TICKS))]))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


PIXELS: Final = 240
"""Of each side of a heat map: some for each cell."""
COLOURS: Final = "viridis"
HIGHEST: Final = 3.8
"""Inches."""


def plot_archives(findings: Findings, width: float) -> Figure:
    """Draw the best fitness in each cell, with one scale of colours for all methods."""
    archives = findings.archives
    columns = max(1, min(len(archives), int(width / 2.4)))
    rows = ceil(len(archives) / columns)
    figure = new_figure(width, rows * min(width / columns, HIGHEST) * 0.95 + 0.5)
    known = np.concatenate([own.fitness[own.filled] for own in archives.values()])
    norm = Normalize(float(known.min()), float(known.max()))
    panels = []
    for place, (name, own) in enumerate(archives.items()):
        axes = figure.add_subplot(rows, columns, place + 1)
        values, extent = own.raster(PIXELS, PIXELS)
        axes.imshow(
            values, norm=norm, origin="lower", extent=extent, cmap=COLOURS, interpolation="nearest", aspect="auto"
        )
        axes.grid(False)
        axes.set_title(f"{shorten(replace_unprintable(name), 24)}: {format_percent(own.filled.mean())}", fontsize=9)
        first, second = own.names if len(own.names) == 2 else ("first number", "second number")
        axes.set_xlabel(replace_unprintable(first))
        axes.set_ylabel(replace_unprintable(second))
        panels.append(axes)
    figure.colorbar(ScalarMappable(norm, COLOURS), ax=panels, label="fitness", shrink=0.85)
    return figure


WIDE: Final = 7.2
NARROW: Final = 3.4
"""Inches: as wide as a page's text, and as a telephone."""

_DRAWN: Final[Mapping[str, Callable[[Findings, float], Figure]]] = {
    "solved": plot_solved,
    "fitness": plot_fitness,
    "diagnostics": plot_diagnostics,
    "sensitivity": plot_sensitivity,
    "archive": plot_archives,
}


def render_figure(name: str, findings: Findings, *, format: str, width: float = WIDE, paper: str = PAPER) -> bytes:
    """Return a figure as a file's content; the same findings always give the same bytes.

    Args:
        name: `solved`, `fitness`, `diagnostics`, `sensitivity` or `archive`; must be one of those that are drawable.
        findings: what to draw.
        format: `png` or `svg`.
        width: in inches.
        paper: the background's colour; `none` is transparent.
    """
    metadata: dict[str, Any] = {"Title": f"{findings.study.domain}: {describe_figure(name, findings).title}"}
    if format == "svg":
        metadata |= {"Date": None}
    content = BytesIO()
    with house_style():
        _DRAWN[name](findings, width).savefig(content, format=format, facecolor=paper, metadata=metadata)
    return content.getvalue()


def save_figures(folder: Path, findings: Sequence[Findings]) -> list[Path]:
    """Save every figure that there is something to draw for, as PNG and as SVG, and return the files."""
    files = []
    for of_study in findings:
        prefix = "" if len(findings) == 1 else sub(r"[^\w.+-]+", "-", of_study.study.domain) + "-"
        for name in list_drawable_figures(of_study):
            for format in ("png", "svg"):
                file = folder / f"{prefix}{name}.{format}"
                write_file(file, render_figure(name, of_study, format=format))
                files.append(file)
    return files


NAME = "robustness"
BINS = 20


def save_robustness(folder: Path, found: Robustness) -> list[Path]:
    """Save the figure as PNG and as SVG, and return the files."""
    files = []
    for format in ("png", "svg"):
        content = BytesIO()
        metadata: dict[str, Any] = {"Title": f"{found.domain}: robustness to mutations"}
        with house_style():
            plot_robustness(found).savefig(
                content, format=format, facecolor=PAPER, metadata=metadata | ({"Date": None} if format == "svg" else {})
            )
        write_file(folder / f"{NAME}.{format}", content.getvalue())
        files.append(folder / f"{NAME}.{format}")
    return files


def plot_robustness(found: Robustness, width: float = 7.2) -> Figure:
    """Draw the fraction retained by method and operator, and below it mutants of each method's representative."""
    columns = min(max(len(found.samples), 1), 5)
    rows = -(-len(found.samples) // columns)
    figure = new_figure(width, 3.0 + 1.6 * rows)
    grid = figure.add_gridspec(1 + rows, columns, height_ratios=[2.0, *[1.0] * rows])
    _retained(figure.add_subplot(grid[0, :]), found)
    edges = _edges(found)
    for i, sample in enumerate(found.samples):
        axes = figure.add_subplot(grid[1 + i // columns, i % columns])
        _histogram(axes, sample, edges)
        if i % columns == 0:
            axes.set_ylabel("mutants")
        else:
            axes.tick_params(axis="y", labelleft=False)
    if found.samples:
        count = len(found.samples[0].performance)
        figure.supxlabel(
            f"{replace_unprintable(found.measure)}, of {count:,} mutants by the method's own operator", fontsize=9
        )
    add_legend(figure, assign_styles(found.operators))
    return figure


def _retained(axes: Axes, found: Robustness) -> None:
    chosen = assign_styles(found.operators)
    step = 0.8 / max(len(chosen), 1)
    for i, (operator, style) in enumerate(chosen.items()):
        for x, method in enumerate(found.methods):
            means = found.means(method, operator)
            place = x - 0.4 + (i + 0.5) * step
            axes.plot(np.full(len(means), place), means, "o", color=style.color, markersize=3, alpha=0.35)
            axes.plot([place - 0.4 * step, place + 0.4 * step], [means.mean()] * 2, color=style.color, linewidth=2.4)
    axes.set_xticks(range(len(found.methods)), [shorten(replace_unprintable(name), 18) for name in found.methods])
    axes.set_xlabel("evolved by; a dot is a solution, a bar the mean of all")
    axes.set_ylabel("performance retained")
    axes.set_ylim(-0.02, 1.04)
    axes.grid(visible=False, axis="x")
    format_percent_axis(axes)


def _edges(found: Robustness) -> np.ndarray:
    values = np.concatenate([sample.performance for sample in found.samples]) if found.samples else np.zeros(1)
    values = values[np.isfinite(values)]
    if values.size and (values == np.round(values)).all() and np.ptp(values) <= 50:
        return np.arange(values.min() - 0.5, values.max() + 1.0)
    return np.histogram_bin_edges(values, BINS)


def _histogram(axes: Axes, sample: MutantSample, edges: np.ndarray) -> None:
    style = assign_styles([sample.operator])[sample.operator]
    finite = sample.performance[np.isfinite(sample.performance)]
    axes.hist(finite, bins=edges.tolist(), color=style.color)
    axes.axvline(sample.before, color="#24292f", linewidth=0.8, linestyle=":")
    axes.set_title(shorten(replace_unprintable(sample.method), 14))
    axes.set_yscale("log")
    axes.set_ylim(0.7, len(sample.performance) * 1.3)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,.0f}"))
    axes.xaxis.set_major_locator(MaxNLocator(3, integer=True))


FORMATS: Final = (".png", ".svg")
COLUMNS: Final = 3
MOST: Final = 24
"""Panels of one figure."""
SENSITIVITY_BINS: Final = 40
DECADES: Final = 12
"""What is smaller than the largest by more is drawn at the left end."""


def check_plot_path(file: Path) -> None:
    """Refuse a place where no figure can be."""
    if file.suffix.lower() not in FORMATS:
        raise TfsmError(f"{file}: a figure is saved as {' or '.join(FORMATS)}")
    if not file.parent.is_dir():
        raise TfsmError(f"{file}: there is no directory {str(file.parent)!r}")


def save_sensitivity(file: Path, mutation: str, parts: Mapping[str, np.ndarray], floor: float) -> None:
    """Save histograms, one for each part, as PNG or SVG by the file's ending.

    Args:
        file: the file to write.
        mutation: the operator that measured them.
        parts: sensitivities by title. Where there are many, only the largest parts are drawn.
        floor: the minimum sensitivity, which is marked.
    """
    content, format = BytesIO(), file.suffix.lower()[1:]
    metadata: dict[str, Any] = {"Title": f"Sensitivities, {mutation}"} | ({"Date": None} if format == "svg" else {})
    with house_style():
        figure = plot_sensitivity_histograms(mutation, parts, floor)
        figure.savefig(content, format=format, facecolor=PAPER, metadata=metadata)
    write_file(file, content.getvalue())


def plot_sensitivity_histograms(mutation: str, parts: Mapping[str, np.ndarray], floor: float) -> Figure:
    """Draw histograms over one common axis."""
    largest = sorted(parts, key=lambda name: -parts[name].size)[:MOST]
    shown = [name for name in parts if name in largest]
    columns = min(COLUMNS, len(shown))
    rows = ceil(len(shown) / columns)
    figure = new_figure(7.2, 3.2 if rows == 1 else 1.9 * rows + 0.4)
    edges = _sensitivity_edges(np.concatenate([parts[name] for name in shown]), floor)
    color = assign_styles([mutation])[mutation].color
    for i, name in enumerate(shown):
        axes = figure.add_subplot(rows, columns, i + 1)
        _sensitivity_histogram(axes, parts[name], edges, floor, color)
        axes.set_title(shorten(replace_unprintable(name), 28 if columns > 1 else 60))
        if i % columns == 0:
            axes.set_ylabel("weights")
    figure.supxlabel(f"sensitivity ({replace_unprintable(mutation)}); dotted: the floor, {floor:g}", fontsize=9)
    return figure


def _sensitivity_edges(values: np.ndarray, minimum: float) -> np.ndarray:
    positive = values[np.isfinite(values) & (values > 0)]
    ends = (positive.min(), positive.max(), minimum) if positive.size else (minimum, 1.0)
    top = ceil(log10(max(ends)) + 1e-9)
    return np.logspace(max(floor(log10(min(ends))), top - DECADES), top, SENSITIVITY_BINS + 1)


def _sensitivity_histogram(axes: Axes, values: np.ndarray, edges: np.ndarray, minimum: float, color: str) -> None:
    positive = values[np.isfinite(values) & (values > 0)]
    axes.hist(np.clip(positive, edges[0], edges[-1]), bins=list(edges), color=color)
    axes.axvline(minimum, color=INK, linewidth=1, linestyle=":")
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(numticks=5))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    zero = float(np.mean(values == 0))
    if zero:
        axes.text(0.02, 0.97, f"{100 * zero:.3g}% are 0", transform=axes.transAxes, va="top", fontsize=8)
