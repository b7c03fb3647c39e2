"""The figures of what mutations did: small multiples, one panel a measure or a method."""

from __future__ import annotations

from math import ceil, floor, log10
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from tfsm.experiments.outcomes import names
from tfsm.experiments.report.figures.look import (
    INK,
    Style,
    canvas,
    evaluations_axis,
    last_evaluation,
    legend,
    percent_axis,
    styles,
)
from tfsm.experiments.report.findings import Findings
from tfsm.experiments.report.series import Panel, Spread
from tfsm.experiments.report.words import printable, shortened

_TICKS: Final = 5


def diagnostics(findings: Findings, width: float) -> Figure:
    """Draw what runs logged about their mutations."""
    chosen = styles(names(findings.study.methods))
    there = {name: chosen[name] for name in chosen if any(name in panel.series for panel in findings.panels)}
    figure, panels = _grid(len(findings.panels), width, least=2.3, height=1.75)
    last = last_evaluation(findings)
    for axes, panel in zip(panels, findings.panels, strict=True):
        _measure(axes, panel, chosen)
        evaluations_axis(axes, last, ticks=3)
    figure.supxlabel("evaluations", fontsize=9)
    legend(figure, there)
    return figure


def sensitivity(findings: Findings, width: float) -> Figure:
    """Draw how sensitive the weights of each layer were, one panel a method."""
    chosen = styles(names(findings.study.methods))
    rows = max(map(len, findings.spreads.values()))
    figure, panels = _grid(len(findings.spreads), width, least=3.0, height=0.18 * rows + 0.9)
    for axes, (name, spread) in zip(panels, findings.spreads.items(), strict=True):
        _spread(axes, spread, chosen[name])
        axes.set_title(shortened(printable(name), 30))
    figure.supxlabel("sensitivity of weights", fontsize=9)
    return figure


def _grid(count: int, width: float, *, least: float, height: float) -> tuple[Figure, list[Axes]]:
    rows = ceil(count / max(1, int(width / least)))
    columns = ceil(count / rows)
    figure = canvas(width, rows * height + 0.4)
    return figure, [figure.add_subplot(rows, columns, i + 1) for i in range(count)]


def _measure(axes: Axes, panel: Panel, chosen: dict[str, Style]) -> None:
    for name, series in panel.series.items():
        axes.fill_between(series.evaluations, series.low, series.high, **chosen[name].band)
        axes.plot(series.evaluations, series.middle, **(chosen[name].line | {"linewidth": 1.4}))
    axes.set_title(shortened(printable(panel.title), 34), fontsize=8.5)
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
        percent_axis(axes)


def _spread(axes: Axes, spread: Spread, style: Style) -> None:
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
    axes.set_yticks(places, [shortened(printable(layer), 24) for layer in spread], fontsize=8)
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
