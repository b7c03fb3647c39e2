"""Operators beyond the paper compared with its five: evaluations to a solution, and evaluations per second.

python -m benchmarks.beyond            # statistics of the runs in results/, as in docs/results/beyond-the-paper.md
python -m benchmarks.beyond --speed    # evaluations per second of the whole loop, all operators in one process
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Final

from benchmarks.measure import Effort, compute_rate, interleave, require_timing, time_call
from tfsm.analysis import compare, summarize
from tfsm.analysis.results import Method, RunOutcome, Study

RESULTS: Final = Path(__file__).parents[1] / "results"
PAPER: Final = ("control", "sm-r", "sm-g-sum", "sm-g-abs", "sm-g-so")
BEYOND: Final = ("sm-g-rms", "sm-g-sum+r")
DOMAINS: Final = ("parity", "hard-maze")
BUDGET: Final = 100_000
RUNS: Final = 20
STEPS: Final = 16


def load_methods(domain: str) -> tuple[Method, ...]:
    """Return the outcomes of all runs of all operators."""
    outcomes: dict[str, list[RunOutcome]] = {}
    for file in (RESULTS / domain / "runs.csv", RESULTS / "beyond" / "runs.csv"):
        with file.open(newline="") as lines:
            for row in csv.DictReader(lines):
                if row["domain"] == domain:
                    outcome = RunOutcome(
                        int(row["run"]), row["solved"] == "1", int(row["evaluations"]), float(row["best_fitness"])
                    )
                    outcomes.setdefault(row["method"], []).append(outcome)
    return tuple(Method(name, tuple(outcomes[name]), BUDGET) for name in (*PAPER, *BEYOND) if name in outcomes)


def tabulate_results(domain: str) -> list[str]:
    """Return a Markdown table that compares every operator with the control and with the best of the paper."""
    study = Study(domain, load_methods(domain))
    lines = [
        f"| {domain} | solved | median evaluations | against control | against sm-g-abs | against sm-g-so |",
        "|---|---|---|---|---|---|",
    ]
    against = [method for name in ("control", "sm-g-abs", "sm-g-so") if (method := study.method(name)) is not None]
    for method in study.methods:
        summary = summarize(method)
        median = "-" if summary.median_evaluations is None else f"{summary.median_evaluations:,.0f}"
        cells = [f"`{method.name}`", f"{summary.solved} of {summary.runs}", median]
        for base in against:
            p = compare(method, base).verdicts["mann-whitney-all"].p
            cells.append("" if p is None or method is base else f"p = {p:.2g}")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def measure_speed() -> list[str]:
    """Return a Markdown table of evaluations per second of twenty runs together, without compiling."""
    from benchmarks.engines import build_endless_engine, copy_populations, make_stepper, resolve_settings, start_engine

    lines = ["| evaluations/s | parity | hard-maze |", "|---|---|---|"]
    cells: dict[str, list[str]] = {name: [] for name in (*PAPER, "sm-g-rms")}
    for domain in DOMAINS:
        donor = start_engine(build_endless_engine(resolve_settings(domain, "control", RUNS)))
        candidates = {}
        for name in cells:
            engine = copy_populations(build_endless_engine(resolve_settings(domain, name, RUNS)), donor)
            candidates[name] = make_stepper(engine, STEPS)
            time_call(candidates[name])
            if engine.reuses_sensitivities:
                time_call(candidates[name], -(-engine.state.population // STEPS))
        results = interleave(candidates, Effort.choose(False))
        for name, row in cells.items():
            row.append(f"{compute_rate(require_timing(results, name).seconds, float(RUNS * STEPS)).median:,.0f}")
    return [*lines, *(f"| `{name}` | {' | '.join(row)} |" for name, row in cells.items())]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--speed", action="store_true", help="measure the speed, instead of summarizing results/")
    if parser.parse_args().speed:
        print("\n".join(measure_speed()))
        return
    for domain in DOMAINS:
        print("\n".join([*tabulate_results(domain), ""]))


if __name__ == "__main__":
    main()
