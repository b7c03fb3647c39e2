"""The figure of sensitivities: histograms of the whole model, or layer by layer."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from math import ceil, floor, log10
from pathlib import Path
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from tfsm.errors import TfsmError
from tfsm.experiments.report.figures.look import INK, PAPER, canvas, house, styles
from tfsm.experiments.report.words import printable, shortened
from tfsm.experiments.report.write import write
from tfsm.experiments.sensitivities import FLOOR

FORMATS: Final = (".png", ".svg")
COLUMNS: Final = 3
MOST: Final = 24
"""Panels of one figure."""
BINS: Final = 40
DECADES: Final = 12
"""What is smaller than the largest by more is drawn at the left end."""


def check_plot(file: Path) -> None:
    """Refuse a place where no figure can be."""
    if file.suffix.lower() not in FORMATS:
        raise TfsmError(f"{file}: a figure is saved as {' or '.join(FORMATS)}")
    if not file.parent.is_dir():
        raise TfsmError(f"{file}: there is no directory {str(file.parent)!r}")


def save_sensitivity(file: Path, mutation: str, parts: Mapping[str, np.ndarray]) -> None:
    """Save histograms, one for each part, as PNG or SVG by the file's ending.

    Args:
        file: where to.
        mutation: who measured them.
        parts: sensitivities by what to call them; the largest parts where there are many.
    """
    content, format = BytesIO(), file.suffix.lower()[1:]
    metadata: dict[str, Any] = {"Title": f"Sensitivities, {mutation}"} | ({"Date": None} if format == "svg" else {})
    with house():
        drawn(mutation, parts).savefig(content, format=format, facecolor=PAPER, metadata=metadata)
    write(file, content.getvalue())


def drawn(mutation: str, parts: Mapping[str, np.ndarray]) -> Figure:
    """Draw histograms over one common axis."""
    largest = sorted(parts, key=lambda name: -parts[name].size)[:MOST]
    shown = [name for name in parts if name in largest]
    columns = min(COLUMNS, len(shown))
    rows = ceil(len(shown) / columns)
    figure = canvas(7.2, 3.2 if rows == 1 else 1.9 * rows + 0.4)
    edges = _edges(np.concatenate([parts[name] for name in shown]))
    color = styles([mutation])[mutation].color
    for i, name in enumerate(shown):
        axes = figure.add_subplot(rows, columns, i + 1)
        _histogram(axes, parts[name], edges, color)
        axes.set_title(shortened(printable(name), 28 if columns > 1 else 60))
        if i % columns == 0:
            axes.set_ylabel("weights")
    figure.supxlabel(f"sensitivity ({printable(mutation)}); dotted: the floor, {FLOOR:g}", fontsize=9)
    return figure


def _edges(values: np.ndarray) -> np.ndarray:
    positive = values[np.isfinite(values) & (values > 0)]
    ends = (positive.min(), positive.max(), FLOOR) if positive.size else (FLOOR, 1.0)
    top = ceil(log10(max(ends)) + 1e-9)
    return np.logspace(max(floor(log10(min(ends))), top - DECADES), top, BINS + 1)


def _histogram(axes: Axes, values: np.ndarray, edges: np.ndarray, color: str) -> None:
    positive = values[np.isfinite(values) & (values > 0)]
    axes.hist(np.clip(positive, edges[0], edges[-1]), bins=list(edges), color=color)
    axes.axvline(FLOOR, color=INK, linewidth=1, linestyle=":")
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(numticks=5))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    zero = float(np.mean(values == 0))
    if zero:
        axes.text(0.02, 0.97, f"{100 * zero:.3g}% are 0", transform=axes.transAxes, va="top", fontsize=8)
