"""How figures look: colours and dashes that tell methods apart for everybody, also in black and white."""

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
"""Okabe and Ito's, some of them darker, so that every one is three times as dark as paper or more."""
DASHES: Final[tuple[Dash, ...]] = (
    (0, None),
    (0, (6, 2)),
    (0, (1.5, 1.5)),
    (0, (6, 2, 1.5, 2)),
    (0, (9, 2, 1.5, 2, 1.5, 2)),
)
BAND: Final = 0.13
"""How opaque the bands of a few methods are; those of many are less so, for they lie upon each other."""
LABEL: Final = 32
"""The most letters of a name in a legend."""

_PARAMETERS: Final[dict[Any, Any]] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same picture everywhere
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.facecolor": "none",  # the paper is the page's
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
    "svg.hashsalt": "tfsm",  # otherwise every drawing has other identifiers
    "savefig.dpi": 150,
}


@dataclass(frozen=True)
class MethodStyle:
    """How a method is drawn."""

    color: str
    dash: Dash
    opacity: float = BAND

    @property
    def line(self) -> dict[str, Any]:
        """Arguments of a line."""
        return {"color": self.color, "linestyle": self.dash}

    @property
    def band(self) -> dict[str, Any]:
        """Arguments of a band."""
        return {"color": self.color, "alpha": self.opacity, "linewidth": 0}


def assign_styles(names: Sequence[str]) -> dict[str, MethodStyle]:
    """Return each method's style, no two of forty the same; the built-in operators always have their own."""
    opacity = min(BAND, 0.4 / max(1, len(names)))
    every = [
        MethodStyle(color, DASHES[(i + turn) % len(DASHES)], opacity)
        for turn in range(len(DASHES))
        for i, color in enumerate(COLORS)
    ]
    own = {name: every[i] for i, name in enumerate(OPERATOR_COLORS) if name in names}
    free = cycle([style for style in every if style not in own.values()])
    return {name: own.get(name) or next(free) for name in names}


@contextmanager
def house_style() -> Iterator[None]:
    """Draw in the house's look, whatever the user's own matplotlib settings are."""
    with matplotlib.rc_context(), catch_warnings():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_PARAMETERS)
        filterwarnings("ignore", r"Glyph .* missing", UserWarning)  # a name in a script that the font does not have
        yield


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure."""
    return Figure(figsize=(width, height), layout="constrained")


def add_legend(figure: Figure, chosen: Mapping[str, MethodStyle]) -> None:
    """Put a legend above all axes, where it covers no data, and make the figure higher by as much."""
    width, letter = figure.get_figwidth(), 0.085
    labels = [shorten(replace_unprintable(name), min(LABEL, int(width / letter) - 7)) for name in chosen]
    columns = min(len(labels), max(1, int(width / (letter * max(map(len, labels)) + 0.55))))
    figure.set_figheight(figure.get_figheight() + 0.19 * ceil(len(labels) / columns))
    # A label that begins with an underscore would be left out, a text is not.
    texts = figure.legend(
        [Line2D([], [], **style.line) for style in chosen.values()],
        ["x"] * len(labels),
        loc="outside upper left",
        ncols=columns,
        handlelength=3.2,
    ).get_texts()
    for text, label in zip(texts, labels, strict=True):
        text.set_text(label)


def format_evaluations_axis(axes: Axes, last: float, *, ticks: int = 4) -> None:
    """Make the horizontal axis one of evaluations."""
    axes.set_xlim(0, last)
    axes.xaxis.set_major_locator(MaxNLocator(ticks, steps=[1, 2, 5, 10], integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))


def format_percent_axis(axes: Axes) -> None:
    """Make the vertical axis one of shares."""
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{100 * y:.3g}%"))


def find_last_evaluation(findings: Findings) -> float:
    """Return where an axis of evaluations ends: once every run is solved there is nothing more to see."""
    lasts = [1.0 if findings.at is None else findings.at * 1.05]
    for method in findings.study.methods:
        spent = max(outcome.evaluations for outcome in method.outcomes)
        lasts.append(min(spent * 1.1, method.budget) if method.solved == len(method.outcomes) else method.budget)
    return max(lasts)
