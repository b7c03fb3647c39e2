"""The figures of a report, drawn by matplotlib, which the extra `plot` brings."""

from __future__ import annotations

from tfsm.experiments.report.figures.draw import draw, save_figures

__all__ = ["draw", "save_figures"]
