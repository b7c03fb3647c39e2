"""What batches of offspring cost in evaluations: runs to solution with 1, 8, 32 and 128 children at once.

    python -m benchmarks.batching run DIR [--domain parity]    # the runs; the same command continues them
    python -m benchmarks.batching rates                        # rates.csv: evaluations per second of a single run
    python -m benchmarks.batching table DIR                    # runs.csv and tables.md

The tables are written to results/offspring. Children of one batch have parents from the same population, so that a run
with larger batches sees its own progress later, and may need more evaluations. Seconds to solution are evaluations
divided by the speed of a single run, which `rates` measures on one core.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks import environment

OPERATORS: Final = ("sm-g-sum", "sm-g-so")
OFFSPRING: Final = (1, 8, 32, 128)
RUNS: Final = 20
BUDGETS: Final = {"parity": 100_000, "hard-maze": 30_000}
"""Maximum evaluations per run. In the hard maze, half of the runs are solved within 30,000."""
RESULTS: Final = Path(__file__).parent.parent / "results" / "offspring"
STEPS: Final = 16


class Row(NamedTuple):
    """The end of one run."""

    domain: str
    method: str
    offspring: int
    run: int
    solved: bool
    evaluations: int


def list_cases(domain: str | None = None) -> Iterator[tuple[str, int]]:
    """Return domains and numbers of offspring, the cheap ones first."""
    return ((name, count) for name in BUDGETS if domain in (None, name) for count in OFFSPRING)


def run_all(folder: Path, domain: str | None) -> None:
    """Run everything that is not finished yet."""
    for name, count in list_cases(domain):
        command = ["tfsm", "compare", name, "--mutation", ",".join(OPERATORS), "--offspring", str(count)]
        command += ["--runs", str(RUNS), "--evaluations", str(BUDGETS[name]), "--checkpoint-every", "5m", "--quiet"]
        subprocess.run([*command, "--out", str(folder / f"{name}-{count}")], check=True, stdout=subprocess.DEVNULL)


def measure_rates() -> None:
    """Measure evaluations per second of a single run, and write them."""
    environment.use_one_core()
    from benchmarks.engines import build_endless_engine, make_stepper, resolve_settings, start_engine
    from benchmarks.measure import Effort, compute_rate, interleave, require_timing, time_call
    from tfsm.utils.tf_startup import import_tensorflow

    import_tensorflow()
    lines: list[tuple[Any, ...]] = [("domain", "method", "offspring", "evaluations_per_second")]
    for domain in BUDGETS:
        for method in OPERATORS:
            calls = {}
            for count in OFFSPRING:
                settings = resolve_settings(domain, method, 1, count if count > 1 else None)
                calls[str(count)] = make_stepper(start_engine(build_endless_engine(settings)), STEPS)
                time_call(calls[str(count)])
            timings = interleave(calls, Effort.choose(False))
            for count in OFFSPRING:
                rate = compute_rate(require_timing(timings, str(count)).seconds, float(count * STEPS))
                lines.append((domain, method, count, round(rate.median)))
    write_csv(RESULTS / "rates.csv", lines)


def collect(folder: Path) -> list[Row]:
    """Read how the runs ended."""
    from tfsm.analysis.results import load_studies

    rows = []
    for domain, count in list_cases():
        directory = folder / f"{domain}-{count}"
        for study in load_studies([directory], strict=False) if directory.is_dir() else ():
            for method in study.methods:
                rows += [Row(domain, method.name, count, o.run, o.solved, o.evaluations) for o in method.outcomes]
    return rows


def read_rates() -> dict[tuple[str, str, int], float]:
    """Return evaluations per second of a single run, as far as they are measured."""
    file = RESULTS / "rates.csv"
    if not file.is_file():
        return {}
    with file.open(newline="", encoding="utf-8") as lines:
        return {
            (line["domain"], line["method"], int(line["offspring"])): float(line["evaluations_per_second"])
            for line in csv.DictReader(lines)
        }


def format_tables(rows: list[Row]) -> str:
    """Return one Markdown table per domain, each row compared with one child at a time by Mann-Whitney tests."""
    from tfsm.analysis.significance import holm, mann_whitney

    rates, parts = read_rates(), []
    for domain in dict.fromkeys(row.domain for row in rows):
        lines = [f"## {domain}, at most {BUDGETS[domain]:,} evaluations", ""]
        columns = ["operator", "offspring", "solved", "median evaluations", "against 1"]
        columns += ["median seconds", "against 1"] if rates else []
        lines += [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
        for operator in OPERATORS:
            times = {
                count: [
                    row.evaluations if row.solved else float("inf")
                    for row in rows
                    if (row.domain, row.method, row.offspring) == (domain, operator, count)
                ]
                for count in OFFSPRING
            }
            found = [count for count in OFFSPRING if times[count]]
            seconds = (
                {count: [t / rates[domain, operator, count] for t in times[count]] for count in found} if rates else {}
            )
            by_evaluations, by_seconds = (
                holm([mann_whitney(values[count], values[1]).p for count in found if count > 1]) if 1 in values else []
                for values in (times, seconds)
            )
            for place, count in enumerate(found):
                solved = sum(t < float("inf") for t in times[count])
                cells = [operator, str(count), f"{solved} of {len(times[count])}", format_median(times[count])]
                cells.append(format_p(by_evaluations, place))
                cells += [format_median(seconds[count], 1), format_p(by_seconds, place)] if seconds else []
                lines.append(f"| {' | '.join(cells)} |")
        parts.append("\n".join(lines))
    note = (
        "*Medians count unsolved runs as later than all others; two-sided Mann-Whitney tests, with Holm's correction.*"
    )
    return "\n\n".join(["# Offspring: what larger batches cost", *parts, note]) + "\n"


def format_median(values: list[float], digits: int = 0) -> str:
    """Return the median, or a dash where fewer than half of the runs are solved."""
    median = statistics.median_high(values)
    return "-" if median == float("inf") else f"{median:,.{digits}f}"


def format_p(values: list[float | None], place: int) -> str:
    """Return the p-value of the row at a place, of which the first is the baseline."""
    value = values[place - 1] if place and place <= len(values) else None
    return "" if value is None else f"p = {value:.2g}"


def write_csv(file: Path, lines: list[tuple[Any, ...]]) -> None:
    """Write a CSV file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream, lineterminator="\n").writerows(lines)


def main() -> None:
    """Run, measure or tabulate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["run", "rates", "table"])
    parser.add_argument("folder", type=Path, nargs="?", help="the directory of the runs")
    parser.add_argument("--domain", choices=BUDGETS, help="run only this domain")
    arguments = parser.parse_args()
    if arguments.action == "rates":
        return measure_rates()
    if arguments.folder is None:
        parser.error(f"{arguments.action} needs a directory")
    if arguments.action == "run":
        return run_all(arguments.folder, arguments.domain)
    rows = collect(arguments.folder)
    if not rows:
        sys.exit(f"no runs in {arguments.folder}")
    write_csv(RESULTS / "runs.csv", [Row._fields, *((*row[:4], int(row.solved), row.evaluations) for row in rows)])
    (RESULTS / "tables.md").write_text(format_tables(rows), encoding="utf-8")
    return None


if __name__ == "__main__":
    main()
