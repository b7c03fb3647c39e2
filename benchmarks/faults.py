"""Injected faults, and what they cost: `python -m benchmarks.faults`.

All faults are real: processes are killed, disks fill up, files are damaged. The results of an experiment are then
compared, piece by piece, with those of an undisturbed one.
"""

from __future__ import annotations

import argparse
import importlib.util
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

from tests.faults import disk_faults, domain_faults, process_faults
from tests.faults.lab import Bench, Lab, Trial


class FaultRow(NamedTuple):
    """A fault, how it is injected, and the trials."""

    fault: str
    how: str
    trials: Iterable[Trial]


HEADER = (
    "| fault | how | injected | survived | results lost | seconds |",
    "|---|---|---:|---:|---:|---:|",
)


def list_faults(root: Path, *, quick: bool) -> Iterator[FaultRow]:
    bench, lab = Bench(root / "bench"), Lab(root / "lab")
    few = 3 if quick else 12
    count = 4 if quick else 50
    how = "a command, in its start, while it evolves, while it writes a checkpoint, at its end; some again and again"
    yield FaultRow("kill -9", how, process_faults.kill_commands(lab, bench, process_faults.draw_moments(count)))
    ways = ["SIGINT"] if quick else list(process_faults.SIGNALS)
    yield FaultRow("signals", ", ".join(ways), process_faults.send_signals(lab, bench, ways))
    yield from _list_disk_faults(bench, lab, root, quick)
    yield FaultRow("two at once", "a second process; the lock of a dead one", disk_faults.contend_for_lock(lab, bench))
    killed = disk_faults.make_killed_experiment(bench)
    how = "flipped, zeroed, cut, appended to, emptied, swapped, of a newer format, renamed"
    checkpoints = chain(
        disk_faults.damage_checkpoints(bench, killed, few), [disk_faults.damage_all_checkpoints(bench, killed)]
    )
    yield FaultRow("damaged checkpoint", how, checkpoints)
    yield FaultRow("damaged log", "zeroed, cut, torn, appended to, emptied", disk_faults.damage_log(bench, killed, few))
    how = "flipped, zeroed, cut, appended to, emptied"
    yield FaultRow("damaged snapshots", how, disk_faults.damage_snapshots(bench, killed, few))
    yield FaultRow(
        "temporary files left behind",
        "of the record, the log, a champion, snapshots, a checkpoint",
        disk_faults.leave_temporary_files(bench, killed),
    )
    yield FaultRow(
        "clock",
        "goes backwards by an hour at each reading",
        chain(disk_faults.run_clock_backwards(bench), disk_faults.run_clock_backwards_with_timed_checkpoints(bench)),
    )
    yield from _list_domain_faults(bench, lab, root, quick)
    if importlib.util.find_spec("gymnasium") is not None:
        yield from _list_env_faults(root)
    yield from _list_worker_faults(bench, lab, quick)
    yield from _list_child_faults(bench, lab, quick)
    yield FaultRow("study", "killed in its second member; one member fails", process_faults.interrupt_studies(lab))
    if not quick:
        also = ["--backend", "processes", "--workers", "2"]
        yield FaultRow(
            "study, in workers",
            "killed with some of it done; one member fails",
            process_faults.interrupt_studies(lab, *also),
        )
        yield from _list_cluster_faults(bench, root)


def _list_disk_faults(bench: Bench, lab: Lab, root: Path, quick: bool) -> Iterator[FaultRow]:
    if disk_faults.can_mount(root / "try"):
        cases = [(event, pages) for event in ((1, 12) if quick else range(1, 40, 3)) for pages in (0, 3)]
        yield FaultRow("full disk", "a small disk is filled", disk_faults.fill_disks(bench, root / "full", cases))
        events = [0, 10] if quick else [0, *range(1, 40, 6)]
        how = "mounted read-only before the start, or half-way"
        yield FaultRow(
            "read-only directory", how, disk_faults.make_directories_read_only(bench, root / "read-only", events)
        )
    if not quick and (os.geteuid() or shutil.which("setpriv")):
        yield FaultRow(
            "no right to write",
            "a command in a directory of mode 555",
            _run_once(lambda: disk_faults.run_without_write_permission(lab)),
        )
    sizes = (0, 3000) if quick else range(0, 12000, 750)
    limited = chain(
        disk_faults.limit_file_sizes(bench, list(sizes)),
        _run_once(lambda: disk_faults.limit_file_sizes_of_command(lab, bench)),
    )
    yield FaultRow("files that may not grow", "RLIMIT_FSIZE, here and for a command", limited)


