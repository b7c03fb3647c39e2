"""Faults of files, disks and clocks: damaged and leftover files, full and read-only disks, locks, clock changes."""

from __future__ import annotations

import hashlib
import os
import resource
import shutil
import struct
import subprocess
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, TypeAlias
from unittest.mock import patch

from tests.faults.lab import Bench, Lab, Trial, compare, flags
from tfsm.errors import TfsmError
from tfsm.evolution.checkpoint import pack_checkpoint, read_checkpoint
from tfsm.interfaces import Observer
from tfsm.runs.records import is_locked

Change: TypeAlias = Callable[[bytes], bytes]
KILLED_AT: Final = 80


def make_killed_experiment(bench: Bench) -> Path:
    """Return an experiment that was killed half-way: it has two checkpoints, a log, and unfinished snapshots."""
    out = bench.new_out()

    class Killed(BaseException):
        pass

    def stop() -> bool:
        if any(f"-at-{KILLED_AT:09d}" in file.name for file in list_checkpoints(out)):
            # A process that is killed now leaves exactly these files.
            shutil.copytree(out, out.with_suffix(".killed"))
            raise Killed
        return False

    try:
        bench.run(out, stop=stop)
    except Killed:
        return out.with_suffix(".killed")
    raise AssertionError("the experiment ended before it was killed")


