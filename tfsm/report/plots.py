"""The figures of a report, of robustness and of sensitivities, drawn with matplotlib as PNG or SVG."""

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
from tfsm.report.findings import Diagnostic, Findings, SensitivityQuantiles
from tfsm.report.formatting import format_percent, replace_unprintable, shorten
from tfsm.report.plot_style import (
    INK,
    PAPER,
    MethodStyle,
    add_legend,
    assign_styles,
    find_evaluations_end,
    format_evaluations_axis,
    format_percent_axis,
    house_style,
    new_figure,
)
from tfsm.report.tables import write_file

if TYPE_CHECKING:
    from tfsm.analysis.robustness import MutantSample, Robustness

WIDE: Final = 7.2
NARROW: Final = 3.4
"""Widths in inches: that of a page's text, and that of a phone."""
FORMATS: Final = ("png", "svg")

MAX_TICKS: Final = 5
RASTER_SIZE: Final = 240
"""Pixels per side of a heat map, which is several per cell."""
COLORMAP: Final = "viridis"
MAX_MAP_HEIGHT: Final = 3.8
"""In inches."""
ROBUSTNESS_BINS: Final = 20
SENSITIVITY_BINS: Final = 40
MAX_COLUMNS: Final = 3
MAX_HISTOGRAMS: Final = 24
MAX_DECADES: Final = 12
"""Sensitivities that are smaller than the largest by more decades are drawn at the left end."""


def check_plot_path(file: Path) -> None:
    """Raise an error unless a figure can be written to this file."""
    if file.suffix.lower()[1:] not in FORMATS:
        raise TfsmError(f"{file}: expected a file name ending in {' or '.join(f'.{format}' for format in FORMATS)}")
    if not file.parent.is_dir():
        raise TfsmError(f"{file}: there is no directory {str(file.parent)!r}")


def save_figures(
    folder: Path,
    findings: Sequence[Findings],
    *,
    on_progress: Callable[[int, int, str], None] = lambda done, total, description: None,
) -> list[Path]:
    """Save all figures for which there is data as PNG and as SVG, and return the files.

    Args:
        folder: an existing directory.
        findings: what to draw.
        on_progress: called with the number of files written, their total, and the next one.
    """
    figures: dict[Path, tuple[str, Findings, str]] = {}
    for study in findings:
        prefix = "" if len(findings) == 1 else sub(r"[^\w.+-]+", "-", study.study.domain) + "-"
        for name in list_drawable_figures(study):
            figures |= {folder / f"{prefix}{name}.{format}": (name, study, format) for format in FORMATS}
    for done, (file, (name, study, format)) in enumerate(figures.items()):
        on_progress(done, len(figures), file.name)
        write_file(file, render_figure(name, study, format=format))
    return list(figures)


def save_robustness(folder: Path, robustness: Robustness) -> list[Path]:
    """Save the figure of robustness as PNG and as SVG, and return the files."""
    files = []
    for format in FORMATS:
        title = f"{robustness.domain}: robustness to mutations"
        file = folder / f"robustness.{format}"
        write_file(file, _render(lambda: plot_robustness(robustness), format, title))
        files.append(file)
    return files


def save_sensitivity(file: Path, mutation: str, parts: Mapping[str, np.ndarray], floor: float) -> None:
    """Save histograms of sensitivities, one per part, as PNG or SVG according to the file name.

    Args:
        file: the file to write.
        mutation: the operator that measured them.
        parts: sensitivities by title. If there are many, only the largest parts are drawn.
        floor: the minimum sensitivity, which is marked.
    """
    format, title = file.suffix.lower()[1:], f"Sensitivities, {mutation}"
    write_file(file, _render(lambda: plot_sensitivity_histograms(mutation, parts, floor), format, title))


def render_figure(name: str, findings: Findings, *, format: str, width: float = WIDE, background: str = PAPER) -> bytes:
    """Return a figure as the content of a file. The same findings always give the same bytes.

    Args:
        name: `solved`, `fitness`, `diagnostics`, `sensitivity` or `archive`, if `list_drawable_figures` contains it.
        findings: what to draw.
        format: `png` or `svg`.
        width: in inches.
        background: the color of the background; `none` is transparent.
    """
    title = f"{findings.study.domain}: {describe_figure(name, findings).title}"
    return _render(lambda: _PLOTS[name](findings, width), format, title, background)


def _render(plot: Callable[[], Figure], format: str, title: str, background: str = PAPER) -> bytes:
    content = BytesIO()
    # Without a date, the same figure is the same file.
    metadata: dict[str, Any] = {"Title": title} | ({"Date": None} if format == "svg" else {})
    with house_style():
        plot().savefig(content, format=format, facecolor=background, metadata=metadata)
    return content.getvalue()


