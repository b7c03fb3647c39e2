"""The figures described in text: how to read each one, and the numbers that it shows.

The page shows these descriptions below the figures, and screen readers read them in place of the drawings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from tfsm.report.findings import Diagnostic, Findings
from tfsm.report.formatting import format_number, format_percent


@dataclass(frozen=True)
class FigureDescription:
    """A figure described in text."""

    title: str
    explanation: str
    """How to read the figure."""
    lines: tuple[str, ...]
    """What the figure shows, method by method or panel by panel. Empty if there is nothing to draw."""


def describe_figure(name: str, findings: Findings) -> FigureDescription:
    """Return the description of a figure."""
    return _DESCRIBERS[name](findings)


def list_drawable_figures(findings: Findings) -> list[str]:
    """Return the names of the figures for which there is data."""
    return [name for name in _DESCRIBERS if describe_figure(name, findings).lines]


def explain_missing_figures(findings: Findings) -> dict[str, str]:
    """Return why figures are left out, by the names of the figures."""
    drawable = list_drawable_figures(findings)
    return {
        name: f"{describe_figure(name, findings).title}: {reason}"
        for name, reason in _REASONS.items()
        if name not in drawable
    }


def _describe_solved(findings: Findings) -> FigureDescription:
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
            median = summary.median_evaluations
            half = "" if median is None else f"half of the runs by {format_number(median)}, "
            line += f"; the first at {solutions[0]:,}, {half}the last at {solutions[-1]:,}"
        if findings.at is not None and findings.at <= curve.evaluations[-1]:
            i = int(np.searchsorted(curve.evaluations, findings.at, side="right")) - 1
            line += f"; {format_percent(curve.share[i])} within {findings.at:,}"
        lines.append(f"{line}.")
    estimate = {
        "kaplan-meier": "the Kaplan-Meier estimate, in which a run that stopped early counts until it stopped. Ticks "
        "mark such runs",
        "wilson": "the share of all runs, with the Wilson interval. A run that stopped early counts as unsolved",
    }[findings.band]
    mark = "" if findings.at is None else f" The vertical line is at {findings.at:,} evaluations."
    return FigureDescription(
        "Runs solved over evaluations",
        f"One curve per method: {estimate}. Bands are pointwise 95% confidence intervals.{mark}",
        tuple(lines),
    )


def _describe_fitness(findings: Findings) -> FigureDescription:
    lines = []
    for name, curve in findings.fitness.items():
        interval = f"95% interval {format_number(curve.low[-1])} to {format_number(curve.high[-1])}; {curve.count} runs"
        lines.append(
            f"{name}: from {format_number(curve.middle[0])} at {curve.evaluations[0]:,} evaluations to "
            f"{format_number(curve.middle[-1])} at {curve.evaluations[-1]:,} "
            f"({interval if curve.count > 1 else 'one run, so no interval'})."
        )
    return FigureDescription(
        "Best fitness over evaluations",
        "The interquartile mean over runs of the best fitness so far (the mean, if there are fewer than four runs). A "
        "run that has ended keeps its last value. Bands are 95% bootstrap intervals.",
        tuple(lines),
    )


def _describe_diagnostics(findings: Findings) -> FigureDescription:
    children = any(series.of_children for panel in findings.diagnostics for series in panel.series.values())
    band = "Bands show the interquartile range of these runs"
    band += ", or for divergence that of the children within a run." if children else "."
    return FigureDescription(
        "Effects of mutations",
        f"One panel per measure, one curve per method: the median over the runs that were still active. {band} "
        "Divergence is the distance between the outputs of a child and those of its parent. A child is broken if it is "
        "no fitter than the median of the initial population.",
        tuple(_describe_diagnostic(diagnostic) for diagnostic in findings.diagnostics),
    )


def _describe_diagnostic(diagnostic: Diagnostic) -> str:
    format_value = format_percent if diagnostic.share else format_number
    parts = []
    for name, series in diagnostic.series.items():
        part = f"{name} from {format_value(float(series.middle[0]))} to {format_value(float(series.middle[-1]))}"
        if series.of_children:
            low, high = format_value(series.low[-1]), format_value(series.high[-1])
            part += f" (quartiles of the children at the end: {low} and {high})"
        parts.append(part)
    return f"{diagnostic.title[0].upper()}{diagnostic.title[1:]}: {'; '.join(parts)}."


def _describe_sensitivity(findings: Findings) -> FigureDescription:
    lines = []
    for name, quantiles in findings.sensitivity.items():
        layers = "; ".join(
            f"{layer} {format_number(median)} ({format_number(low)} to {format_number(high)})"
            for layer, (low, median, high) in quantiles.items()
        )
        lines.append(f"{name}: {layers}.")
    return FigureDescription(
        "Weight sensitivity by layer at the end of the runs",
        "How strongly the outputs depend on a weight. Dots are medians over the weights of a layer, and lines extend "
        "from their 5% to their 95% quantile. Each is the median over runs.",
        tuple(lines),
    )


def _describe_archives(findings: Findings) -> FigureDescription:
    lines = []
    for name, archive in findings.archives.items():
        fitness = archive.fitness[archive.filled]
        lines.append(
            f"{name}, run {archive.run}: {archive.filled.sum()} of {len(archive.fitness)} cells filled "
            f"({format_percent(archive.filled.mean())}), fitness {format_number(fitness.min())} to "
            f"{format_number(fitness.max())}, median {format_number(float(np.median(fitness)))}."
        )
    return FigureDescription(
        "Archive of elites",
        "One panel per method, for the run that filled the most cells. Each cell of the behavior space is colored by "
        "the fitness of the best individual ever found in it. Blank cells were never reached. Titles give the share of "
        "cells filled.",
        tuple(lines),
    )


_DESCRIBERS: Final[Mapping[str, Callable[[Findings], FigureDescription]]] = {
    "solved": _describe_solved,
    "fitness": _describe_fitness,
    "diagnostics": _describe_diagnostics,
    "sensitivity": _describe_sensitivity,
    "archive": _describe_archives,
}

_REASONS: Final = {
    "fitness": "left out because no run logged a finite fitness.",
    "diagnostics": "left out because no run logged anything about its mutations.",
    "sensitivity": "left out because no run logged sensitivities.",
}
