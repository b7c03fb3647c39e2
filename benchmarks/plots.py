"""PNG plots of the results: `python -m benchmarks.plots benchmarks.json [DIR]`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter, NullFormatter

from benchmarks.results import format_significant

Rows = list[dict[str, Any]]
COLORS = {"control": "#555555", "sm-r": "#cc79a7", "sm-g-sum": "#0072b2", "sm-g-abs": "#d55e00", "sm-g-so": "#009e73"}


def save_plots(path: Path, folder: Path | None = None, prefix: str = "") -> list[Path]:
    """Plot a file of results, next to it or into another directory, and return the files."""
    results = json.loads(path.read_text(encoding="utf-8"))
    tables = {table["name"]: table["rows"] for part in results["parts"].values() for table in part}
    folder = folder or path.parent
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name, plot in PLOTS.items():
        if tables.get(name):
            plot(tables[name])
            meta = results["meta"]
            plt.gcf().supxlabel(f"{meta['processor']}, one core; {meta['date'][:10]}", fontsize=6, color="grey")
            target = folder / f"{prefix}{name}.png"
            plt.gcf().savefig(target, dpi=150)
            plt.close("all")
            files.append(target)
    return files


def plot_operator_cost(rows: Rows) -> None:
    rows = [row for row in rows if isinstance(row["forward passes"], dict)]
    groups = list(dict.fromkeys(row["network"] for row in rows))
    members = list(dict.fromkeys(row["operator"] for row in rows))
    _, axes = plt.subplots(figsize=(2.5 + 1.6 * len(groups), 3.5), layout="constrained")
    width = 0.8 / len(members)
    for i, member in enumerate(members):
        selected = [row for row in rows if row["operator"] == member]
        positions = [groups.index(row["network"]) + width * i for row in selected]
        _draw_bars(
            axes,
            positions,
            [row["forward passes"] for row in selected],
            width=width,
            label=member,
            color=COLORS[member],
        )
    top = 1.1 * max(row["forward passes"]["high"] for row in rows)
    _mark_limits(
        axes, rows, [groups.index(row["network"]) + width * members.index(row["operator"]) for row in rows], width
    )
    axes.set_xticks([place + 0.4 - width / 2 for place in range(len(groups))], groups, fontsize=8)
    axes.set(ylim=(0, top), ylabel="forward passes per child")
    axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)


def plot_whole_loop(rows: Rows) -> None:
    widest = max(row["runs"] for row in rows)
    domains = list(dict.fromkeys(row["domain"] for row in rows))
    _, grid = plt.subplots(1, len(domains), figsize=(0.5 + 3 * len(domains), 3.2), layout="constrained", squeeze=False)
    for axes, domain in zip(grid[0], domains, strict=True):
        selected = [row for row in rows if row["domain"] == domain and row["runs"] == widest]
        names = [row["operator"] for row in selected]
        _draw_bars(
            axes,
            range(len(selected)),
            [row["evaluations/s"] for row in selected],
            color=[COLORS[name] for name in names],
        )
        for place, row in enumerate(selected):
            if row.get("target"):
                axes.plot([place - 0.45, place + 0.45], [row["target"]] * 2, color="black", linewidth=1, label="target")
        axes.set_xticks(range(len(selected)), names, rotation=30, ha="right", fontsize=8)
        axes.set_title(f"{domain}, {widest} runs", fontsize=9)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.tick_params("y", labelsize=8)
        if handles := axes.get_legend_handles_labels()[0]:
            axes.legend(handles=handles[:1], fontsize=7, frameon=False)
    grid[0][0].set_ylabel("evaluations per second")


def plot_other_libraries(rows: Rows) -> None:
    _, axes = plt.subplots(figsize=(7, 0.9 + 0.32 * len(rows)), layout="constrained")
    for place, row in enumerate(rows):
        cell, color = row["evaluations/s"], "#0072b2" if row["algorithm"].startswith("tfsm") else "#555555"
        # Points, because the length of a bar means nothing on a logarithmic axis.
        axes.plot([cell["low"], cell["high"]], [place, place], color=color, linewidth=1.5)
        axes.plot(cell["median"], place, "o", color=color, markersize=5)
        axes.annotate(
            format_significant(cell["median"]), (cell["high"], place), (6, 0), textcoords="offset points", va="center"
        )
    axes.set_yticks(range(len(rows)), [row["algorithm"] for row in rows])
    axes.invert_yaxis()
    axes.set(xscale="log", xlabel="evaluations per second")
    axes.set_xlim(right=3 * max(row["evaluations/s"]["high"] for row in rows))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.grid(axis="x", alpha=0.25)
    axes.set_title("Gaussian-mutation GA, recurrent parity, one core", fontsize=10)


def plot_growth(rows: Rows) -> None:
    kinds = list(dict.fromkeys(row["grows"] for row in rows))
    _, grid = plt.subplots(
        1, len(kinds), figsize=(1 + 2.4 * len(kinds), 3.4), layout="constrained", squeeze=False, sharey=True
    )
    for axes, kind in zip(grid[0], kinds, strict=True):
        selected = [row for row in rows if row["grows"] == kind]
        for operator in [name for name in selected[0] if name not in ("grows", "size", "empty call")]:
            points = [(row["size"], row[operator]["median"]) for row in selected if operator in row]
            color = COLORS.get(operator)
            axes.plot(*zip(*points, strict=True), marker="o", markersize=3, label=operator, color=color)
        axes.set(xscale="log", yscale="log", xlabel=kind)
        axes.set_xticks([row["size"] for row in selected], [f"{row['size']:,}" for row in selected], fontsize=8)
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.grid(alpha=0.25)
    grid[0][0].yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    grid[0][0].set_ylabel("ms for one child per run")
    grid[0][-1].legend(fontsize=7, frameon=False)


def plot_flop_rate(rows: Rows) -> None:
    _, axes = plt.subplots(figsize=(9, 3.5), layout="constrained")
    series = {"tfsm": "#0072b2", "the other way": "#56b4e9", "products": "#555555", "large product": "#bbbbbb"}
    for i, (column, color) in enumerate(series.items()):
        positions = [place + 0.2 * i for place in range(len(rows))]
        _draw_bars(axes, positions, [row[column] for row in rows], width=0.2, label=column, color=color)
    labels = [f"{row['network']}\n{row['what']}".replace("'s ", "'s\n") for row in rows]
    axes.set_xticks([place + 0.3 for place in range(len(rows))], labels, fontsize=7)
    axes.set(ylabel="GFLOP/s")
    axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)


PLOTS = {
    "operator_cost": plot_operator_cost,
    "whole_loop": plot_whole_loop,
    "other_libraries": plot_other_libraries,
    "growth": plot_growth,
    "flop_rate": plot_flop_rate,
}


def _mark_limits(axes: Any, rows: Rows, positions: list[float], width: float) -> None:
    """Mark the limits of the operators' costs. A limit above the axes is not visible."""
    sums = {row["network"]: row["forward passes"]["median"] for row in rows if row["operator"] == "sm-g-sum"}
    label: str | None = "limit"
    for row, place in zip(rows, positions, strict=True):
        if row.get("limit"):
            times, _, of_sum = row["limit"].partition(" x ")
            limit = float(times) * (sums[row["network"]] if of_sum else 1.0)
            axes.plot([place - width / 2, place + width / 2], [limit, limit], color="black", linewidth=1, label=label)
            label = None


def _draw_bars(axes: Any, positions: Iterable[float], cells: list[dict[str, float]], **style: Any) -> None:
    medians = [cell["median"] if cell else float("nan") for cell in cells]
    below = [cell["median"] - cell["low"] if cell else 0.0 for cell in cells]
    above = [cell["high"] - cell["median"] if cell else 0.0 for cell in cells]
    axes.bar(list(positions), medians, yerr=(below, above), error_kw={"linewidth": 0.8}, **style)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.plots", description=__doc__)
    parser.add_argument("results", type=Path, help="a benchmarks.json")
    parser.add_argument(
        "folder", type=Path, nargs="?", help="the directory for the plots; that of the results if not given"
    )
    parser.add_argument("--prefix", default="", help="a prefix of the file names")
    arguments = parser.parse_args()
    for plot in save_plots(arguments.results, arguments.folder, arguments.prefix):
        print(plot)


if __name__ == "__main__":
    main()
