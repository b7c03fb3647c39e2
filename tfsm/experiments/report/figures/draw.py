"""Figures by name, and as files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from re import sub
from typing import Any, Final

from matplotlib.figure import Figure

from tfsm.experiments.report.alternatives import drawable, in_words
from tfsm.experiments.report.figures.archive import archive
from tfsm.experiments.report.figures.curves import fitness, solved
from tfsm.experiments.report.figures.look import PAPER, house
from tfsm.experiments.report.figures.panels import diagnostics, sensitivity
from tfsm.experiments.report.findings import Findings
from tfsm.experiments.report.write import write

WIDE: Final = 7.2
NARROW: Final = 3.4
"""Inches: as wide as a page's text, and as a telephone."""

_DRAWN: Final[Mapping[str, Callable[[Findings, float], Figure]]] = {
    "solved": solved,
    "fitness": fitness,
    "diagnostics": diagnostics,
    "sensitivity": sensitivity,
    "archive": archive,
}


def draw(name: str, findings: Findings, *, format: str, width: float = WIDE, paper: str = PAPER) -> bytes:
    """Return a figure as a file's content; the same findings always give the same bytes.

    Args:
        name: `solved`, `fitness`, `diagnostics`, `sensitivity` or `archive`; must be one of those that are drawable.
        findings: what to draw.
        format: `png` or `svg`.
        width: in inches.
        paper: the background's colour; `none` is transparent.
    """
    metadata: dict[str, Any] = {"Title": f"{findings.study.domain}: {in_words(name, findings).title}"}
    if format == "svg":
        metadata |= {"Date": None}
    content = BytesIO()
    with house():
        _DRAWN[name](findings, width).savefig(content, format=format, facecolor=paper, metadata=metadata)
    return content.getvalue()


def save_figures(folder: Path, findings: Sequence[Findings]) -> list[Path]:
    """Save every figure that there is something to draw for, as PNG and as SVG, and return the files."""
    files = []
    for of_study in findings:
        prefix = "" if len(findings) == 1 else sub(r"[^\w.+-]+", "-", of_study.study.domain) + "-"
        for name in drawable(of_study):
            for format in ("png", "svg"):
                file = folder / f"{prefix}{name}.{format}"
                write(file, draw(name, of_study, format=format))
                files.append(file)
    return files
