"""Predicted speed with more workers than were measured: tables and a figure.

One driver and W workers that each make a child in t + o seconds, of which o are for messages, make W / (t + o) children
per second, but at most 1 / d, where d is the driver's own time per child.

python -m benchmarks.scaling_model results/scaling/scaling.json [--figure results/scaling/scaling.png]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BUDGET = 100_000
WORKERS = (1, 10, 100, 1_000)


@dataclass(frozen=True)
class ScalingModel:
    """Predicts children per second from the number of workers."""

    overhead: float
    """Seconds per child besides making it: dispatching, sending and receiving."""
    driver: float
    """Processor time of the driver per child, in seconds."""

    def rate(self, workers: int, seconds: float) -> float:
        """Return children per second, arguments the seconds to make one."""
        return min(workers / (seconds + self.overhead), 1.0 / self.driver)


def fit_model(measured: list[dict[str, Any]], backend: str) -> ScalingModel:
    """Fit the model of a backend to measurements without work: overhead from one worker, driver time from all."""
    idle = [row for row in measured if row["backend"] == backend and row["sleep"] == 0.0]
    alone = next(row for row in idle if row["workers"] == 1)
    return ScalingModel(1.0 / alone["rate"], min(row["driver_seconds"] for row in idle))


def compare_with_model(measured: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], float]]:
    """Yield the measurements with evaluations that take time, and the prediction for each."""
    for row in measured:
        if row["sleep"] > 0.0:
            yield row, fit_model(measured, row["backend"]).rate(row["workers"], row["sleep"])


def render_tables(results: dict[str, Any]) -> str:
    """Return the measurements and predictions as Markdown tables."""
    lines = ["| evolving | workers | threads each | evaluations/s | times one process |", "|---|---:|---:|---:|---:|"]
    local = results["groups"][0]["rate"]
    for threads, rows in (("1", results["groups"]), (str(results["cores"]), results["threads"])):
        for row in rows:
            cells = f"{row['workers'] or '-'} | {threads} | {row['rate']:,.0f} | {row['rate'] / local:.2f}"
            lines.append(f"| `{row['backend']}` | {cells} |")
    lines += ["", "| | one worker, no work: ms per child | the driver's own ms per child | its limit, children/s |"]
    lines += ["|---|---:|---:|---:|"]
    for backend in ("processes", "ray"):
        model = fit_model(results["children"], backend)
        cells = f"{1000 * model.overhead:.1f} | {1000 * model.driver:.2f} | {1 / model.driver:,.0f}"
        lines.append(f"| `{backend}` | {cells} |")
    lines += ["", "| driver alone, runs at once | ms per child | children/s |", "|---:|---:|---:|"]
    lines += [
        f"| {row['runs']} | {1000 * row['seconds']:.2f} | {1 / row['seconds']:,.0f} |" for row in results["driver"]
    ]
    lines += ["", "| backend | seconds per child | workers | measured/s | model/s |", "|---|---:|---:|---:|---:|"]
    for row, predicted in compare_with_model(results["children"]):
        lines.append(
            f"| `{row['backend']}` | {row['sleep']} | {row['workers']} | {row['rate']:.1f} | {predicted:.1f} |"
        )
    lines += ["", *_render_first_person(results)]
    return "\n".join(lines)


def _render_first_person(results: dict[str, Any]) -> list[str]:
    maze = results["first_person"]
    size = maze["bytes_sent"] + maze["bytes_returned"]
    lines = [
        f"First-person maze, sm-g-sum: {maze['child']:.3f} s per child with one thread, "
        f"{size / 1e3:,.0f} kB of messages.",
        "",
        "| workers | evaluations/s | 100,000 evaluations | driver busy | network traffic of the driver |",
        "|---:|---:|---:|---:|---:|",
    ]
    model = fit_model(results["children"], "ray")
    # Its networks are not as large as those that the overhead was measured with.
    model = ScalingModel(model.overhead, max(model.driver, maze["driver"]))
    for workers in WORKERS:
        rate = model.rate(workers, maze["child"])
        hours = BUDGET / rate / 3600
        time = f"{hours:.1f} h" if hours >= 1 else f"{60 * hours:.0f} min"
        busy = f"{rate * model.driver:.0%}"
        lines.append(f"| {workers:,} | {rate:,.1f} | {time} | {busy} | {rate * size / 1e6:,.1f} MB/s |")
    return lines


def plot_scaling(results: dict[str, Any], file: Path) -> None:
    """Plot children per second over workers: the model and the measurements."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    seconds_per_child = results["first_person"]["child"]
    slow = max(row["sleep"] for row in results["children"])
    lines = [
        ("processes", slow, f"{slow:g} s per child, processes", "#0072b2"),
        ("ray", slow, f"{slow:g} s per child, Ray", "#009e73"),
        ("ray", seconds_per_child, f"first-person maze, {seconds_per_child:.2g} s per child, Ray", "#d55e00"),
    ]
    figure, axes = plt.subplots(figsize=(7, 3.8), layout="constrained")
    counts = [round(10 ** (i / 20)) for i in range(61)]
    for backend, seconds, label, color in lines:
        model = fit_model(results["children"], backend)
        axes.plot(counts, [model.rate(n, seconds) for n in counts], color=color, label=label, linewidth=1.4)
        points = [r for r in results["children"] if r["sleep"] == seconds and r["backend"] == backend]
        axes.plot([r["workers"] for r in points], [r["rate"] for r in points], "o", color=color, markersize=5)
    for backend, name in (("processes", "processes"), ("ray", "Ray")):
        limit = 1 / fit_model(results["children"], backend).driver
        axes.axhline(limit, color="#555555", linewidth=0.9, linestyle="--")
        axes.annotate(f"limit of one driver, {name}", (1.05, limit), fontsize=8, color="#555555", va="bottom")
    axes.set(xscale="log", yscale="log", xlabel="workers", ylabel="children per second")
    axes.legend(fontsize=8, frameon=False, title="lines: model; dots: measured", title_fontsize=8, loc="lower right")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(file, dpi=150)


def main() -> None:
    """Print the tables, and plot."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--figure", type=Path)
    arguments = parser.parse_args()
    results = json.loads(arguments.file.read_text())
    print(render_tables(results))
    if arguments.figure is not None:
        plot_scaling(results, arguments.figure)


if __name__ == "__main__":
    main()
