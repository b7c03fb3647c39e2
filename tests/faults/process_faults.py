"""Faults of processes: killed commands, signals, dying workers, interrupted drivers and studies."""

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

from tests.faults.disk_faults import ActAfter
from tests.faults.fragile_domain import KINDS
from tests.faults.lab import (
    PAUSE,
    SMALL,
    Bench,
    FinalState,
    Lab,
    Process,
    Trial,
    compare,
    flags,
    is_running,
    kill_process,
    list_child_processes,
)
from tfsm.errors import TfsmError
from tfsm.parallel.pool import Backend
from tfsm.runs.run_tasks import MAX_DEATHS

PHASES: Final = ("start", "evolving", "checkpoint", "end")
_STARTING: Final = 6.0
_EVOLVING: Final = 130 * PAUSE
_ENDING: Final = 0.3


def draw_moments(count: int, seed: int = 0) -> list[tuple[str, float]]:
    """Draw phases of a command, and fractions of these phases."""
    rng = random.Random(seed)
    shares = {"start": 0.2, "evolving": 0.4, "checkpoint": 0.2, "end": 0.2}
    phases = rng.choices(PHASES, [shares[phase] for phase in PHASES], k=count)
    return [(phase, rng.random()) for phase in phases]


def kill_commands(lab: Lab, bench: Bench, moments: list[tuple[str, float]], seed: int = 0) -> Iterator[Trial]:
    """Kill a command at each of these moments, sometimes again after it has resumed, and then let it finish.

    Every fifth experiment is finished by a command; the others are finished in this process, which is faster.
    """
    rng = random.Random(seed)
    for number, (phase, fraction) in enumerate(moments):
        out, times = lab.new_out(), 1
        kill_in_phase(lab.begin(out), out, phase, fraction)
        while times < 3 and rng.random() < 0.3:
            times += 1
            kill_in_phase(lab.begin(out), out, rng.choice(PHASES), rng.random())
        found, problems = lab.finish(out) if number % 5 == 4 else (bench.finish(out), [])
        yield compare(f"{phase} {fraction:.2f}, killed {times} times", bench.expected, found, problems)


def kill_in_phase(process: Process, out: Path, phase: str, fraction: float) -> None:
    """Kill a process after a fraction of a phase."""
    if phase == "start":
        time.sleep(fraction * _STARTING)
    elif phase == "evolving":
        before = _modification_time(out / "run.json")
        process.wait_for(lambda: _modification_time(out / "run.json") != before)
        time.sleep(fraction * _EVOLVING)
    elif phase == "checkpoint":
        # Catch any of the temporary files of checkpoints, early or late in the run.
        until = time.monotonic() + fraction * _EVOLVING
        process.wait_for(lambda: _has_temporary_files(out / "checkpoints") and time.monotonic() > until)
    else:
        champions = len(list(out.glob("champions/*.keras")))
        process.wait_for(lambda: len(list(out.glob("champions/*.keras"))) > min(champions, 2))
        time.sleep(fraction * _ENDING)
    process.kill()


