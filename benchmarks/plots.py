"""PNG plots of a run: `python -m benchmarks.plots benchmarks.json [DIR]`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

Rows = list[dict[str, Any]]


def draw(path: Path, folder: Path | None = None) -> list[Path]:
    """Draw what a file of results has, beside it or into another folder; return the plots."""
    results = json.loads(path.read_text(encoding="utf-8"))
    tables = {table["name"]: table["rows"] for part in results["parts"].values() for table in part}
    folder = folder or path.parent
    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    for name, plot in PLOTS.items():
        if tables.get(name):
            plot(tables[name])
            meta = results["meta"]
            plt.gcf().supxlabel(f"{meta['processor']}, one core; {meta['date']}", fontsize=6, color="grey")
            target = folder / f"{name}.png"
            plt.gcf().savefig(target, dpi=150)
            plt.close("all")
            drawn.append(target)
    return drawn


def operator_cost(rows: Rows) -> None:
    _bars(rows, "network", "operator", "forward passes", "forward passes a child")


def whole_loop(rows: Rows) -> None:
    widest = max(row["runs"] for row in rows)
    _bars([row for row in rows if row["runs"] == widest], "domain", "operator", "evaluations/s", f"{widest} runs, 1/s")


def other_libraries(rows: Rows) -> None:
    _, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
    names = [row["algorithm"] for row in rows]
    _error_bars(axes, range(len(rows)), [row["evaluations/s"] for row in rows], width=0.7)
    axes.set_xticks(range(len(rows)), names, rotation=20, ha="right", fontsize=8)
    axes.set(yscale="log", ylabel="evaluations a second")
    axes.set_title("Gaussian-mutation GA, recurrent parity, one core", fontsize=10)


def growth(rows: Rows) -> None:
    kinds = list(dict.fromkeys(row["grows"] for row in rows))
    _, grid = plt.subplots(1, len(kinds), figsize=(3.2 * len(kinds), 3.2), layout="constrained", squeeze=False)
    for axes, kind in zip(grid[0], kinds, strict=True):
        mine = [row for row in rows if row["grows"] == kind]
        for operator in [name for name in mine[0] if name not in ("grows", "size", "empty call")]:
            points = [(row["size"], row[operator]["median"]) for row in mine if operator in row]
            axes.plot(*zip(*points, strict=True), marker="o", markersize=3, label=operator)
        axes.set(xscale="log", yscale="log", xlabel=kind, ylabel="ms a child of every run")
    grid[0][0].legend(fontsize=7)


def flop_rate(rows: Rows) -> None:
    _, axes = plt.subplots(figsize=(8, 3.5), layout="constrained")
    series = ("tfsm", "the other way", "products", "large product")
    for i, column in enumerate(series):
        places = [place + 0.2 * i for place in range(len(rows))]
        _error_bars(axes, places, [row[column] for row in rows], width=0.2, label=column)
    axes.set_xticks([place + 0.3 for place in range(len(rows))], [_two_lines(row) for row in rows], fontsize=6)
    axes.set(yscale="log", ylabel="GFLOP/s")
    axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0))


PLOTS = {
    "operator_cost": operator_cost,
    "whole_loop": whole_loop,
    "other_libraries": other_libraries,
    "growth": growth,
    "flop_rate": flop_rate,
}


def _two_lines(row: dict[str, Any]) -> str:
    return f"{row['network']}\n{row['what']}"


def _bars(rows: Rows, group: str, inner: str, column: str, label: str) -> None:
    groups = list(dict.fromkeys(row[group] for row in rows))
    members = list(dict.fromkeys(row[inner] for row in rows))
    _, axes = plt.subplots(figsize=(1.5 + 1.8 * len(groups), 3.5), layout="constrained")
    width = 0.8 / len(members)
    for i, member in enumerate(members):
        mine = [row for row in rows if row[inner] == member and isinstance(row[column], dict)]
        places = [groups.index(row[group]) + width * i for row in mine]
        _error_bars(axes, places, [row[column] for row in mine], width=width, label=member)
    axes.set_xticks([place + 0.4 - width / 2 for place in range(len(groups))], groups, fontsize=8)
    axes.set(yscale="log", ylabel=label)
    axes.legend(fontsize=7)


def _error_bars(axes: Any, places: Iterable[float], spreads: list[dict[str, float]], **style: Any) -> None:
    medians = [cell["median"] if cell else float("nan") for cell in spreads]
    below = [cell["median"] - cell["low"] if cell else 0.0 for cell in spreads]
    above = [cell["high"] - cell["median"] if cell else 0.0 for cell in spreads]
    axes.bar(list(places), medians, yerr=(below, above), error_kw={"linewidth": 0.8}, **style)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.plots", description=__doc__)
    parser.add_argument("results", type=Path, help="a benchmarks.json")
    parser.add_argument("folder", type=Path, nargs="?", help="where the plots go; beside the results if not given")
    asked = parser.parse_args()
    for plot in draw(asked.results, asked.folder):
        print(plot)


if __name__ == "__main__":
    main()
