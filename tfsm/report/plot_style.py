"""The style of the figures: colors and dashes that tell methods apart, also without color vision and in print."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from math import ceil
from typing import Any, Final, TypeAlias
from warnings import catch_warnings, filterwarnings

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from tfsm.report.findings import Findings
from tfsm.report.formatting import replace_unprintable, shorten

Dash: TypeAlias = tuple[float, tuple[float, ...] | None]

INK: Final = "#24292f"
GRID: Final = "#d5dae0"
PAPER: Final = "#ffffff"
OPERATOR_COLORS: Final = {
    "control": "#6e6e6e",
    "sm-r": "#c2609a",
    "sm-g-sum": "#0072b2",
    "sm-g-abs": "#d55e00",
    "sm-g-so": "#008a64",
}
COLORS: Final = (*OPERATOR_COLORS.values(), "#9a7400", "#7a5cc9", "#8a4b2d")
"""The colors of Okabe and Ito, some of them darker, so that each has a contrast of at least 3 to the background."""
DASHES: Final[tuple[Dash, ...]] = (
    (0, None),
    (0, (6, 2)),
    (0, (1.5, 1.5)),
    (0, (6, 2, 1.5, 2)),
    (0, (9, 2, 1.5, 2, 1.5, 2)),
)
BAND_OPACITY: Final = 0.13
"""The opacity of bands. It is less if there are many methods, because their bands overlap."""
MAX_LABEL: Final = 32
"""The maximum length of a name in the legend."""

_PARAMETERS: Final[dict[Any, Any]] = {
    "font.family": "DejaVu Sans",  # ships with matplotlib, so figures are the same everywhere
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.facecolor": "none",  # the page has its own background
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "text.parse_math": False,  # a dollar in a name is a dollar
    "axes.unicode_minus": True,
    "lines.linewidth": 1.8,
    "legend.frameon": False,
    "svg.fonttype": "path",
    "svg.hashsalt": "tfsm",  # otherwise each drawing has different identifiers
    "savefig.dpi": 150,
}


@dataclass(frozen=True)
class MethodStyle:
    """The style of a method's curves."""

    color: str
    dash: Dash
    opacity: float = BAND_OPACITY

    @property
    def line(self) -> dict[str, Any]:
        """Arguments for a line."""
        return {"color": self.color, "linestyle": self.dash}

    @property
    def band(self) -> dict[str, Any]:
        """Arguments for a band."""
        return {"color": self.color, "alpha": self.opacity, "linewidth": 0}


def assign_styles(names: Sequence[str]) -> dict[str, MethodStyle]:
    """Return a style per method, different for up to forty methods. Built-in operators always have the same style."""
    opacity = min(BAND_OPACITY, 0.4 / max(1, len(names)))
    available = [
        MethodStyle(color, DASHES[(i + turn) % len(DASHES)], opacity)
        for turn in range(len(DASHES))
        for i, color in enumerate(COLORS)
    ]
    reserved = {name: available[i] for i, name in enumerate(OPERATOR_COLORS) if name in names}
    free = cycle([style for style in available if style not in reserved.values()])
    return {name: reserved.get(name) or next(free) for name in names}


@contextmanager
def house_style() -> Iterator[None]:
    """Draw in this style, regardless of the user's matplotlib settings."""
    with matplotlib.rc_context(), catch_warnings():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_PARAMETERS)
        filterwarnings("ignore", r"Glyph .* missing", UserWarning)  # the font may lack the script of a name
        yield


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure."""
    return Figure(figsize=(width, height), layout="constrained")


def add_legend(figure: Figure, styles: Mapping[str, MethodStyle]) -> None:
    """Add a legend above all axes, where it covers no data, and make the figure taller to fit it."""
    width, letter = figure.get_figwidth(), 0.085
    labels = [shorten(replace_unprintable(name), min(MAX_LABEL, int(width / letter) - 7)) for name in styles]
    columns = min(len(labels), max(1, int(width / (letter * max(map(len, labels)) + 0.55))))
    figure.set_figheight(figure.get_figheight() + 0.19 * ceil(len(labels) / columns))
    # matplotlib leaves out labels that begin with an underscore, so the texts are set afterwards.
    texts = figure.legend(
        [Line2D([], [], **style.line) for style in styles.values()],
        ["x"] * len(labels),
        loc="outside upper left",
        ncols=columns,
        handlelength=3.2,
    ).get_texts()
    for text, label in zip(texts, labels, strict=True):
        text.set_text(label)


def format_evaluations_axis(axes: Axes, last: float, *, ticks: int = 4) -> None:
    """Format the horizontal axis as evaluations."""
    axes.set_xlim(0, last)
    axes.xaxis.set_major_locator(MaxNLocator(ticks, steps=[1, 2, 5, 10], integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))


def format_percent_axis(axes: Axes) -> None:
    """Format the vertical axis as percentages."""
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{100 * y:.3g}%"))


def find_evaluations_end(findings: Findings) -> float:
    """Return where the axis of evaluations ends. Once all runs are solved, there is nothing more to see."""
    ends = [1.0 if findings.at is None else findings.at * 1.05]
    for method in findings.study.methods:
        used = max(outcome.evaluations for outcome in method.outcomes)
        ends.append(min(used * 1.1, method.budget) if method.solved == len(method.outcomes) else method.budget)
    return max(ends)