def list_changes(content: bytes, count: int, *, flips: bool = True) -> dict[str, Change]:
    """Return ways to damage a file, at `count` offsets each; flip single bits only if the file has a digest."""
    places = sorted({len(content) * k // count for k in range(count)} | {len(content) - 1})
    changes: dict[str, Change] = {"emptied": lambda old: b"", "with bytes appended": lambda old: old + b"\0" * 100}
    for place in places:
        if flips:
            changes[f"with a bit flipped at {place}"] = lambda old, at=place: _flip_bit(old, at)
        changes[f"with zeros from {place}"] = lambda old, at=place: _zero_bytes(old, at)
        changes[f"cut off at {place}"] = lambda old, at=place: old[:at]
    return changes


def damage_checkpoints(bench: Bench, killed: Path, count: int) -> Iterator[Trial]:
    """Damage the newest checkpoint in many ways; each time, the run resumes from the previous one.

    Args:
        bench: runs the experiments.
        killed: the experiment to resume.
        count: the number of damaged offsets.
    """
    newest = list_checkpoints(killed)[-1].name
    changes = list_changes((killed / "checkpoints" / newest).read_bytes(), count)
    foreign = _pack_foreign_checkpoint(list_checkpoints(killed)[-1])
    changes |= {"of another experiment": lambda old: foreign, "of a newer format": mark_as_newer_format}
    for what, change in changes.items():
        out = _copy_experiment(bench, killed)
        file = out / "checkpoints" / newest
        content = change(file.read_bytes())
        if content == file.read_bytes():
            continue  # these bytes were already zero
        file.write_bytes(content)
        final = bench.finish(out)
        warnings = [line for line in bench.messages if newest in line]
        problems = [] if len(warnings) == 1 else [f"{len(warnings)} warnings: {bench.messages}"]
        kept = [path for path in (out / "checkpoints").iterdir() if path.read_bytes() == content]
        yield compare(what, bench.expected, final, problems + ([] if kept else ["the damaged file is gone"]))
    yield _rename_checkpoints(bench, killed)


def _rename_checkpoints(bench: Bench, killed: Path) -> Trial:
    """Rename both checkpoints to those of other runs."""
    out = _copy_experiment(bench, killed)
    for file in list_checkpoints(out):
        file.rename(file.with_name(file.name.replace("run-000-002", "run-000-001")))
    final = bench.finish(out)
    problems = [] if any("renamed" in line for line in bench.messages) else [f"no warning: {bench.messages}"]
    return compare("renamed to other runs", bench.expected, final, problems)


def damage_all_checkpoints(bench: Bench, killed: Path) -> Trial:
    """Damage all checkpoints, so that the experiment restarts."""
    out = _copy_experiment(bench, killed)
    for file in list_checkpoints(out):
        file.write_bytes(file.read_bytes()[:-1])
    return compare("all of them cut off", bench.expected, bench.finish(out))


def damage_log(bench: Bench, killed: Path, count: int) -> Iterator[Trial]:
    """Damage the log in many ways."""
    changes = list_changes((killed / "metrics.jsonl").read_bytes(), count, flips=False)
    changes["followed by zeros that were never written"] = lambda old: old + b"\0" * 4096
    changes["with a torn last line"] = lambda old: old[:-20]
    changes["without its first line"] = lambda old: old[old.index(b"\n") + 1 :]
    changes["with a torn line among the others"] = lambda old: old[:40] + old[90:]
    changes["with a line twice"] = lambda old: old + old[: old.index(b"\n") + 1]
    for what, change in changes.items():
        out = _copy_experiment(bench, killed)
        log = out / "metrics.jsonl"
        log.write_bytes(change(log.read_bytes()))
        yield compare(f"the log {what}", bench.expected, bench.finish(out))


def damage_snapshots(bench: Bench, killed: Path, count: int) -> Iterator[Trial]:
    """Damage the snapshots of an unfinished run."""
    parts = sorted(killed.glob("behavior/.run-*.parts"))[-1]
    for what, change in list_changes(parts.read_bytes(), count).items():
        out = _copy_experiment(bench, killed)
        file = out / parts.relative_to(killed)
        file.write_bytes(change(file.read_bytes()))
        yield compare(f"snapshots {what}", bench.expected, bench.finish(out))


def leave_temporary_files(bench: Bench, killed: Path) -> Iterator[Trial]:
    """Leave temporary files behind, as a process does that is killed while writing."""
    names = (
        ".run.json.part.json",
        ".metrics.jsonl.part.jsonl",
        "champions/.run-000.keras.part.keras",
        "behavior/.run-000.npz.part.npz",
        "checkpoints/.run-000-002-at-000000083.checkpoint.part.checkpoint",
    )
    for name in names:
        out = _copy_experiment(bench, killed)
        (out / name).write_text('{"half": ')
        yield compare(f"a temporary file {name}", bench.expected, bench.finish(out))


def list_checkpoints(directory: Path) -> list[Path]:
    """Return the checkpoints of a directory, newest last."""
    return sorted((directory / "checkpoints").glob("*.checkpoint"))


def mark_as_newer_format(content: bytes) -> bytes:
    """Return a checkpoint of a newer format version, with a valid digest."""
    body = content[:16] + struct.pack("<I", 99) + content[20:-32]
    return body + hashlib.sha256(body).digest()


def _pack_foreign_checkpoint(file: Path) -> bytes:
    """Return the checkpoint that an experiment with other settings would have written."""
    saved, about = read_checkpoint(file)
    return pack_checkpoint(saved, about | {"experiment": "another"})


def _flip_bit(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


def _zero_bytes(content: bytes, at: int) -> bytes:
    length = min(64, len(content) - at)
    return content[:at] + b"\0" * length + content[at + length :]


def _copy_experiment(bench: Bench, killed: Path) -> Path:
    out = bench.new_out()
    shutil.copytree(killed, out)
    return out


PAGE: Final = 4096
_SIZE: Final = "1m"
_WITHOUT_RIGHTS: Final = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """Mount a small disk in memory; raise an `OSError` where that is not permitted."""
    folder.mkdir(parents=True)
    _mount("-t", "tmpfs", "-o", f"size={_SIZE}", "none", str(folder))
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Remount a folder read-only; files that are already open stay writable."""
    _mount("--bind", str(folder), str(folder))
    try:
        _mount("-o", "remount,ro,bind", str(folder))
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def can_mount(folder: Path) -> bool:
    """Return whether this process may mount disks."""
    try:
        with small_disk(folder):
            return True
    except OSError:
        return False


class ActAfter(Observer):
    """Acts once, after a number of events."""

    def __init__(self, events: int, act: Callable[[], None]) -> None:
        self._left, self._act = events, act

    def _count(self, *_: object) -> None:
        self._left -= 1
        if self._left == 0:
            self._act()

    on_interval = on_checkpoint = on_run_end = _count


def fill_disks(bench: Bench, folder: Path, cases: Sequence[tuple[int, int]]) -> Iterator[Trial]:
    """Fill a disk after a number of events, except for some pages; resume once there is space again."""
    for number, (event, pages) in enumerate(cases):
        with small_disk(folder / f"disk-{number}") as disk:
            out = disk / "run"
            filling = ActAfter(event, lambda disk=disk, pages=pages: _fill(disk, pages))
            problems, details = _try_run(bench, out, [filling])
            (disk / "rubbish").unlink(missing_ok=True)
            trial = compare(f"full at event {event} but for {pages} pages", bench.expected, bench.finish(out), problems)
            yield trial._replace(details=trial.details or details)


def limit_file_sizes(bench: Bench, sizes: Sequence[int]) -> Iterator[Trial]:
    """Limit the size of files after some events; the size determines which file fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for size in sizes:
        out = bench.new_out()
        limiting = ActAfter(6, lambda size=size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard)))
        try:
            problems, details = _try_run(bench, out, [limiting])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        trial = compare(f"files of {size} bytes at the most", bench.expected, bench.finish(out), problems)
        yield trial._replace(details=trial.details or details)


def make_directories_read_only(bench: Bench, folder: Path, events: Sequence[int]) -> Iterator[Trial]:
    """Make a run directory read-only after a number of events, or before the start."""
    for number, event in enumerate(events):
        with small_disk(folder / f"disk-{number}") as disk:
            out = disk / "run"
            out.mkdir()
            mounts: list[Any] = []

            def make_read_only(out: Path = out, mounts: list[Any] = mounts) -> None:
                mounts.append(read_only(out))
                mounts[0].__enter__()

            if not event:
                make_read_only()
            problems, details = _try_run(bench, out, [ActAfter(event, make_read_only)])
            if not event and "cannot be written" not in details:
                problems.append(f"unexpected message: {details}")
            for mount in mounts:
                mount.__exit__(None, None, None)
            trial = compare(f"read-only from event {event} on", bench.expected, bench.finish(out), problems)
            yield trial._replace(details=trial.details or details)


def limit_file_sizes_of_command(lab: Lab, bench: Bench, size: int = 1500) -> Trial:
    """Limit the file sizes of a running command: it must exit with a one-line error."""
    out = lab.new_out()
    process = lab.begin(out)
    process.wait_for(lambda: bool(list(out.glob("checkpoints/*.checkpoint"))))
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, size))
    ended = process.wait()
    problems = list(ended.problems)
    errors = [line for line in ended.err.splitlines() if line.startswith("error:")]
    if ended.code != 2 or len(errors) != 1 or f"tfsm run --resume {out}" not in errors[0]:
        problems.append(f"exit code {ended.code}: {ended.err}")
    return compare("a command whose files may not grow", bench.expected, bench.finish(out), problems)