def _list_domain_faults(bench: Bench, lab: Lab, root: Path, quick: bool) -> Iterator[FaultRow]:
    calls = [9, 60] if quick else [1, 8, 9, 30, 60, 110]
    how = "raises, exits, returns other shapes, too few, another structure, another type, MemoryError; then is sound"
    yield FaultRow("failing domain", how, domain_faults.fail_and_resume(bench, domain_faults.RAISING, calls))
    yield FaultRow(
        "NaN and infinity",
        "returned by the domain",
        domain_faults.fail_and_continue(bench, domain_faults.BROKEN, calls),
    )
    broken = Bench(root / "broken", sets=("failures=broken",))
    both = chain(
        domain_faults.fail_and_continue(broken, domain_faults.RAISING, calls),
        domain_faults.fail_once(broken, domain_faults.RAISING, calls[-2:]),
    )
    yield FaultRow("failing domain, failures=broken", "the same; for all of a step, or once", both)
    hanging = Bench(root / "hanging", {"evaluation_timeout": 3.0})
    yield FaultRow("hanging domain", "--evaluation-timeout; then is sound", domain_faults.hang(hanging, calls[-2:]))
    yield FaultRow(
        "deadly domain",
        "os._exit(3), a segmentation fault",
        domain_faults.crash_process(lab, bench, list(domain_faults.FATAL)),
    )


def _list_env_faults(root: Path) -> Iterator[FaultRow]:
    from tests.faults import env_faults

    bench = env_faults.EnvBench(root / "env")
    how = "no such name, version or module; a package, a simulator, OpenCV or Gymnasium is missing"
    yield FaultRow("unknown environment", how, env_faults.refuse_names(bench))
    how = "only text, sequences, nothing, several actions; options that do not fit"
    yield FaultRow("unusable environment", how, env_faults.refuse_spaces(bench))
    how = "raises in reset() or step(), exits, changes shapes, rewards with None; then is sound"
    yield FaultRow("failing environment", how, env_faults.fail_and_resume(bench, env_faults.RAISING))
    how = "observations, rewards"
    yield FaultRow("environment with NaN", how, env_faults.fail_and_continue(bench, env_faults.BROKEN))
    hanging = env_faults.EnvBench(root / "env-hanging", {"evaluation_timeout": 3.0})
    how = "--evaluation-timeout; then is sound"
    yield FaultRow("hanging environment", how, env_faults.fail_and_resume(hanging, ["hang"]))
    apart = env_faults.EnvBench(root / "env-async", sets=("vector=async",))
    how = "vector=async: raises, changes shapes, os._exit(3); then is sound"
    yield FaultRow("environments in processes", how, env_faults.fail_and_resume(apart, ["step", "shape", "die"]))


def _list_worker_faults(bench: Bench, lab: Lab, quick: bool) -> Iterator[FaultRow]:
    kinds = ["die"] if quick else ["die", "segfault"]
    yield FaultRow("dying worker", "os._exit(3), a segmentation fault", process_faults.crash_worker(bench, kinds))
    if quick:
        return
    yield FaultRow("killed workers", "kill -9 of one, of all; no memory for one", process_faults.kill_workers(bench))
    hopeless = chain(
        _run_once(lambda: process_faults.crash_every_worker(bench)),
        process_faults.fail_in_worker(bench, ["raise", "memory"]),
    )
    yield FaultRow("hopeless workers", "each dies; the domain raises; MemoryError", hopeless)
    ways = [signal.SIGINT, signal.SIGKILL]
    yield FaultRow("driver", "SIGINT and kill -9: no worker stays", process_faults.interrupt_driver(lab, bench, ways))
    yield FaultRow("dying worker of Ray", "os._exit(3)", process_faults.crash_worker(bench, ["die"], "ray"))


def _list_child_faults(bench: Bench, lab: Lab, quick: bool) -> Iterator[FaultRow]:
    expected = process_faults.run_undisturbed(bench)
    kinds = ["die"] if quick else ["die", "segfault"]
    how = "os._exit(3), a segmentation fault, again and again; an evaluation hangs"
    hung = _run_once(lambda: process_faults.hang_evaluation(bench, expected))
    yield FaultRow(
        "workers for single children", how, chain(process_faults.crash_child_worker(bench, expected, kinds), hung)
    )
    if quick:
        return
    how = "raises, MemoryError; then is sound"
    failing = process_faults.fail_child(bench, expected, ["raise", "memory"])
    yield FaultRow("failing domain, single children", how, failing)
    rng = random.Random(0)
    moments = [(signal.SIGKILL, at, rng.random()) for at in (-1, 0, 10, 20, 30, 40, 60, 80)]
    how = "SIGINT and kill -9, with two workers; then replayed"
    trials = process_faults.interrupt_driver_of_children(lab, bench, [*moments, (signal.SIGINT, 40, rng.random())])
    yield FaultRow("driver, single children", how, trials)
    ray = process_faults.crash_child_worker(bench, expected, ["die"], "ray")
    yield FaultRow("workers of Ray for single children", "os._exit(3), again and again", ray)


