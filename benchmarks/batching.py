"""What batches of offspring cost in evaluations: runs to solution with 1, 8, 32 and 128 children at once.

    python -m benchmarks.batching run DIR [--domain hard-maze] [--offspring 8]   # the runs
    python -m benchmarks.batching rates                                          # rates.csv: evaluations per second
    python -m benchmarks.batching table DIR                                      # runs.csv and tables.md

`run` can be interrupted: the same command continues it. It writes runs.csv and tables.md whenever the runs with one
number of offspring end or are interrupted, with all runs that have ended so far; rows of other domains and numbers of
offspring stay as they are. The tables are written to results/offspring.

Children of one batch have parents from the same population, so that a run with larger batches sees its own progress
later, and may need more evaluations. Seconds to solution are evaluations divided by the speed of a single run, which
`rates` measures on one core.
"""

from __future__ import annotations

import argparse
import csv
import signal
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


def list_cases(domain: str | None = None, offspring: int | None = None) -> Iterator[tuple[str, int]]:
    """Return domains and numbers of offspring, the cheap ones first."""
    return (
        (name, count) for name in BUDGETS if domain in (None, name) for count in OFFSPRING if offspring in (None, count)
    )


def run_all(folder: Path, domain: str | None, offspring: int | None) -> None:
    """Run everything that is not finished yet."""
    for name, count in list_cases(domain, offspring):
        command = ["tfsm", "compare", name, "--mutation", ",".join(OPERATORS), "--offspring", str(count)]
        command += ["--runs", str(RUNS), "--evaluations", str(BUDGETS[name]), "--checkpoint-every", "5m", "--quiet"]
        code = run_command([*command, "--out", str(folder / f"{name}-{count}")])
        write_tables(folder)
        if code:
            sys.exit(f"{name} with {count} offspring ended with exit code {code}; the same command continues it")


def run_command(command: list[str]) -> int:
    """Run a command that saves its work when it is interrupted, wait until it has, and return its exit code."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        # Ctrl-C in a terminal reaches both processes; SIGTERM has to be passed on.
        handlers = {signal.SIGINT: lambda *_: None, signal.SIGTERM: lambda *_: process.terminate()}
        previous = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            return process.wait()
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)


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
    """Read how the runs ended; an interrupted one has not."""
    from tfsm.analysis.results import load_studies

    rows = []
    for domain, count in list_cases():
        directory = folder / f"{domain}-{count}"
        for study in load_studies([directory], strict=False) if directory.is_dir() else ():
            for method in study.methods:
                rows += [
                    Row(domain, method.name, count, outcome.run, outcome.solved, outcome.evaluations)
                    for outcome in method.outcomes
                    if outcome.solved or outcome.evaluations >= BUDGETS[domain]
                ]
    return rows


def write_tables(folder: Path) -> None:
    """Write runs.csv and tables.md: the runs of a directory, and the recorded ones of cases that it does not have."""
    rows = collect(folder)
    found = {(row.domain, row.offspring) for row in rows}
    kept = [row for row in read_rows() if (row.domain, row.offspring) not in found]
    order = list(list_cases())
    rows = sorted(
        [*kept, *rows], key=lambda row: (order.index((row.domain, row.offspring)), OPERATORS.index(row.method))
    )
    write_csv(RESULTS / "runs.csv", [Row._fields, *((*row[:4], int(row.solved), row.evaluations) for row in rows)])
    (RESULTS / "tables.md").write_text(format_tables(rows), encoding="utf-8")


def read_rows() -> list[Row]:
    """Return the recorded runs."""
    file = RESULTS / "runs.csv"
    if not file.is_file():
        return []
    with file.open(newline="", encoding="utf-8") as lines:
        return [
            Row(
                line["domain"],
                line["method"],
                int(line["offspring"]),
                int(line["run"]),
                line["solved"] == "1",
                int(line["evaluations"]),
            )
            for line in csv.DictReader(lines)
        ]


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
            # Runs that have ended already are those that were solved early, so nothing is tested before all have ended.
            tested = [count for count in found if count > 1 and len(times[count]) == len(times[1]) == RUNS]
            by_evaluations, by_seconds = (
                dict(zip(tested, holm([mann_whitney(values[count], values[1]).p for count in tested]), strict=True))
                if values
                else {}
                for values in (times, seconds)
            )
            for count in found:
                solved = sum(t < float("inf") for t in times[count])
                going = RUNS - len(times[count])
                cells = [operator, str(count), f"{solved} of {len(times[count])}{f', {going} not ended' * (going > 0)}"]
                cells += [format_median(times[count]), format_p(by_evaluations.get(count))]
                cells += [format_median(seconds[count], 1), format_p(by_seconds.get(count))] if seconds else []
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


def format_p(value: float | None) -> str:
    """Return a p-value for a table, or nothing where nothing was tested."""
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
    parser.add_argument("--offspring", type=int, choices=OFFSPRING, help="run only with this number of offspring")
    arguments = parser.parse_args()
    if arguments.action == "rates":
        return measure_rates()
    if arguments.folder is None:
        parser.error(f"{arguments.action} needs a directory")
    if arguments.action == "run":
        return run_all(arguments.folder, arguments.domain, arguments.offspring)
    if not collect(arguments.folder):
        sys.exit(f"no runs in {arguments.folder}")
    return write_tables(arguments.folder)


if __name__ == "__main__":
    main()