def run_without_write_permission(lab: Lab) -> Trial:
    """Run a command in a directory that it may not write to; root loses that capability first."""
    out = lab.root / "not-yours"
    out.mkdir(mode=0o555)
    arguments = ["run", "fragile", "--mutation", "control", *flags(), "--out", str(out / "x")]
    ended = lab.start(*arguments, wrapper=() if os.geteuid() else _WITHOUT_RIGHTS).wait()
    errors = ended.err.strip().splitlines()
    fine = ended.code == 2 and len(errors) == 1 and "Permission denied" in errors[0]
    return Trial("no right to write", fine and not any(out.iterdir()), 0, "" if fine else ended.err)


def _try_run(bench: Bench, out: Path, observers: list[Any]) -> tuple[list[str], str]:
    """Run an experiment; return its problems, and the messages to the user."""
    try:
        bench.run(out, observers=observers)
    except TfsmError as error:
        details = str(error)
        return (["more than one line"] if "\n" in details else []), "; ".join(
            [f"{_describe_failed_write(error)}: {details}", *bench.messages]
        )
    except Exception as error:
        return [f"{type(error).__name__}: {error}"], ""
    return [], "; ".join(bench.messages)


def _describe_failed_write(error: BaseException) -> str:
    """Return which file could not be written."""
    frames = traceback.extract_tb(error.__cause__.__traceback__) if error.__cause__ else []
    names, files = {frame.name for frame in frames}, {Path(frame.filename).name for frame in frames}
    for function, what in {"_write_record": "record", "save_model": "champion"}.items():
        if function in names:
            return what
    if "on_run_end" in names:
        return "snapshots"
    if "on_interval" in names:
        return "snapshot" if "behavior_log.py" in files else "log"
    return "directory"


