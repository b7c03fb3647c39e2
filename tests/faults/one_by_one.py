"""Faults while children are made one by one (`--grain children`).

With one worker the order is always the same, so that what comes of an experiment can be compared with what comes of
it when nothing goes wrong. With two it depends on the clock: then it is compared with what the recorded order gives
when it is replayed.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

from tests.faults.bench import SMALL, Bench
from tests.faults.final import Final as FinalState
from tests.faults.fragile_domain import KINDS
from tests.faults.lab import Lab, Process
from tests.faults.signals import INTERRUPTED
from tests.faults.trial import Trial, compared
from tests.faults.workers import broken_workers
from tfsm.errors import TfsmError
from tfsm.parallel.pool import Backend

ONE: Final = Backend("processes", 1, None, "children")
_LIMIT: Final = 3.0
"""Seconds of an evaluation; what hangs takes hours."""


def expected(bench: Bench) -> FinalState:
    """Return what comes of the experiment when nothing goes wrong."""
    out = bench.out()
    bench.run(out, backend=ONE)
    return FinalState.of(out)


def dying(
    bench: Bench, wanted: FinalState, kinds: Sequence[str], backend: Literal["processes", "ray"] = "processes"
) -> Iterator[Trial]:
    """Let a worker be taken down by its domain, again and again: the individual it was at is made again each time."""
    for kind in kinds:
        out = bench.out()
        with broken_workers(bench, {"kind": kind, "at": 100}):  # by each worker's own count
            bench.run(out, backend=Backend(backend, 1, None, "children"))
        deaths = sum("is made again" in line for line in bench.heard)
        problems = [] if deaths >= 2 else [f"told: {bench.heard}"]
        yield compared(f"every hundredth call {KINDS[kind]}", wanted, FinalState.of(out), problems)


def hanging(bench: Bench, wanted: FinalState) -> Trial:
    """Let an evaluation hang: its worker is killed, and the individual is made again."""
    out = bench.out()
    with broken_workers(bench, {"kind": "hang", "at": 60, "once": str(bench.root / f"hung-{time.monotonic_ns()}")}):
        bench.run(out, backend=ONE, evaluation_timeout=_LIMIT)
    told = [line for line in bench.heard if f"longer than {_LIMIT:g} seconds" in line]
    return compared("an evaluation hangs", wanted, FinalState.of(out), [] if len(told) == 1 else [f"{bench.heard}"])


def failing(bench: Bench, wanted: FinalState, kinds: Sequence[str]) -> Iterator[Trial]:
    """Let a domain fail: the experiment ends in order, and goes on when the domain is sound again."""
    for kind in kinds:
        out, problems = bench.out(), []
        with broken_workers(bench, {"kind": kind, "at": 60}):
            try:
                bench.run(out, backend=ONE)
                problems.append("it went on as if nothing had happened")
            except TfsmError as error:
                if "\n" in str(error):
                    problems.append(f"told: {error}")
        bench.run(out, backend=ONE)
        yield compared(f"the domain {KINDS[kind]}", wanted, FinalState.of(out), problems)


def drivers(lab: Lab, bench: Bench, moments: Sequence[tuple[signal.Signals, int, float]]) -> Iterator[Trial]:
    """Interrupt or kill a driver of two workers, go on by a command, and replay the order that came of it.

    Args:
        lab: where commands are run.
        bench: where orders are replayed.
        moments: the signal, and when: so many seconds after a checkpoint at so many evaluations.
    """
    for way, at, later in moments:
        out, flags = lab.out(), ("--grain", "children", "--workers", "2")
        process = lab.begin(out, *flags, FRAGILE_PAUSE="0.05")  # so that it is not over before it is killed
        if process.wait_for(lambda out=out, at=at: _reached(out) >= at):
            time.sleep(later)
        if not process.alive:
            continue  # it was over before anything could be done to it, which is no fault
        process.signal(way)
        problems = _problems(process, way)
        # Whoever was killed before there was anything begins anew.
        _, wrong = lab.final(out, *(() if (out / "run.json").is_file() else flags))
        again = bench.out()
        bench.run(again, backend=ONE, order=out / "order.log")
        what = f"{way.name} {later:.2f} seconds after evaluation {at}"
        yield compared(what, FinalState.of(again), FinalState.of(out), problems + wrong)


def _problems(process: Process, way: signal.Signals) -> list[str]:
    ended = process.end()
    code = INTERRUPTED if way == signal.SIGINT else -way
    return ended.problems + ([f"exit code {ended.code}: {ended.err}"] if ended.code != code else [])


def _reached(out: Path) -> int:
    """Return the evaluations of a run at the last checkpoint, in the mean; less than none if there is none."""
    events = [int(file.stem.rpartition("-")[2]) for file in out.glob("checkpoints/run-*.checkpoint")]
    return max(events, default=-1) // (2 * SMALL["runs"])  # handed out, and settled