def _modification_time(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0


def _has_temporary_files(folder: Path) -> bool:
    try:
        return any(file.name.startswith(".") for file in folder.iterdir())
    except OSError:
        return False


INTERRUPTED: Final = 130
SIGNALS: Final = {
    "SIGINT": [signal.SIGINT],
    "SIGTERM": [signal.SIGTERM],
    "SIGINT twice": [signal.SIGINT, signal.SIGINT],
}


def send_signals(
    lab: Lab, bench: Bench, ways: Iterator[str] | list[str], *, by_command: bool = True
) -> Iterator[Trial]:
    """Send signals to an evolving command, then finish the experiment by a command or in this process."""
    for way in ways:
        out = lab.new_out()
        process = lab.begin(out, FRAGILE_PAUSE="0.03")
        process.wait_for(lambda out=out: len(list(out.glob("checkpoints/*.checkpoint"))) == 2)
        for index, number in enumerate(SIGNALS[way]):
            if index:
                process.wait_for(lambda process=process: "again to quit" in process.err)
            process.signal(number)
        ended = process.wait()
        problems = list(ended.problems)
        if ended.code != INTERRUPTED:
            problems.append(f"exit code {ended.code}")
        status = json.loads((out / "run.json").read_text())["status"]
        if status != "interrupted":
            problems.append(f"its status is {status}")
        if len(SIGNALS[way]) == 1 and f"resume with: tfsm run --resume {out}" not in ended.err:
            problems.append(f"no hint how to resume: {ended.err}")
        found, wrong = lab.finish(out) if by_command else (bench.finish(out), [])
        yield compare(way, bench.expected, found, problems + wrong)


_EVENT: Final = 8
_NO_MEMORY: Final = 2**20
_SECONDS: Final = 20.0


@contextmanager
def environment(**variables: str) -> Iterator[None]:
    """Set environment variables, which workers inherit."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def crash_worker(bench: Bench, kinds: Sequence[str], backend: Any = "processes", at: int = 60) -> Iterator[Trial]:
    """Let the domain crash its worker once: another worker resumes the task."""
    for kind in kinds:
        out = bench.new_out()
        plan = {"kind": kind, "at": at, "once": str(bench.root / f"once-{kind}-{backend}-{time.monotonic_ns()}")}
        with broken_workers(bench, plan):
            bench.run(out, backend=Backend(backend, workers=2))
        problems = [] if _count_deaths(bench) == 1 else [f"messages: {bench.messages}"]
        yield compare(f"one {KINDS[kind]}", bench.expected, bench.finish(out), problems)


def harm_workers(bench: Bench, what: str, harm: Callable[[list[int]], None], deaths: Sequence[int]) -> Trial:
    """Harm the processes of a pool half-way through an experiment."""
    out, message = bench.new_out(), ""
    with environment(FRAGILE_PAUSE="0.02"):
        observer = ActAfter(_EVENT, lambda: harm(list_child_processes(os.getpid())))
        try:
            bench.run(out, backend=Backend("processes", workers=2), observers=[observer])
        except TfsmError as error:
            message = str(error)
    problems = (
        [] if _count_deaths(bench) in deaths and "\n" not in message else [f"messages: {bench.messages} {message}"]
    )
    return compare(what, bench.expected, bench.finish(out), problems)


def kill_workers(bench: Bench) -> Iterator[Trial]:
    """Kill one worker, all of them, and take one's memory away."""
    yield harm_workers(bench, "kill -9 of one", lambda pids: kill_process(pids[0]), [1])
    yield harm_workers(bench, "kill -9 of all", lambda pids: [kill_process(pid) for pid in pids] and None, [2])
    # The worker dies or reports a failure, depending on which allocation fails first.
    yield harm_workers(bench, "no memory left for one", _remove_memory, [0, 1])


def crash_every_worker(bench: Bench, kind: str = "die") -> Trial:
    """Let workers die repeatedly: the experiment fails, and is resumed here once the fault is gone."""
    out, problems = bench.new_out(), []
    with broken_workers(bench, {"kind": kind, "at": 30}):
        try:
            bench.run(out, backend=Backend("processes", workers=2), checkpoint_every="never")
            problems.append("the experiment finished")
        except TfsmError as error:
            if f"{MAX_DEATHS} times" not in str(error) or "\n" in str(error):
                problems.append(f"messages: {error}")
    return compare("every worker dies", bench.expected, bench.finish(out), problems)


def fail_in_worker(bench: Bench, kinds: Sequence[str]) -> Iterator[Trial]:
    """Let a domain raise in a worker: the experiment fails with a message, and is resumed here."""
    for kind in kinds:
        out, problems = bench.new_out(), []
        with broken_workers(bench, {"kind": kind, "at": 60}):
            try:
                bench.run(out, backend=Backend("processes", workers=2))
                problems.append("the failure had no effect")
            except TfsmError as error:
                if "\n" in str(error):
                    problems.append(f"messages: {error}")
        yield compare(f"in a worker, {KINDS[kind]}", bench.expected, bench.finish(out), problems)


def interrupt_driver(lab: Lab, bench: Bench, ways: Sequence[signal.Signals]) -> Iterator[Trial]:
    """Interrupt or kill the driver: no worker may keep running."""
    for way in ways:
        out = lab.new_out()
        process = lab.begin(out, "--backend", "processes", "--workers", "2", FRAGILE_PAUSE="0.03")
        process.wait_for(lambda out=out: len(list(out.glob("checkpoints/*.checkpoint"))) >= 2)
        workers = list_child_processes(process.pid)
        process.signal(way)
        ended = process.wait()
        problems = list(ended.problems)
        if ended.code != (INTERRUPTED if way == signal.SIGINT else -way):
            problems.append(f"exit code {ended.code}: {ended.err}")
        deadline = time.monotonic() + _SECONDS
        while any(map(is_running, workers)) and time.monotonic() < deadline:
            time.sleep(0.1)
        if not workers or any(map(is_running, workers)):
            problems.append(f"some of the workers {workers} are still running")
        yield compare(f"{way.name} to the driver", bench.expected, bench.finish(out), problems)


def _remove_memory(pids: list[int]) -> None:
    resource.prlimit(pids[0], resource.RLIMIT_AS, (_NO_MEMORY, _NO_MEMORY))


def _count_deaths(bench: Bench) -> int:
    return sum("a worker died" in line for line in bench.messages)


@contextmanager
def broken_workers(bench: Bench, plan: dict[str, Any]) -> Iterator[None]:
    """Let the domain fail in workers according to a plan."""
    file: Path = bench.root / "workers.json"
    file.write_text(json.dumps(plan), encoding="utf-8")
    with environment(FRAGILE=str(file)):
        try:
            yield
        finally:
            file.unlink()


ONE_WORKER: Final = Backend("processes", 1, None, "children")
_LIMIT: Final = 3.0


def run_undisturbed(bench: Bench) -> FinalState:
    """Return the results of an undisturbed experiment by single children."""
    out = bench.new_out()
    bench.run(out, backend=ONE_WORKER)
    return FinalState.of(out)


def crash_child_worker(
    bench: Bench, expected: FinalState, kinds: Sequence[str], backend: Literal["processes", "ray"] = "processes"
) -> Iterator[Trial]:
    """Let the domain crash its worker repeatedly: the individual is made again each time."""
    for kind in kinds:
        out = bench.new_out()
        with broken_workers(bench, {"kind": kind, "at": 100}):  # counted per worker
            bench.run(out, backend=Backend(backend, 1, None, "children"))
        deaths = sum("is made again" in line for line in bench.messages)
        problems = [] if deaths >= 2 else [f"messages: {bench.messages}"]
        yield compare(f"every hundredth call {KINDS[kind]}", expected, FinalState.of(out), problems)


def hang_evaluation(bench: Bench, expected: FinalState) -> Trial:
    """Let an evaluation hang: its worker is killed, and the individual is made again."""
    out = bench.new_out()
    with broken_workers(bench, {"kind": "hang", "at": 60, "once": str(bench.root / f"hung-{time.monotonic_ns()}")}):
        bench.run(out, backend=ONE_WORKER, evaluation_timeout=_LIMIT)
    messages = [line for line in bench.messages if f"longer than {_LIMIT:g} seconds" in line]
    return compare(
        "an evaluation hangs", expected, FinalState.of(out), [] if len(messages) == 1 else [f"{bench.messages}"]
    )


def fail_child(bench: Bench, expected: FinalState, kinds: Sequence[str]) -> Iterator[Trial]:
    """Let a domain fail: the experiment fails with a message, and is resumed once the domain works again."""
    for kind in kinds:
        out, problems = bench.new_out(), []
        with broken_workers(bench, {"kind": kind, "at": 60}):
            try:
                bench.run(out, backend=ONE_WORKER)
                problems.append("the failure had no effect")
            except TfsmError as error:
                if "\n" in str(error):
                    problems.append(f"messages: {error}")
        bench.run(out, backend=ONE_WORKER)
        yield compare(f"the domain {KINDS[kind]}", expected, FinalState.of(out), problems)


def interrupt_driver_of_children(
    lab: Lab, bench: Bench, moments: Sequence[tuple[signal.Signals, int, float]]
) -> Iterator[Trial]:
    """Interrupt or kill a driver of two workers, resume by a command, and replay the recorded order.

    Args:
        lab: runs commands.
        bench: replays orders.
        moments: signals, each with the evaluations of a checkpoint and a delay in seconds after it.
    """
    for way, at, delay in moments:
        out, flags = lab.new_out(), ("--grain", "children", "--workers", "2")
        process = lab.begin(out, *flags, FRAGILE_PAUSE="0.05")  # so that it does not finish before it is killed
        if process.wait_for(lambda out=out, at=at: _checkpointed_evaluations(out) >= at):
            time.sleep(delay)
        if not process.alive:
            continue  # it finished before the fault could be injected
        process.signal(way)
        problems = _check_exit(process, way)
        # A command that was killed before it wrote its record starts from the beginning.
        _, wrong = lab.finish(out, *(() if (out / "run.json").is_file() else flags))
        again = bench.new_out()
        bench.run(again, backend=ONE_WORKER, order=out / "order.log")
        what = f"{way.name} {delay:.2f} seconds after evaluation {at}"
        yield compare(what, FinalState.of(again), FinalState.of(out), problems + wrong)


def _check_exit(process: Process, way: signal.Signals) -> list[str]:
    ended = process.wait()
    code = INTERRUPTED if way == signal.SIGINT else -way
    return ended.problems + ([f"exit code {ended.code}: {ended.err}"] if ended.code != code else [])


def _checkpointed_evaluations(out: Path) -> int:
    """Return the mean evaluations of a run at the last checkpoint, or a negative number without a checkpoint."""
    events = [int(file.stem.rpartition("-")[2]) for file in out.glob("checkpoints/run-*.checkpoint")]
    return max(events, default=-1) // (2 * SMALL["runs"])  # each evaluation is two events: dispatched and completed


MEMBERS: Final = ("control", "sm-r")
_CALL_IN_SECOND_MEMBER: Final = 200


def start_study(lab: Lab, out: Path, *more: str, **variables: str) -> Process:
    """Start or resume a comparison."""
    return lab.start(
        "compare", "fragile", "--mutation", ",".join(MEMBERS), *flags(), "--out", str(out), *more, **variables
    )


def interrupt_studies(lab: Lab, *more: str) -> Iterator[Trial]:
    """Kill a study in its second member, then let a member of another study fail; resume both."""
    undisturbed = lab.new_out()
    problems = start_study(lab, undisturbed, FRAGILE_PAUSE="0").wait().problems
    expected = FinalState.of(undisturbed)
    assert expected.pieces["the study's status"] == "finished"

    out = lab.new_out()
    process = start_study(lab, out, *more)
    process.wait_for(lambda: bool(list((out / MEMBERS[1]).glob("checkpoints/*.checkpoint"))))
    process.kill()
    yield _restart_study(lab, out, expected, "killed in the second member", problems, *more)

    out, flag = lab.new_out(), lab.root / "study.json"
    flag.write_text(json.dumps({"kind": "raise", "at": _CALL_IN_SECOND_MEMBER if not more else 60}))
    ended = start_study(lab, out, *more, FRAGILE=str(flag), FRAGILE_PAUSE="0").wait()
    flag.unlink()
    problems = list(ended.problems)
    if ended.code != 2 or "the simulator broke down" not in ended.err:
        problems.append(f"exit code {ended.code}: {ended.err}")
    yield _restart_study(lab, out, expected, "a member fails", problems, *more)


def _restart_study(lab: Lab, out: Path, expected: FinalState, what: str, problems: list[str], *more: str) -> Trial:
    ended = start_study(lab, out, *more, FRAGILE_PAUSE="0").wait()
    wrong = ended.problems + ([f"exit code {ended.code}: {ended.err}"] if ended.code else [])
    return compare(what, expected, FinalState.of(out), [*problems, *wrong])