def _fill(disk: Path, pages: int) -> None:
    with (disk / "rubbish").open("wb", buffering=0) as rubbish:
        try:
            while True:
                rubbish.write(b"x" * PAGE)
        except OSError:
            size = rubbish.tell() - pages * PAGE
            rubbish.truncate(max(0, size))


def _mount(*arguments: str) -> None:
    if os.geteuid():
        raise PermissionError("only root can mount")
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise PermissionError(done.stderr)


def contend_for_lock(lab: Lab, bench: Bench) -> Iterator[Trial]:
    """Start a second process in the same directory; then kill the first, which must release its lock."""
    out = lab.new_out()
    first = lab.begin(out)
    first.wait_for(lambda: bool(list(out.glob("checkpoints/*.checkpoint"))))
    problems = [] if is_locked(out) else ["the directory does not look locked"]
    try:
        bench.run(out)
        problems.append("the second process was not rejected")
    except TfsmError as error:
        if "in use by another process" not in str(error) or "\n" in str(error):
            problems.append(f"unexpected message of the second process: {error}")
    ended = first.wait()
    if ended.code:
        problems.append(f"the first process exited with {ended.code}: {ended.err}")
    yield compare("a second process", bench.expected, bench.finish(out), problems)

    out = lab.new_out()
    first = lab.begin(out)
    first.wait_for(lambda: bool(list(out.glob("checkpoints/*.checkpoint"))))
    first.kill()
    problems = ["the lock of a dead process is still held"] if is_locked(out) else []
    yield compare("a lock of a dead process", bench.expected, bench.finish(out), problems)


@contextmanager
def clock_running_backwards() -> Iterator[None]:
    """Turn back the clock of this process by an hour at each reading."""
    readings = [0]

    def advance() -> timedelta:
        readings[0] += 1
        return timedelta(hours=readings[0])

    class Backwards(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:
            return datetime(2026, 1, 1, tzinfo=UTC) - advance()

    def clock() -> float:
        return 1.7e9 - advance().total_seconds()

    with (
        patch("tfsm.runs.records.datetime", Backwards),
        patch("tfsm.runs.directory.datetime", Backwards),
        patch.object(time, "time", clock),
    ):
        yield
    assert readings[0], "the clock was never read"


def run_clock_backwards(bench: Bench) -> Iterator[Trial]:
    """Run the clock backwards during an experiment, and while one is resumed."""
    with clock_running_backwards():
        out = bench.new_out()
        yield compare("backwards from the start", bench.expected, bench.finish(out))
    killed = make_killed_experiment(bench)
    with clock_running_backwards():
        yield compare("backwards after a kill", bench.expected, bench.finish(killed))


def run_clock_backwards_with_timed_checkpoints(bench: Bench) -> Iterator[Trial]:
    """Run the clock backwards while checkpoints are written at time intervals."""
    out = bench.new_out()
    with clock_running_backwards():
        bench.run(out, checkpoint_every="0.01s")
    yield compare("backwards, with checkpoints by the clock", bench.expected, bench.finish(out))
