"""Draw how runs went, from their run directories: runs solved, or error, against evaluations.

    python examples/curves.py solved runs/parity-* --out solved.png
    python examples/curves.py error runs/simple-* --out error.png

Needs matplotlib (`pip install 'tfsm[plot]'`).
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

COLORS = {"control": "#555555", "sm-r": "#cc79a7", "sm-g-sum": "#0072b2", "sm-g-abs": "#d55e00", "sm-g-so": "#009e73"}


def main() -> None:
    """Read the directories and draw one panel a domain."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["solved", "error"])
    parser.add_argument("directories", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    domains: dict[str, list[Path]] = defaultdict(list)
    for directory in arguments.directories:
        domains[record_of(directory)["settings"]["domain"]].append(directory)
    figure, panels = plt.subplots(
        1, len(domains), figsize=(1.5 + 4.2 * len(domains), 3.6), squeeze=False, layout="constrained"
    )
    for axes, (domain, directories) in zip(panels[0], domains.items(), strict=True):
        axes.set_title(domain)
        axes.set_xlabel("evaluations")
        for directory in sorted(directories, key=lambda path: order_of(record_of(path))):
            draw_solved(axes, directory) if arguments.what == "solved" else draw_error(axes, directory)
        axes.grid(alpha=0.25)
    panels[0][-1].legend(frameon=False)
    figure.savefig(arguments.out, dpi=150)


def record_of(directory: Path) -> dict[str, Any]:
    """Return a run directory's record."""
    record: dict[str, Any] = json.loads((directory / "run.json").read_text())
    return record


def order_of(record: dict[str, Any]) -> int:
    """Return where an operator stands in the legend."""
    return [*COLORS, record["settings"]["mutation"]].index(record["settings"]["mutation"])


def draw_solved(axes: Axes, directory: Path) -> None:
    """Draw the share of runs solved after so many evaluations."""
    record = record_of(directory)
    settings = record["settings"]
    solved = sorted(run["evaluations"] for run in record["runs"] if run["solved"])
    ends = [0, *solved, settings["evaluations"]]
    shares = [*(i / len(record["runs"]) for i in range(len(solved) + 1)), len(solved) / len(record["runs"])]
    axes.step(ends, shares, where="post", label=settings["mutation"], color=COLORS.get(settings["mutation"]))
    axes.set_ylabel("share of runs solved")
    axes.set_ylim(0, 1.03)
    # Once every run is solved there is nothing more to see.
    last = solved[-1] * 1.1 if len(solved) == len(record["runs"]) else settings["evaluations"]
    axes.set_xlim(0, last if axes.get_xlim()[0] != 0 else max(last, axes.get_xlim()[1]))


def draw_error(axes: Axes, directory: Path) -> None:
    """Draw the median error of all runs, and between which two quarters of them lie; a solved run stays where it is."""
    settings = record_of(directory)["settings"]
    lines = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    grid = np.unique([line["evaluations"] for line in lines])
    runs = []
    for run in range(settings["runs"]):
        own = [(line["evaluations"], -line["best_fitness"]) for line in lines if line["run"] == run]
        when, error = np.array(own).T
        runs.append(error[np.searchsorted(when, grid, side="right").clip(1) - 1])
    low, middle, high = np.quantile(runs, [0.25, 0.5, 0.75], axis=0)
    color = COLORS.get(settings["mutation"])
    axes.plot(grid, middle, label=settings["mutation"], color=color)
    axes.fill_between(grid, low, high, alpha=0.15, color=color, linewidth=0)
    axes.set_ylabel("squared error of the best (median, quartiles)")
    axes.set_yscale("log")
    axes.set_xscale("log")


if __name__ == "__main__":
    main()
