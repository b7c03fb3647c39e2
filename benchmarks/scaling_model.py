"""What measured speeds say of more workers than there are: a table and a figure.

One driver and W workers that each make a child in t + o seconds, o of them for messages, make W / (t + o) children a
second, but no more than 1 / d, where d is the driver's own time for a child.

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
class Model:
    """Children a second, by the number of workers."""

    overhead: float
    """Seconds that a child takes besides being made: handing it out, sending it, taking it back."""
    driver: float
    """Seconds of the driver's processor for a child."""

    def rate(self, workers: int, seconds: float) -> float:
        """Return children a second that take so many seconds to make."""
        return min(workers / (seconds + self.overhead), 1.0 / self.driver)


def fitted(measured: list[dict[str, Any]], backend: str) -> Model:
    """Return the model of a backend: overhead from one worker without work, the driver's time from all without work."""
    idle = [row for row in measured if row["backend"] == backend and row["sleep"] == 0.0]
    alone = next(row for row in idle if row["workers"] == 1)
    return Model(1.0 / alone["rate"], min(row["driver_seconds"] for row in idle))


def checks(measured: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], float]]:
    """Yield what was measured with evaluations that take time, and what the model says of it."""
    for row in measured:
        if row["sleep"] > 0.0:
            yield row, fitted(measured, row["backend"]).rate(row["workers"], row["sleep"])


def document(found: dict[str, Any]) -> str:
    """Return Markdown tables."""
    lines = ["| evolving | workers | threads each | evaluations/s | times one process |", "|---|---:|---:|---:|---:|"]
    local = found["groups"][0]["rate"]
    for threads, rows in (("1", found["groups"]), (str(found["cores"]), found["threads"])):
        for row in rows:
            cells = f"{row['workers'] or '-'} | {threads} | {row['rate']:,.0f} | {row['rate'] / local:.2f}"
            lines.append(f"| `{row['backend']}` | {cells} |")
    lines += ["", "| | one worker, no work: ms a child | the driver's own ms a child | its limit, children/s |"]
    lines += ["|---|---:|---:|---:|"]
    for backend in ("processes", "ray"):
        model = fitted(found["children"], backend)
        cells = f"{1000 * model.overhead:.1f} | {1000 * model.driver:.2f} | {1 / model.driver:,.0f}"
        lines.append(f"| `{backend}` | {cells} |")
    lines += ["", "| driver alone, runs at once | ms a child | children/s |", "|---:|---:|---:|"]
    lines += [f"| {row['runs']} | {1000 * row['seconds']:.2f} | {1 / row['seconds']:,.0f} |" for row in found["driver"]]
    lines += ["", "| backend | seconds a child | workers | measured/s | model/s |", "|---|---:|---:|---:|---:|"]
    for row, said in checks(found["children"]):
        lines.append(f"| `{row['backend']}` | {row['sleep']} | {row['workers']} | {row['rate']:.1f} | {said:.1f} |")
    lines += ["", *_first_person(found)]
    return "\n".join(lines)


def _first_person(found: dict[str, Any]) -> list[str]:
    own = found["first_person"]
    size = own["bytes_sent"] + own["bytes_returned"]
    lines = [
        f"First-person maze, sm-g-sum: {own['child']:.3f} s a child with one thread, {size / 1e3:,.0f} kB sent for it.",
        "",
        "| workers | evaluations/s | 100,000 evaluations | driver busy | through its network |",
        "|---:|---:|---:|---:|---:|",
    ]
    model = fitted(found["children"], "ray")
    # Its networks are larger, or smaller, than those that the overhead was measured with.
    model = Model(model.overhead, max(model.driver, own["driver"]))
    for workers in WORKERS:
        rate = model.rate(workers, own["child"])
        hours = BUDGET / rate / 3600
        time = f"{hours:.1f} h" if hours >= 1 else f"{60 * hours:.0f} min"
        busy = f"{rate * model.driver:.0%}"
        lines.append(f"| {workers:,} | {rate:,.1f} | {time} | {busy} | {rate * size / 1e6:,.1f} MB/s |")
    return lines


def draw(found: dict[str, Any], file: Path) -> None:
    """Draw children a second against workers: the model, and what was measured."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    own = found["first_person"]["child"]
    slow = max(row["sleep"] for row in found["children"])
    lines = [
        ("processes", slow, f"{slow:g} s a child, processes", "#0072b2"),
        ("ray", slow, f"{slow:g} s a child, Ray", "#009e73"),
        ("ray", own, f"first-person maze, {own:.2g} s a child, Ray", "#d55e00"),
    ]
    figure, axes = plt.subplots(figsize=(7, 3.8), layout="constrained")
    counts = [round(10 ** (i / 20)) for i in range(61)]
    for backend, seconds, label, color in lines:
        model = fitted(found["children"], backend)
        axes.plot(counts, [model.rate(n, seconds) for n in counts], color=color, label=label, linewidth=1.4)
        seen = [r for r in found["children"] if r["sleep"] == seconds and r["backend"] == backend]
        axes.plot([r["workers"] for r in seen], [r["rate"] for r in seen], "o", color=color, markersize=5)
    for backend, name in (("processes", "processes"), ("ray", "Ray")):
        limit = 1 / fitted(found["children"], backend).driver
        axes.axhline(limit, color="#555555", linewidth=0.9, linestyle="--")
        axes.annotate(f"all that one driver can do, {name}", (1.05, limit), fontsize=8, color="#555555", va="bottom")
    axes.set(xscale="log", yscale="log", xlabel="workers", ylabel="children a second")
    axes.legend(fontsize=8, frameon=False, title="lines: model; dots: measured", title_fontsize=8, loc="lower right")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(file, dpi=150)


def main() -> None:
    """Print the tables, and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--figure", type=Path)
    given = parser.parse_args()
    found = json.loads(given.file.read_text())
    print(document(found))
    if given.figure is not None:
        draw(found, given.figure)


if __name__ == "__main__":
    main()
