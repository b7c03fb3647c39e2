"""Figures in words: what somebody who does not see them should know, with the numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from tfsm.report.findings import Diagnostic, Findings
from tfsm.report.formatting import format_number, format_percent


@dataclass(frozen=True)
class FigureDescription:
    """A figure in words."""

    title: str
    explanation: str
    """How to read it."""
    lines: tuple[str, ...]
    """What is to be seen; none if there is nothing to draw."""


def describe_figure(name: str, findings: Findings) -> FigureDescription:
    """Return what a figure shows."""
    return _DESCRIBERS[name](findings)


def list_drawable_figures(findings: Findings) -> list[str]:
    """Return the names of the figures that there is something to draw for."""
    return [name for name in _DESCRIBERS if describe_figure(name, findings).lines]


def explain_missing_figures(findings: Findings) -> dict[str, str]:
    """Return why figures are not there."""
    there = list_drawable_figures(findings)
    return {name: why for name, why in _NEEDS.items() if name not in there}


def _solved(findings: Findings) -> FigureDescription:
    lines = []
    for summary, method in zip(findings.summaries, findings.study.methods, strict=True):
        curve = findings.solved[method.name]
        line = (
            f"{method.name}: {summary.solved} of {summary.runs} runs solved; {format_percent(curve.share[-1])} by "
            f"{curve.evaluations[-1]:,} evaluations "
            f"(95% interval {format_percent(curve.low[-1])} to {format_percent(curve.high[-1])})"
        )
        solutions = sorted(outcome.evaluations for outcome in method.outcomes if outcome.solved)
        if solutions:
            half = summary.median_evaluations
            line += f"; the first at {solutions[0]:,}, " + ("" if half is None else f"half by {format_number(half)}, ")
            line += f"the last at {solutions[-1]:,}"
        if findings.at is not None and findings.at <= curve.evaluations[-1]:
            i = int(np.searchsorted(curve.evaluations, findings.at, side="right")) - 1
            line += f"; {format_percent(curve.share[i])} within {findings.at:,}"
        lines.append(f"{line}.")
    how = {
        "kaplan-meier": "Kaplan and Meier's estimate, in which a run that stopped early counts for as long as it went "
        "on; such runs are marked by ticks",
        "wilson": "the share of all runs, with Wilson's interval; a run that stopped early counts as unsolved",
    }[findings.band]
    mark = "" if findings.at is None else f" The vertical line is at {findings.at:,} evaluations."
    return FigureDescription(
        "Share of runs solved against evaluations",
        f"One step curve a method: {how}. Bands are 95% confidence intervals of each point by itself.{mark}",
        tuple(lines),
    )


def _fitness(findings: Findings) -> FigureDescription:
    lines = []
    for name, curve in findings.fitness.items():
        ends = f"95% interval {format_number(curve.low[-1])} to {format_number(curve.high[-1])}; {curve.count} runs"
        lines.append(
            f"{name}: from {format_number(curve.middle[0])} at {curve.evaluations[0]:,} evaluations to "
            f"{format_number(curve.middle[-1])} at {curve.evaluations[-1]:,} "
            f"({ends if curve.count > 1 else '1 run, so no interval'})."
        )
    return FigureDescription(
        "Best fitness against evaluations",
        "The mean of the middle half of the runs (of all, if they are less than four), each run's best so far; a run "
        "that has ended stays where it is. Bands are 95% bootstrap intervals.",
        tuple(lines),
    )


def _diagnostics(findings: Findings) -> FigureDescription:
    children = any(series.of_children for panel in findings.diagnostics for series in panel.series.values())
    quarters = " For divergence it is where the middle half of a run's children lies." if children else ""
    return FigureDescription(
        "What mutations did",
        "One panel a measure, one curve a method: the median of the runs that still went on. The band is where the "
        f"middle half of these runs lies.{quarters} Divergence is how far a child's outputs are from its parent's. A "
        "child is broken if it is no better than the median of the first population.",
        tuple(_panel(panel) for panel in findings.diagnostics),
    )


def _panel(panel: Diagnostic) -> str:
    shown = format_percent if panel.share else format_number
    told = []
    for name, series in panel.series.items():
        line = f"{name} from {shown(float(series.middle[0]))} to {shown(float(series.middle[-1]))}"
        if series.of_children:
            line += f" (middle half of the children at the end: {shown(series.low[-1])} to {shown(series.high[-1])})"
        told.append(line)
    return f"{panel.title[0].upper()}{panel.title[1:]}: {'; '.join(told)}."


def _sensitivity(findings: Findings) -> FigureDescription:
    lines = []
    for name, spread in findings.sensitivity.items():
        layers = "; ".join(
            f"{layer} {format_number(middle)} ({format_number(low)} to {format_number(high)})"
            for layer, (low, middle, high) in spread.items()
        )
        lines.append(f"{name}: {layers}.")
    return FigureDescription(
        "Sensitivity of each layer's weights at the end of the runs",
        "How much the outputs change with a weight. Dots are medians of a layer's weights, lines go from their 5% to "
        "their 95% quantile; all are medians over runs.",
        tuple(lines),
    )


def _archive(findings: Findings) -> FigureDescription:
    lines = []
    for name, archive in findings.archives.items():
        best = archive.fitness[archive.filled]
        lines.append(
            f"{name}, run {archive.run}: {archive.filled.sum()} of {len(archive.fitness)} cells filled "
            f"({format_percent(archive.filled.mean())}), fitness from {format_number(best.min())} to "
            f"{format_number(best.max())}, {format_number(float(np.median(best)))} in the median."
        )
    return FigureDescription(
        "The best of each kind of behavior",
        "One panel a method: behavior is divided into cells, and each cell's colour is the fitness of the best "
        "individual that was ever seen there, at the end of the run that filled the most. Blank cells were never "
        "reached.",
        tuple(lines),
    )


_DESCRIBERS: Final[Mapping[str, Callable[[Findings], FigureDescription]]] = {
    "solved": _solved,
    "fitness": _fitness,
    "diagnostics": _diagnostics,
    "sensitivity": _sensitivity,
    "archive": _archive,
}

_NEEDS: Final = {
    "fitness": "left out, for no run logged a fitness that is finite.",
    "diagnostics": "left out, for no run logged anything about its mutations.",
    "sensitivity": "left out, for these runs logged no sensitivities.",
}
