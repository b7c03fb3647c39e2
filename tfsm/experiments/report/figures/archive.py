"""The figure of archives of elites: heat maps over behavior, one panel a method."""

from __future__ import annotations

from math import ceil
from typing import Final

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from tfsm.experiments.report.figures.look import canvas
from tfsm.experiments.report.findings import Findings
from tfsm.experiments.report.words import percent, printable, shortened

PIXELS: Final = 240
"""Of each side of a heat map: some for each cell."""
COLOURS: Final = "viridis"
HIGHEST: Final = 3.8
"""Inches."""


def archive(findings: Findings, width: float) -> Figure:
    """Draw the best fitness in each cell, with one scale of colours for all methods."""
    archives = findings.archives
    columns = max(1, min(len(archives), int(width / 2.4)))
    rows = ceil(len(archives) / columns)
    figure = canvas(width, rows * min(width / columns, HIGHEST) * 0.95 + 0.5)
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
        axes.set_title(f"{shortened(printable(name), 24)}: {percent(own.filled.mean())}", fontsize=9)
        first, second = own.names if len(own.names) == 2 else ("first number", "second number")
        axes.set_xlabel(printable(first))
        axes.set_ylabel(printable(second))
        panels.append(axes)
    figure.colorbar(ScalarMappable(norm, COLOURS), ax=panels, label="fitness", shrink=0.85)
    return figure