def plot_solved(findings: Findings, width: float) -> Figure:
    """Draw the share of runs solved over evaluations."""
    study = findings.study
    styles = assign_styles(method_names(study.methods))
    figure = new_figure(width, 0.2 * width + 2)
    axes = figure.add_subplot()
    for method in study.methods:
        curve, style = findings.solved[method.name], styles[method.name]
        axes.fill_between(curve.evaluations, curve.low, curve.high, step="post", **style.band)
        axes.step(curve.evaluations, curve.share, where="post", **style.line)
        stopped = [o.evaluations for o in method.outcomes if not o.solved and o.evaluations < method.budget]
        if stopped and findings.band == "kaplan-meier":
            axes.plot(stopped, _interpolate_share(curve, stopped), "|", color=style.color, markersize=8)
    axes.set_ylim(-0.015, 1.015)  # so that lines at both ends are fully visible
    format_percent_axis(axes)
    axes.set_ylabel("runs solved")
    axes.set_xlabel("evaluations")
    format_evaluations_axis(axes, find_evaluations_end(findings))
    if findings.at is not None:
        _mark_evaluations(axes, findings.at)
    add_legend(figure, styles)
    return figure


def plot_fitness(findings: Findings, width: float) -> Figure:
    """Draw the best fitness over evaluations."""
    styles = assign_styles(method_names(findings.study.methods))
    figure = new_figure(width, 0.2 * width + 2)
    axes = figure.add_subplot()
    for name, curve in findings.fitness.items():
        axes.fill_between(curve.evaluations, curve.low, curve.high, **styles[name].band)
        axes.plot(curve.evaluations, curve.middle, **styles[name].line)
    axes.set_ylabel("best fitness")
    axes.set_xlabel("evaluations")
    format_evaluations_axis(axes, find_evaluations_end(findings))
    if findings.at is not None:
        _mark_evaluations(axes, findings.at)
    add_legend(figure, {name: styles[name] for name in findings.fitness})
    return figure


def plot_diagnostics(findings: Findings, width: float) -> Figure:
    """Draw what the runs logged about their mutations, one panel per measure."""
    styles = assign_styles(method_names(findings.study.methods))
    logged = {name for diagnostic in findings.diagnostics for name in diagnostic.series}
    figure, panels = _make_panels(len(findings.diagnostics), width, min_width=2.3, height=1.75)
    end = find_evaluations_end(findings)
    for axes, diagnostic in zip(panels, findings.diagnostics, strict=True):
        _draw_diagnostic(axes, diagnostic, styles)
        format_evaluations_axis(axes, end, ticks=3)
    figure.supxlabel("evaluations", fontsize=9)
    add_legend(figure, {name: style for name, style in styles.items() if name in logged})
    return figure


def plot_sensitivity(findings: Findings, width: float) -> Figure:
    """Draw the sensitivities of each layer's weights, one panel per method."""
    styles = assign_styles(method_names(findings.study.methods))
    rows = max(map(len, findings.sensitivity.values()))
    figure, panels = _make_panels(len(findings.sensitivity), width, min_width=3.0, height=0.18 * rows + 0.9)
    for axes, (name, quantiles) in zip(panels, findings.sensitivity.items(), strict=True):
        _draw_quantiles(axes, quantiles, styles[name])
        axes.set_title(shorten(replace_unprintable(name), 30))
    figure.supxlabel("sensitivity of weights", fontsize=9)
    return figure


def plot_archives(findings: Findings, width: float) -> Figure:
    """Draw the best fitness in each cell, with one color scale for all methods."""
    archives = findings.archives
    columns = max(1, min(len(archives), int(width / 2.4)))
    rows = ceil(len(archives) / columns)
    figure = new_figure(width, rows * min(width / columns, MAX_MAP_HEIGHT) * 0.95 + 0.5)
    fitness = np.concatenate([archive.fitness[archive.filled] for archive in archives.values()])
    norm = Normalize(float(fitness.min()), float(fitness.max()))
    panels = []
    for i, (name, archive) in enumerate(archives.items()):
        axes = figure.add_subplot(rows, columns, i + 1)
        values, extent = archive.raster(RASTER_SIZE, RASTER_SIZE)
        axes.imshow(
            values, norm=norm, origin="lower", extent=extent, cmap=COLORMAP, interpolation="nearest", aspect="auto"
        )
        axes.grid(False)
        filled = format_percent(archive.filled.mean())
        axes.set_title(f"{shorten(replace_unprintable(name), 24)}: {filled} filled", fontsize=9)
        x, y = archive.names
        axes.set_xlabel(replace_unprintable(x))
        axes.set_ylabel(replace_unprintable(y))
        panels.append(axes)
    figure.colorbar(ScalarMappable(norm, COLORMAP), ax=panels, label="fitness", shrink=0.85)
    return figure


