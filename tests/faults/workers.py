"""Workers that die, and drivers that leave their workers alone."""

from __future__ import annotations

import json
import os
import resource
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.faults.bench import Bench
from tests.faults.disks import At
from tests.faults.fragile_domain import KINDS
from tests.faults.lab import Lab, children, end, is_there
from tests.faults.signals import INTERRUPTED
from tests.faults.trial import Trial, compared
from tfsm.errors import TfsmError
from tfsm.parallel.pool import Backend
from tfsm.runs.run_tasks import PATIENCE

_EVENT: Final = 8
"""When something is done to workers: they have begun to evolve by then."""
_NO_MEMORY: Final = 2**20
_SECONDS: Final = 20.0


@contextmanager
def environment(**variables: str) -> Iterator[None]:
    """Set variables, which workers inherit."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def dying(bench: Bench, kinds: Sequence[str], backend: Any = "processes", at: int = 60) -> Iterator[Trial]:
    """Let a worker be taken down once by its domain: another goes on in its place."""
    for kind in kinds:
        out = bench.out()
        plan = {"kind": kind, "at": at, "once": str(bench.root / f"once-{kind}-{backend}-{time.monotonic_ns()}")}
        with broken_workers(bench, plan):
            bench.run(out, backend=Backend(backend, workers=2))
        problems = [] if _deaths(bench) == 1 else [f"told: {bench.heard}"]
        yield compared(f"one {KINDS[kind]}", bench.expected, bench.final(out), problems)


def killed(bench: Bench, what: str, do: Callable[[list[int]], None], deaths: Sequence[int]) -> Trial:
    """Do something to the processes of a pool, half-way."""
    out, told = bench.out(), ""
    with environment(FRAGILE_PAUSE="0.02"):
        harm = At(_EVENT, lambda: do(children(os.getpid())))
        try:
            bench.run(out, backend=Backend("processes", workers=2), observers=[harm])
        except TfsmError as error:
            told = str(error)
    problems = [] if _deaths(bench) in deaths and "\n" not in told else [f"told: {bench.heard} {told}"]
    return compared(what, bench.expected, bench.final(out), problems)


def kills_of_workers(bench: Bench) -> Iterator[Trial]:
    """Kill one worker, all of them, and take one's memory away."""
    yield killed(bench, "kill -9 of one", lambda pids: end(pids[0]), [1])
    yield killed(bench, "kill -9 of all", lambda pids: [end(pid) for pid in pids] and None, [2])
    # It dies, or fails in order, depending on who asks for memory first.
    yield killed(bench, "no memory left for one", _starve, [0, 1])


def hopeless(bench: Bench, kind: str = "die") -> Trial:
    """Let workers die again and again: it is given up, and gone on with here when the fault is gone."""
    out, problems = bench.out(), []
    with broken_workers(bench, {"kind": kind, "at": 30}):
        try:
            bench.run(out, backend=Backend("processes", workers=2), checkpoint_every="never")
            problems.append("it came to its end")
        except TfsmError as error:
            if f"{PATIENCE} times" not in str(error) or "\n" in str(error):
                problems.append(f"told: {error}")
    return compared("every worker dies", bench.expected, bench.final(out), problems)


def failing_task(bench: Bench, kinds: Sequence[str]) -> Iterator[Trial]:
    """Let a domain raise in a worker: the experiment ends in order, and is gone on with here."""
    for kind in kinds:
        out, problems = bench.out(), []
        with broken_workers(bench, {"kind": kind, "at": 60}):
            try:
                bench.run(out, backend=Backend("processes", workers=2))
                problems.append("it went on as if nothing had happened")
            except TfsmError as error:
                if "\n" in str(error):
                    problems.append(f"told: {error}")
        yield compared(f"in a worker, {KINDS[kind]}", bench.expected, bench.final(out), problems)


def drivers(lab: Lab, bench: Bench, ways: Sequence[signal.Signals]) -> Iterator[Trial]:
    """Interrupt or kill the driver: no worker may stay behind."""
    for way in ways:
        out = lab.out()
        process = lab.begin(out, "--backend", "processes", "--workers", "2", FRAGILE_PAUSE="0.03")
        process.wait_for(lambda out=out: len(list(out.glob("checkpoints/*.checkpoint"))) >= 2)
        workers = children(process.pid)
        process.signal(way)
        ended = process.end()
        problems = list(ended.problems)
        if ended.code != (INTERRUPTED if way == signal.SIGINT else -way):
            problems.append(f"exit code {ended.code}: {ended.err}")
        deadline = time.monotonic() + _SECONDS
        while any(map(is_there, workers)) and time.monotonic() < deadline:
            time.sleep(0.1)
        if not workers or any(map(is_there, workers)):
            problems.append(f"of the workers {workers} some are still there")
        yield compared(f"{way.name} to the driver", bench.expected, bench.final(out), problems)


def _starve(pids: list[int]) -> None:
    resource.prlimit(pids[0], resource.RLIMIT_AS, (_NO_MEMORY, _NO_MEMORY))


def _deaths(bench: Bench) -> int:
    return sum("a worker died" in line for line in bench.heard)


@contextmanager
def broken_workers(bench: Bench, plan: dict[str, Any]) -> Iterator[None]:
    """Let the domain fail in workers as a plan says."""
    file: Path = bench.root / "workers.json"
    file.write_text(json.dumps(plan), encoding="utf-8")
    with environment(FRAGILE=str(file)):
        try:
            yield
        finally:
            file.unlink()
