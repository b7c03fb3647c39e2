"""The figures of how runs went: share solved, and best fitness."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tfsm.experiments.outcomes import names
from tfsm.experiments.report.figures.look import (
    INK,
    canvas,
    evaluations_axis,
    last_evaluation,
    legend,
    percent_axis,
    styles,
)
from tfsm.experiments.report.findings import Findings
from tfsm.experiments.statistics import SolvedCurve


def solved(findings: Findings, width: float) -> Figure:
    """Draw the share of runs solved against evaluations."""
    study = findings.study
    chosen = styles(names(study.methods))
    figure = canvas(width, 0.2 * width + 2)
    axes = figure.add_subplot()
    for method in study.methods:
        curve, style = findings.solved[method.name], chosen[method.name]
        axes.fill_between(curve.evaluations, curve.low, curve.high, step="post", **style.band)
        axes.step(curve.evaluations, curve.share, where="post", **style.line)
        stopped = [o.evaluations for o in method.outcomes if not o.solved and o.evaluations < method.budget]
        if stopped and findings.band == "kaplan-meier":
            axes.plot(stopped, _share(curve, stopped), "|", color=style.color, markersize=8)
    axes.set_ylim(-0.015, 1.015)  # lines at both ends are to be seen whole
    percent_axis(axes)
    axes.set_ylabel("runs solved")
    axes.set_xlabel("evaluations")
    evaluations_axis(axes, last_evaluation(findings))
    if findings.at is not None:
        _mark(axes, findings.at)
    legend(figure, chosen)
    return figure


def fitness(findings: Findings, width: float) -> Figure:
    """Draw the best fitness against evaluations."""
    chosen = styles(names(findings.study.methods))
    figure = canvas(width, 0.2 * width + 2)
    axes = figure.add_subplot()
    for name, curve in findings.fitness.items():
        axes.fill_between(curve.evaluations, curve.low, curve.high, **chosen[name].band)
        axes.plot(curve.evaluations, curve.middle, **chosen[name].line)
    axes.set_ylabel("best fitness")
    axes.set_xlabel("evaluations")
    evaluations_axis(axes, last_evaluation(findings))
    if findings.at is not None:
        _mark(axes, findings.at)
    legend(figure, {name: chosen[name] for name in findings.fitness})
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