def _list_cluster_faults(bench: Bench, root: Path) -> Iterator[FaultRow]:
    """Each row is two trials, with groups of runs and with single children as tasks; the cluster is shared."""
    from tests.faults import cluster, cluster_faults

    if reason := cluster.explain_missing():
        print(f"no faults of clusters: {reason}", file=sys.stderr)
        return
    folder = root / "cluster"
    with cluster_faults.make_cluster(folder) as shared:
        lab = cluster_faults.ClusterLab(folder, bench, shared)
        for fault, how, trial in cluster_faults.NODE_FAULTS:
            yield FaultRow(fault, how, cluster_faults.try_grains(lab, trial))
        how = "; ".join(cluster_faults.OTHERS)
        refused = (cluster_faults.refuse_node(lab, what) for what in cluster_faults.OTHERS)
        yield FaultRow("cluster: a node with another installation", how, refused)
    how = f"{1000 * cluster_faults.LATENCY:.0f} ms more per round trip to two of the nodes"
    yield FaultRow("cluster: a slow network", how, cluster_faults.try_slow_network(root / "slow", bench))


def _run_once(trial: Callable[[], Trial]) -> Iterator[Trial]:
    yield trial()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="inject only a few of each fault")
    parser.add_argument("--out", type=Path, help="the Markdown file for the table, written row by row")
    parser.add_argument("--only", metavar="WORD", help="only rows whose name contains this; with --go-on")
    parser.add_argument("--go-on", action="store_true", help="keep the rows that --out has, and add the others")
    options = parser.parse_args(arguments)
    root = Path(tempfile.mkdtemp(prefix="tfsm-faults-"))
    before = _read_rows(options.out) if options.go_on and options.out is not None else {}
    table: dict[str, str] = {}
    failed = False
    for row in list_faults(root, quick=options.quick):
        if row.fault in before:
            table[row.fault] = before.pop(row.fault)
        elif options.only is not None and options.only not in row.fault:
            continue
        else:
            table[row.fault], passed = _measure_row(row)
            failed = failed or not passed
            print(table[row.fault], flush=True)
        if options.out is not None:
            lines = [*table.values(), *before.values()]
            options.out.write_text(_render_document(lines, options.quick, options.go_on), encoding="utf-8")
    shutil.rmtree(root, ignore_errors=True)
    return 1 if failed else 0


def _measure_row(row: FaultRow) -> tuple[str, bool]:
    """Return a line of the table, and whether all trials were survived without loss."""
    start, trials = time.monotonic(), []
    try:
        for trial in row.trials:
            trials.append(trial)
            if trial.lost or not trial.survived:
                print(f"{row.fault}: {trial.what}: {trial.details}", file=sys.stderr, flush=True)
    except Exception as error:  # the other faults are still injected
        trials.append(Trial("unexpected error", False, 0))
        print(f"{row.fault}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
    survived, lost = sum(trial.survived for trial in trials), sum(trial.lost for trial in trials)
    numbers = f"{len(trials)} | {survived} | {lost} | {time.monotonic() - start:.0f}"
    return f"| {row.fault} | {row.how} | {numbers} |", survived == len(trials) and not lost


def _read_rows(file: Path) -> dict[str, str]:
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return {line.split("|")[1].strip(): line for line in lines if line.startswith("| ") and line not in HEADER}


def _render_document(lines: Sequence[str], quick: bool, in_parts: bool) -> str:
    command = f"python -m benchmarks.faults{' --quick' if quick else ''} --out results/faults.md"
    parts = ", in parts (`--go-on`)" if in_parts else ""
    seconds = sum(int(line.split("|")[-2]) for line in lines)
    text = (
        "# Faults",
        "",
        f"Measured by `{command}`{parts},",
        f"in {seconds / 60:.0f} minutes on {os.cpu_count()} cores that were also used by others.",
        "",
        "In each trial, a small experiment (three runs of a domain in plain Python, of which two are solved) meets",
        "a fault, and then continues to its end. Losses are counted by comparing its results with those of an",
        "undisturbed experiment: every line of the log byte for byte, how each run ended, the weights of the",
        "champions, and every snapshot of behavior. Survived means that, in addition, the user got the right",
        "message, in one line and without a traceback, that the exit code was right, and that no damaged file was",
        "deleted.",
        "",
        *(
            (
                "Rows made in parts belong to different versions of the code. Rows that showed a loss were measured",
                "again after its cause was fixed; the numbers are those of the last time.",
                "",
            )
            if in_parts
            else ()
        ),
        "After kill -9, every fifth experiment is resumed by a command; the others are, for speed, resumed in the",
        "process that counts.",
        "",
        "Rows about environments are about two runs of the domain `gym`. An environment that cannot be used must be",
        "refused in one line before anything is written.",
        "",
        "Where a failing evaluation counts as broken, and where the domain returns NaN, the result differs from that",
        "without the fault, as it must. Lost is then what is missing.",
        "",
        "Rows about clusters are about three Ray nodes, each in a network namespace of its own with its own address,",
        "connected by a bridge; once with groups of runs and once with single children as tasks.",
        "",
        "Single children of several workers arrive in an order that depends on timing. What is on disk is then",
        "compared with a replay of the recorded order.",
        "",
    )
    return "\n".join([*text, *HEADER, *lines, ""])


if __name__ == "__main__":
    sys.exit(main())
