"""Kill -9 at any moment of a command."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

from tests.faults.disk_faults import At
from tests.faults.fragile_domain import KINDS
from tests.faults.lab import (
    PAUSE,
    SMALL,
    Bench,
    FinalState,
    Lab,
    Process,
    Trial,
    children,
    compared,
    end,
    flags,
    is_there,
)
from tfsm.errors import TfsmError
from tfsm.parallel.pool import Backend
from tfsm.runs.run_tasks import MAX_DEATHS

PHASES: Final = ("start", "evolving", "checkpoint", "end")
_STARTING: Final = 6.0
_EVOLVING: Final = 130 * PAUSE
_ENDING: Final = 0.3


def moments(count: int, seed: int = 0) -> list[tuple[str, float]]:
    """Draw phases of a command, and how far into them."""
    rng = random.Random(seed)
    shares = {"start": 0.2, "evolving": 0.4, "checkpoint": 0.2, "end": 0.2}
    phases = rng.choices(PHASES, [shares[phase] for phase in PHASES], k=count)
    return [(phase, rng.random()) for phase in phases]


def kills(lab: Lab, bench: Bench, wanted: list[tuple[str, float]], seed: int = 0) -> Iterator[Trial]:
    """Kill a command at each of these moments, sometimes again after it has gone on, and then let it come to its end.

    The end is by a command every fifth time, and in this process otherwise, which is faster.
    """
    rng = random.Random(seed)
    for number, (phase, how_far) in enumerate(wanted):
        out, times = lab.out(), 1
        kill(lab.begin(out), out, phase, how_far)
        while times < 3 and rng.random() < 0.3:
            times += 1
            kill(lab.begin(out), out, rng.choice(PHASES), rng.random())
        found, problems = lab.final(out) if number % 5 == 4 else (bench.final(out), [])
        yield compared(f"{phase} {how_far:.2f}, killed {times} times", bench.expected, found, problems)


def kill(process: Process, out: Path, phase: str, how_far: float) -> None:
    """Kill a process, in a phase of its life."""
    if phase == "start":
        time.sleep(how_far * _STARTING)
    elif phase == "evolving":
        before = _stamp(out / "run.json")
        process.wait_for(lambda: _stamp(out / "run.json") != before)
        time.sleep(how_far * _EVOLVING)
    elif phase == "checkpoint":
        # Wherever in the run it is: some of the drafts that are written.
        until = time.monotonic() + how_far * _EVOLVING
        process.wait_for(lambda: _drafts(out / "checkpoints") and time.monotonic() > until)
    else:
        champions = len(list(out.glob("champions/*.keras")))
        process.wait_for(lambda: len(list(out.glob("champions/*.keras"))) > min(champions, 2))
        time.sleep(how_far * _ENDING)
    process.kill()


def _stamp(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0


def _drafts(folder: Path) -> bool:
    try:
        return any(file.name.startswith(".") for file in folder.iterdir())
    except OSError:
        return False


INTERRUPTED: Final = 130
WAYS: Final = {
    "SIGINT": [signal.SIGINT],
    "SIGTERM": [signal.SIGTERM],
    "SIGINT twice": [signal.SIGINT, signal.SIGINT],
}


def signals(lab: Lab, bench: Bench, ways: Iterator[str] | list[str], *, by_command: bool = True) -> Iterator[Trial]:
    """Send signals to a command that is evolving, then let it come to its end: by a command, or in this process."""
    for way in ways:
        out = lab.out()
        process = lab.begin(out, FRAGILE_PAUSE="0.03")
        process.wait_for(lambda out=out: len(list(out.glob("checkpoints/*.checkpoint"))) == 2)
        for number, one in enumerate(WAYS[way]):
            if number:
                process.wait_for(lambda process=process: "once more" in process.err)
            process.signal(one)
        ended = process.end()
        problems = list(ended.problems)
        if ended.code != INTERRUPTED:
            problems.append(f"exit code {ended.code}")
        status = json.loads((out / "run.json").read_text())["status"]
        if status != "interrupted":
            problems.append(f"its status is {status}")
        if len(WAYS[way]) == 1 and f"resume with: tfsm run --resume {out}" not in ended.err:
            problems.append(f"it does not say how to go on: {ended.err}")
        found, wrong = lab.final(out) if by_command else (bench.final(out), [])
        yield compared(way, bench.expected, found, problems + wrong)


_EVENT: Final = 8
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
            if f"{MAX_DEATHS} times" not in str(error) or "\n" in str(error):
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


ONE: Final = Backend("processes", 1, None, "children")
_LIMIT: Final = 3.0


def expected(bench: Bench) -> FinalState:
    """Return what comes of the experiment when nothing goes wrong."""
    out = bench.out()
    bench.run(out, backend=ONE)
    return FinalState.of(out)


def dying_of_children(
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


def drivers_of_children(
    lab: Lab, bench: Bench, moments: Sequence[tuple[signal.Signals, int, float]]
) -> Iterator[Trial]:
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


MEMBERS: Final = ("control", "sm-r")
_SECOND: Final = 200


def start(lab: Lab, out: Path, *more: str, **variables: str) -> Process:
    """Start a comparison, or go on with it."""
    return lab.start(
        "compare", "fragile", "--mutation", ",".join(MEMBERS), *flags(), "--out", str(out), *more, **variables
    )


def studies(lab: Lab, *more: str) -> Iterator[Trial]:
    """Kill a study in the midst of its second member, then let a member of another fail; start both again."""
    whole = lab.out()
    problems = start(lab, whole, FRAGILE_PAUSE="0").end().problems
    expected = FinalState.of(whole)
    assert expected.pieces["the study's status"] == "finished"

    out = lab.out()
    process = start(lab, out, *more)
    process.wait_for(lambda: bool(list((out / MEMBERS[1]).glob("checkpoints/*.checkpoint"))))
    process.kill()
    yield _again(lab, out, expected, "killed in the second member", problems, *more)

    out, flag = lab.out(), lab.root / "study.json"
    flag.write_text(json.dumps({"kind": "raise", "at": _SECOND if not more else 60}))
    ended = start(lab, out, *more, FRAGILE=str(flag), FRAGILE_PAUSE="0").end()
    flag.unlink()
    problems = list(ended.problems)
    if ended.code != 2 or "the simulator broke down" not in ended.err:
        problems.append(f"exit code {ended.code}: {ended.err}")
    yield _again(lab, out, expected, "a member fails", problems, *more)


def _again(lab: Lab, out: Path, expected: FinalState, what: str, problems: list[str], *more: str) -> Trial:
    ended = start(lab, out, *more, FRAGILE_PAUSE="0").end()
    wrong = ended.problems + ([f"exit code {ended.code}: {ended.err}"] if ended.code else [])
    return compared(what, expected, FinalState.of(out), [*problems, *wrong])