_PLOTS: Final[Mapping[str, Callable[[Findings, float], Figure]]] = {
    "solved": plot_solved,
    "fitness": plot_fitness,
    "diagnostics": plot_diagnostics,
    "sensitivity": plot_sensitivity,
    "archive": plot_archives,
}


def plot_robustness(robustness: Robustness, width: float = WIDE) -> Figure:
    """Draw the performance retained by method and operator, and below it mutants of a typical solution per method."""
    columns = min(max(len(robustness.samples), 1), 5)
    rows = ceil(len(robustness.samples) / columns)
    figure = new_figure(width, 3.0 + 1.6 * rows)
    grid = figure.add_gridspec(1 + rows, columns, height_ratios=[2.0, *[1.0] * rows])
    _draw_retained(figure.add_subplot(grid[0, :]), robustness)
    edges = _performance_edges(robustness)
    for i, sample in enumerate(robustness.samples):
        axes = figure.add_subplot(grid[1 + i // columns, i % columns])
        _draw_mutants(axes, sample, edges)
        if i % columns == 0:
            axes.set_ylabel("mutants")
        else:
            axes.tick_params(axis="y", labelleft=False)
    if robustness.samples:
        count = len(robustness.samples[0].performance)
        measure = replace_unprintable(robustness.measure)
        figure.supxlabel(f"{measure} of {count:,} mutants by the method's own operator", fontsize=9)
    add_legend(figure, assign_styles(robustness.operators))
    return figure


def plot_sensitivity_histograms(mutation: str, parts: Mapping[str, np.ndarray], floor: float) -> Figure:
    """Draw histograms of sensitivities with a common axis."""
    largest = sorted(parts, key=lambda name: -parts[name].size)[:MAX_HISTOGRAMS]
    names = [name for name in parts if name in largest]
    columns = min(MAX_COLUMNS, len(names))
    rows = ceil(len(names) / columns)
    figure = new_figure(WIDE, 3.2 if rows == 1 else 1.9 * rows + 0.4)
    edges = _sensitivity_edges(np.concatenate([parts[name] for name in names]), floor)
    color = assign_styles([mutation])[mutation].color
    for i, name in enumerate(names):
        axes = figure.add_subplot(rows, columns, i + 1)
        _draw_sensitivities(axes, parts[name], edges, floor, color)
        axes.set_title(shorten(replace_unprintable(name), 28 if columns > 1 else 60))
        if i % columns == 0:
            axes.set_ylabel("weights")
    figure.supxlabel(f"sensitivity ({replace_unprintable(mutation)}); dotted line: floor, {floor:g}", fontsize=9)
    return figure


def _interpolate_share(curve: SolvedCurve, evaluations: list[int]) -> np.ndarray:
    return curve.share[np.searchsorted(curve.evaluations, evaluations, side="right") - 1]


def _mark_evaluations(axes: Axes, at: int) -> None:
    axes.axvline(at, color=INK, linewidth=0.9, linestyle=(0, (4, 3)))
    is_left = at > axes.get_xlim()[1] / 2
    axes.annotate(
        f"{at:,}",
        (at, 1),
        xycoords=axes.get_xaxis_transform(),
        xytext=(-4 if is_left else 4, 2),
        textcoords="offset points",
        ha="right" if is_left else "left",
        va="bottom",
        fontsize=8,
    )


def _make_panels(count: int, width: float, *, min_width: float, height: float) -> tuple[Figure, list[Axes]]:
    rows = ceil(count / max(1, int(width / min_width)))
    columns = ceil(count / rows)
    figure = new_figure(width, rows * height + 0.4)
    return figure, [figure.add_subplot(rows, columns, i + 1) for i in range(count)]


def _draw_diagnostic(axes: Axes, diagnostic: Diagnostic, styles: dict[str, MethodStyle]) -> None:
    for name, series in diagnostic.series.items():
        axes.fill_between(series.evaluations, series.low, series.high, **styles[name].band)
        axes.plot(series.evaluations, series.middle, **(styles[name].line | {"linewidth": 1.4}))
    axes.set_title(shorten(replace_unprintable(diagnostic.title), 34), fontsize=8.5)
    if diagnostic.log:
        axes.set_yscale("log")
        _set_log_ticks(axes.yaxis, *axes.get_ylim())
        return
    axes.yaxis.set_major_locator(MaxNLocator(4))
    lowest = min(float(series.low.min()) for series in diagnostic.series.values())
    highest = max(float(series.high.max()) for series in diagnostic.series.values())
    if lowest >= 0:
        default = 0.05 if diagnostic.share else 1.0  # zeros alone are no reason for a finer scale
        top = highest * 1.08 if highest else default
        axes.set_ylim(-0.03 * top, top)  # so that a curve along the bottom differs from the axis
    if diagnostic.share:
        format_percent_axis(axes)


def _draw_quantiles(axes: Axes, quantiles: SensitivityQuantiles, style: MethodStyle) -> None:
    low, median, high = np.array(list(quantiles.values())).T
    rows = np.arange(len(quantiles))
    positive = np.concatenate([low, median, high])
    positive = positive[positive > 0]
    if positive.size:
        # Zero has no place on a logarithmic axis: it is drawn at the lower end.
        low, median, high = (np.maximum(values, positive.min()) for values in (low, median, high))
        axes.set_xscale("log")
    axes.hlines(rows, low, high, color=style.color, linewidth=2.2, alpha=0.6)
    axes.plot(median, rows, "o", color=style.color, markeredgecolor=INK, markeredgewidth=0.5, markersize=5)
    axes.set_yticks(rows, [shorten(replace_unprintable(layer), 24) for layer in quantiles], fontsize=8)
    axes.set_ylim(len(quantiles) - 0.5, -0.5)  # the first layer on top
    axes.margins(x=0.08)
    if positive.size:
        _set_log_ticks(axes.xaxis, *axes.get_xlim())


def _set_log_ticks(axis: Axis, low: float, high: float) -> None:
    """Set a few round numbers as ticks of a logarithmic axis, even if it contains no power of ten."""
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    ticks = [step * 10.0**power for power in powers for step in (1, 2, 5)]
    ticks = [tick for tick in ticks if low <= tick <= high]
    if len(ticks) > MAX_TICKS:
        ticks = [10.0**power for power in powers if low <= 10.0**power <= high]
    axis.set_major_locator(FixedLocator(ticks[:: max(1, ceil(len(ticks) / MAX_TICKS))]))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _draw_retained(axes: Axes, robustness: Robustness) -> None:
    styles = assign_styles(robustness.operators)
    step = 0.8 / max(len(styles), 1)
    for i, (operator, style) in enumerate(styles.items()):
        for x, method in enumerate(robustness.methods):
            means = robustness.means(method, operator)
            center = x - 0.4 + (i + 0.5) * step
            axes.plot(np.full(len(means), center), means, "o", color=style.color, markersize=3, alpha=0.35)
            axes.plot([center - 0.4 * step, center + 0.4 * step], [means.mean()] * 2, color=style.color, linewidth=2.4)
    axes.set_xticks(
        range(len(robustness.methods)), [shorten(replace_unprintable(name), 18) for name in robustness.methods]
    )
    axes.set_xlabel("evolved by (dots: solutions; bars: their mean)")
    axes.set_ylabel("performance retained")
    axes.set_ylim(-0.02, 1.04)
    axes.grid(visible=False, axis="x")
    format_percent_axis(axes)


def _performance_edges(robustness: Robustness) -> np.ndarray:
    values = (
        np.concatenate([sample.performance for sample in robustness.samples]) if robustness.samples else np.zeros(1)
    )
    values = values[np.isfinite(values)]
    if values.size and (values == np.round(values)).all() and np.ptp(values) <= 50:
        return np.arange(values.min() - 0.5, values.max() + 1.0)
    return np.histogram_bin_edges(values, ROBUSTNESS_BINS)


def _draw_mutants(axes: Axes, sample: MutantSample, edges: np.ndarray) -> None:
    style = assign_styles([sample.operator])[sample.operator]
    finite = sample.performance[np.isfinite(sample.performance)]
    axes.hist(finite, bins=edges.tolist(), color=style.color)
    axes.axvline(sample.before, color=INK, linewidth=0.8, linestyle=":")
    axes.set_title(shorten(replace_unprintable(sample.method), 14))
    axes.set_yscale("log")
    axes.set_ylim(0.7, len(sample.performance) * 1.3)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,.0f}"))
    axes.xaxis.set_major_locator(MaxNLocator(3, integer=True))


def _sensitivity_edges(values: np.ndarray, minimum: float) -> np.ndarray:
    positive = values[np.isfinite(values) & (values > 0)]
    ends = (positive.min(), positive.max(), minimum) if positive.size else (minimum, 1.0)
    top = ceil(log10(max(ends)) + 1e-9)
    return np.logspace(max(floor(log10(min(ends))), top - MAX_DECADES), top, SENSITIVITY_BINS + 1)


def _draw_sensitivities(axes: Axes, values: np.ndarray, edges: np.ndarray, minimum: float, color: str) -> None:
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
