"""How operators beyond the paper do beside its five: evaluations to a solution, and evaluations a second.

python -m benchmarks.beyond            # statistics of the runs in results/, as docs/beyond-the-paper.md has them
python -m benchmarks.beyond --speed    # evaluations a second of the whole loop, all operators in one run
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Final

from benchmarks.arithmetic import rate
from benchmarks.measure import Effort, clock, interleave, needed
from tfsm.analysis import compare, summarize
from tfsm.analysis.results import Method, RunOutcome, Study

RESULTS: Final = Path(__file__).parents[1] / "results"
PAPER: Final = ("control", "sm-r", "sm-g-sum", "sm-g-abs", "sm-g-so")
BEYOND: Final = ("sm-g-rms", "sm-g-sum+r")
DOMAINS: Final = ("parity", "hard-maze")
BUDGET: Final = 100_000
RUNS: Final = 20
STEPS: Final = 16


def methods(domain: str) -> tuple[Method, ...]:
    """Return how all runs of all operators ended."""
    found: dict[str, list[RunOutcome]] = {}
    for file in (RESULTS / domain / "runs.csv", RESULTS / "beyond" / "runs.csv"):
        with file.open(newline="") as lines:
            for row in csv.DictReader(lines):
                if row["domain"] == domain:
                    outcome = RunOutcome(
                        int(row["run"]), row["solved"] == "1", int(row["evaluations"]), float(row["best_fitness"])
                    )
                    found.setdefault(row["method"], []).append(outcome)
    return tuple(Method(name, tuple(found[name]), BUDGET) for name in (*PAPER, *BEYOND) if name in found)


def told(domain: str) -> list[str]:
    """Return a table in Markdown: every operator beside the control, and those beyond the paper beside its best."""
    study = Study(domain, methods(domain))
    lines = [
        f"| {domain} | solved | median evaluations | against control | against sm-g-abs | against sm-g-so |",
        "|---|---|---|---|---|---|",
    ]
    against = [method for name in ("control", "sm-g-abs", "sm-g-so") if (method := study.method(name)) is not None]
    for method in study.methods:
        summary = summarize(method)
        middle = "-" if summary.median_evaluations is None else f"{summary.median_evaluations:,.0f}"
        cells = [f"`{method.name}`", f"{summary.solved} of {summary.runs}", middle]
        for base in against:
            p = compare(method, base).verdicts["mann-whitney-all"].p
            cells.append("" if p is None or method is base else f"p = {p:.2g}")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def speed() -> list[str]:
    """Return a table in Markdown: evaluations a second of twenty runs together, compiling left out."""
    from benchmarks.engines import advance, begun, engine_of, settings_of, started

    lines = ["| evaluations/s | parity | hard-maze |", "|---|---|---|"]
    cells: dict[str, list[str]] = {name: [] for name in (*PAPER, *BEYOND)}
    for domain in DOMAINS:
        donor = begun(engine_of(settings_of(domain, "control", RUNS)))
        sides = {}
        for name in cells:
            engine = started(engine_of(settings_of(domain, name, RUNS)), donor)
            sides[name] = advance(engine, STEPS)
            clock(sides[name])
            if engine.reuses:
                clock(sides[name], -(-engine.state.population // STEPS))
        found = interleave(sides, Effort.of(False))
        for name, own in cells.items():
            own.append(f"{rate(needed(found, name).seconds, float(RUNS * STEPS)).median:,.0f}")
    return [*lines, *(f"| `{name}` | {' | '.join(own)} |" for name, own in cells.items())]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--speed", action="store_true", help="measure, instead of telling what is in results/")
    if parser.parse_args().speed:
        print("\n".join(speed()))
        return
    for domain in DOMAINS:
        print("\n".join([*told(domain), ""]))


if __name__ == "__main__":
    main()
