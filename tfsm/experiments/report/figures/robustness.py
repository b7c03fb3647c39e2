"""The figure of robustness: what is left of solutions after mutations, and how mutants of one of them do."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from tfsm.experiments.report.figures.look import PAPER, canvas, house, legend, percent_axis, styles
from tfsm.experiments.report.words import printable, shortened
from tfsm.experiments.report.write import write
from tfsm.experiments.retention import Retained, Robustness

NAME = "robustness"
BINS = 20


def save_robustness(folder: Path, found: Robustness) -> list[Path]:
    """Save the figure as PNG and as SVG, and return the files."""
    files = []
    for format in ("png", "svg"):
        content = BytesIO()
        metadata: dict[str, Any] = {"Title": f"{found.domain}: robustness to mutations"}
        with house():
            drawn(found).savefig(
                content, format=format, facecolor=PAPER, metadata=metadata | ({"Date": None} if format == "svg" else {})
            )
        write(folder / f"{NAME}.{format}", content.getvalue())
        files.append(folder / f"{NAME}.{format}")
    return files


def drawn(found: Robustness, width: float = 7.2) -> Figure:
    """Draw the fraction retained by method and operator, and below it mutants of each method's representative."""
    columns = min(max(len(found.samples), 1), 5)
    rows = -(-len(found.samples) // columns)
    figure = canvas(width, 3.0 + 1.6 * rows)
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
        figure.supxlabel(f"{printable(found.measure)}, of {count:,} mutants by the method's own operator", fontsize=9)
    legend(figure, styles(found.operators))
    return figure


def _retained(axes: Axes, found: Robustness) -> None:
    chosen = styles(found.operators)
    step = 0.8 / max(len(chosen), 1)
    for i, (operator, style) in enumerate(chosen.items()):
        for x, method in enumerate(found.methods):
            means = found.means(method, operator)
            place = x - 0.4 + (i + 0.5) * step
            axes.plot(np.full(len(means), place), means, "o", color=style.color, markersize=3, alpha=0.35)
            axes.plot([place - 0.4 * step, place + 0.4 * step], [means.mean()] * 2, color=style.color, linewidth=2.4)
    axes.set_xticks(range(len(found.methods)), [shortened(printable(name), 18) for name in found.methods])
    axes.set_xlabel("evolved by; a dot is a solution, a bar the mean of all")
    axes.set_ylabel("performance retained")
    axes.set_ylim(-0.02, 1.04)
    axes.grid(visible=False, axis="x")
    percent_axis(axes)


def _edges(found: Robustness) -> np.ndarray:
    values = np.concatenate([sample.performance for sample in found.samples]) if found.samples else np.zeros(1)
    values = values[np.isfinite(values)]
    if values.size and (values == np.round(values)).all() and np.ptp(values) <= 50:
        return np.arange(values.min() - 0.5, values.max() + 1.0)
    return np.histogram_bin_edges(values, BINS)


def _histogram(axes: Axes, sample: Retained, edges: np.ndarray) -> None:
    style = styles([sample.operator])[sample.operator]
    finite = sample.performance[np.isfinite(sample.performance)]
    axes.hist(finite, bins=edges.tolist(), color=style.color)
    axes.axvline(sample.before, color="#24292f", linewidth=0.8, linestyle=":")
    axes.set_title(shortened(printable(sample.method), 14))
    axes.set_yscale("log")
    axes.set_ylim(0.7, len(sample.performance) * 1.3)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,.0f}"))
    axes.xaxis.set_major_locator(MaxNLocator(3, integer=True))
