"""Faults made on purpose, and what they cost: `python -m benchmarks.faults`.

Everything is really done: processes are killed, disks are full, files are damaged. What came of an experiment is then
compared, piece by piece, with what comes of it when nothing goes wrong.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from tests.faults import clocks, damage, disks, domains, kills, locks, one_by_one, signals, studies, workers
from tests.faults.bench import Bench
from tests.faults.lab import Lab
from tests.faults.trial import Trial


class Row(NamedTuple):
    """A fault, how it is injected, and the trials."""

    fault: str
    how: str
    trials: Iterable[Trial]


HEADER = (
    "| fault | how | injected | survived | results lost | seconds |",
    "|---|---|---:|---:|---:|---:|",
)


def rows(root: Path, *, quick: bool) -> Iterator[Row]:
    bench, lab = Bench(root / "bench"), Lab(root / "lab")
    few = 3 if quick else 12
    count = 4 if quick else 50
    how = "a command, in its start, while it evolves, while it writes a checkpoint, at its end; some again and again"
    yield Row("kill -9", how, kills.kills(lab, bench, kills.moments(count)))
    ways = ["SIGINT"] if quick else list(signals.WAYS)
    yield Row("signals", ", ".join(ways), signals.signals(lab, bench, ways))
    yield from _disks(bench, lab, root, quick)
    yield Row("two at once", "a second process; the lock of a dead one", locks.locks(lab, bench))
    left = damage.left_experiment(bench)
    how = "flipped, zeroed, cut, appended to, emptied, swapped, of a newer format, renamed"
    checkpoints = chain(damage.damaged_checkpoints(bench, left, few), [damage.all_damaged(bench, left)])
    yield Row("damaged checkpoint", how, checkpoints)
    yield Row("damaged log", "zeroed, cut, torn, appended to, emptied", damage.damaged_logs(bench, left, few))
    how = "flipped, zeroed, cut, appended to, emptied"
    yield Row("damaged snapshots", how, damage.damaged_snapshots(bench, left, few))
    yield Row(
        "drafts left behind",
        "of the record, the log, a champion, snapshots, a checkpoint",
        damage.left_drafts(bench, left),
    )
    yield Row(
        "clock",
        "goes backwards by an hour at each look",
        chain(clocks.clocks(bench), clocks.clocks_with_cadence(bench)),
    )
    yield from _domains(bench, lab, root, quick)
    yield from _workers(bench, lab, quick)
    yield from _one_by_one(bench, lab, quick)
    yield Row("study", "killed in its second member; one member fails", studies.studies(lab))
    if not quick:
        also = ["--backend", "processes", "--workers", "2"]
        yield Row("study, in workers", "killed with some of it done; one member fails", studies.studies(lab, *also))


def _disks(bench: Bench, lab: Lab, root: Path, quick: bool) -> Iterator[Row]:
    if disks.can_mount(root / "try"):
        cases = [(event, pages) for event in ((1, 12) if quick else range(1, 40, 3)) for pages in (0, 3)]
        yield Row("full disk", "a small disk is filled", disks.full_disks(bench, root / "full", cases))
        events = [0, 10] if quick else [0, *range(1, 40, 6)]
        how = "mounted read-only before the start, or half-way"
        yield Row("read-only directory", how, disks.read_only_folders(bench, root / "read-only", events))
    if not quick and (os.geteuid() or shutil.which("setpriv")):
        yield Row("no right to write", "a command in a directory of mode 555", _once(lambda: disks.without_rights(lab)))
    sizes = (0, 3000) if quick else range(0, 12000, 750)
    limited = chain(disks.limited_files(bench, list(sizes)), _once(lambda: disks.limited_command(lab, bench)))
    yield Row("files that may not grow", "RLIMIT_FSIZE, here and for a command", limited)


def _domains(bench: Bench, lab: Lab, root: Path, quick: bool) -> Iterator[Row]:
    calls = [9, 60] if quick else [1, 8, 9, 30, 60, 110]
    how = "raises, exits, returns other shapes, too few, another structure, another type, MemoryError; then is sound"
    yield Row("failing domain", how, domains.stopping(bench, domains.RAISING, calls))
    yield Row("NaN and infinity", "returned by the domain", domains.surviving(bench, domains.BROKEN, calls))
    broken = Bench(root / "broken", sets=("failures=broken",))
    both = chain(
        domains.surviving(broken, domains.RAISING, calls), domains.failing_once(broken, domains.RAISING, calls[-2:])
    )
    yield Row("failing domain, failures=broken", "the same; for all of a step, or once", both)
    hanging = Bench(root / "hanging", {"evaluation_timeout": 3.0})
    yield Row("hanging domain", "--evaluation-timeout; then is sound", domains.hanging(hanging, calls[-2:]))
    yield Row("deadly domain", "os._exit(3), a segmentation fault", domains.fatal(lab, bench, list(domains.FATAL)))


def _workers(bench: Bench, lab: Lab, quick: bool) -> Iterator[Row]:
    kinds = ["die"] if quick else ["die", "segfault"]
    yield Row("dying worker", "os._exit(3), a segmentation fault", workers.dying(bench, kinds))
    if quick:
        return
    yield Row("killed workers", "kill -9 of one, of all; no memory for one", workers.kills_of_workers(bench))
    hopeless = chain(_once(lambda: workers.hopeless(bench)), workers.failing_task(bench, ["raise", "memory"]))
    yield Row("hopeless workers", "each dies; the domain raises; MemoryError", hopeless)
    ways = [signal.SIGINT, signal.SIGKILL]
    yield Row("driver", "SIGINT and kill -9: no worker stays", workers.drivers(lab, bench, ways))
    yield Row("dying worker of Ray", "os._exit(3)", workers.dying(bench, ["die"], "ray"))


def _one_by_one(bench: Bench, lab: Lab, quick: bool) -> Iterator[Row]:
    wanted = one_by_one.expected(bench)
    kinds = ["die"] if quick else ["die", "segfault"]
    how = "os._exit(3), a segmentation fault, again and again; an evaluation hangs"
    hung = _once(lambda: one_by_one.hanging(bench, wanted))
    yield Row("workers for single children", how, chain(one_by_one.dying(bench, wanted, kinds), hung))
    if quick:
        return
    how = "raises, MemoryError; then is sound"
    failing = one_by_one.failing(bench, wanted, ["raise", "memory"])
    yield Row("failing domain, single children", how, failing)
    rng = random.Random(0)
    moments = [(signal.SIGKILL, at, rng.random()) for at in (-1, 0, 10, 20, 30, 40, 60, 80)]
    how = "SIGINT and kill -9, with two workers; then replayed"
    trials = one_by_one.drivers(lab, bench, [*moments, (signal.SIGINT, 40, rng.random())])
    yield Row("driver, single children", how, trials)
    ray = one_by_one.dying(bench, wanted, ["die"], "ray")
    yield Row("workers of Ray for single children", "os._exit(3), again and again", ray)


def _once(trial: Callable[[], Trial]) -> Iterator[Trial]:
    yield trial()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few of each")
    parser.add_argument("--out", type=Path, help="a Markdown file to write the table to, row by row")
    parser.add_argument("--go-on", action="store_true", help="keep the rows that are in --out, and add the others")
    wanted = parser.parse_args(arguments)
    root = Path(tempfile.mkdtemp(prefix="tfsm-faults-"))
    before = _rows_of(wanted.out) if wanted.go_on and wanted.out is not None else {}
    table: dict[str, str] = {}
    wrong = False
    for row in rows(root, quick=wanted.quick):
        if row.fault in before:
            table[row.fault] = before.pop(row.fault)
        else:
            table[row.fault], well = _measured(row)
            wrong = wrong or not well
            print(table[row.fault], flush=True)
        if wanted.out is not None:
            lines = [*table.values(), *before.values()]
            wanted.out.write_text(_document(lines, wanted.quick, wanted.go_on), encoding="utf-8")
    shutil.rmtree(root, ignore_errors=True)
    return 1 if wrong else 0


def _measured(row: Row) -> tuple[str, bool]:
    """Return a line of the table, and whether all is well."""
    start, trials = time.monotonic(), []
    try:
        for trial in row.trials:
            trials.append(trial)
            if trial.lost or not trial.survived:
                print(f"{row.fault}: {trial.what}: {trial.words}", file=sys.stderr, flush=True)
    except Exception as error:  # the others shall have their turn
        trials.append(Trial("not foreseen", False, 0))
        print(f"{row.fault}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
    survived, lost = sum(trial.survived for trial in trials), sum(trial.lost for trial in trials)
    numbers = f"{len(trials)} | {survived} | {lost} | {time.monotonic() - start:.0f}"
    return f"| {row.fault} | {row.how} | {numbers} |", survived == len(trials) and not lost


def _rows_of(file: Path) -> dict[str, str]:
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return {line.split("|")[1].strip(): line for line in lines if line.startswith("| ") and line not in HEADER}


def _document(lines: Sequence[str], quick: bool, in_parts: bool) -> str:
    command = f"python -m benchmarks.faults{' --quick' if quick else ''} --out results/faults.md"
    parts = ", in parts (`--go-on`)" if in_parts else ""
    seconds = sum(int(line.split("|")[-2]) for line in lines)
    words = (
        "# Faults",
        "",
        f"Measured by `{command}`{parts},",
        f"in {seconds / 60:.0f} minutes on {os.cpu_count()} cores that others used as well.",
        "",
        "A small experiment (three runs of a domain in plain Python, of which two are solved on the way) meets a fault",
        "each time, and then goes on to its end. What is lost is counted by comparing what came of it with what comes",
        "of it when nothing goes wrong: every line of the log byte for byte, how each run ended, the weights of the",
        "champions, and every snapshot of behavior. Survived means that, besides, the user was told what he should",
        "be, in one line and without a traceback, that the exit code was right, and that nothing damaged was deleted.",
        "",
        *(
            (
                "Rows made in parts are of different states of the code. Rows that showed a loss were measured again",
                "after its cause was mended; the numbers are those of the last time.",
                "",
            )
            if in_parts
            else ()
        ),
        "After kill -9, every fifth experiment goes on by a command; the others, for speed, in the process that",
        "counts.",
        "",
        "Where a failing evaluation counts as broken, and where the domain returns NaN, the result is another than",
        "without the fault, as it must be: lost is then what is missing.",
        "",
        "Children that two workers make one by one arrive in an order of the clock's: what is on disk is then compared",
        "with what a replay of the recorded order gives.",
        "",
    )
    return "\n".join([*words, *HEADER, *lines, ""])


if __name__ == "__main__":
    sys.exit(main())
