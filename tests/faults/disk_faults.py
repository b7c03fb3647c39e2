"""Files that are not as they were written: torn, changed, swapped, left behind."""

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

from tests.faults.lab import Bench, Lab, Trial, compared, flags
from tfsm.errors import TfsmError
from tfsm.evolution.checkpoint import pack_checkpoint, read_checkpoint
from tfsm.interfaces import Observer
from tfsm.runs.records import is_locked

Change: TypeAlias = Callable[[bytes], bytes]
LEFT: Final = 80


def left_experiment(bench: Bench) -> Path:
    """Return an experiment that was killed half-way: two checkpoints, a log, and snapshots in parts."""
    out = bench.out()

    class Killed(BaseException):
        pass

    def stop() -> bool:
        if any(f"-at-{LEFT:09d}" in file.name for file in checkpoints(out)):
            # What a process leaves that is killed now is what is there at this moment.
            shutil.copytree(out, out.with_suffix(".left"))
            raise Killed
        return False

    try:
        bench.run(out, stop=stop)
    except Killed:
        return out.with_suffix(".left")
    raise AssertionError("it ended before")


def changes(content: bytes, count: int, *, flips: bool = True) -> dict[str, Change]:
    """Return ways to damage a file, at so many places of it each; single bits only where there is a digest."""
    places = sorted({len(content) * k // count for k in range(count)} | {len(content) - 1})
    found: dict[str, Change] = {"emptied": lambda old: b"", "with bytes appended": lambda old: old + b"\0" * 100}
    for place in places:
        if flips:
            found[f"with a bit flipped at {place}"] = lambda old, at=place: _flipped(old, at)
        found[f"with zeros from {place}"] = lambda old, at=place: _zeroed(old, at)
        found[f"cut off at {place}"] = lambda old, at=place: old[:at]
    return found


def damaged_checkpoints(bench: Bench, left: Path, count: int) -> Iterator[Trial]:
    """Damage the newest checkpoint in many ways, each time going on from the one before.

    Args:
        bench: where.
        left: an experiment to go on with.
        count: of places in the file.
    """
    newest = checkpoints(left)[-1].name
    ways = changes((left / "checkpoints" / newest).read_bytes(), count)
    foreign = _foreign(checkpoints(left)[-1])
    ways |= {"of another experiment": lambda old: foreign, "of a newer format": newer}
    for what, change in ways.items():
        out = _copied(bench, left)
        file = out / "checkpoints" / newest
        content = change(file.read_bytes())
        if content == file.read_bytes():
            continue  # zeros that were zeros
        file.write_bytes(content)
        found = bench.final(out)
        heard = [line for line in bench.heard if newest in line]
        problems = [] if len(heard) == 1 else [f"{len(heard)} warnings: {bench.heard}"]
        kept = [path for path in (out / "checkpoints").iterdir() if path.read_bytes() == content]
        yield compared(what, bench.expected, found, problems + ([] if kept else ["the damaged file is gone"]))
    yield _renamed(bench, left)


def _renamed(bench: Bench, left: Path) -> Trial:
    """Let both checkpoints say that they are of other runs."""
    out = _copied(bench, left)
    for file in checkpoints(out):
        file.rename(file.with_name(file.name.replace("run-000-002", "run-000-001")))
    found = bench.final(out)
    problems = [] if any("renamed" in line for line in bench.heard) else [f"not told: {bench.heard}"]
    return compared("renamed to other runs", bench.expected, found, problems)


def all_damaged(bench: Bench, left: Path) -> Trial:
    """Damage all checkpoints: it begins again."""
    out = _copied(bench, left)
    for file in checkpoints(out):
        file.write_bytes(file.read_bytes()[:-1])
    return compared("all of them cut off", bench.expected, bench.final(out))


def damaged_logs(bench: Bench, left: Path, count: int) -> Iterator[Trial]:
    """Damage the log in many ways."""
    ways = changes((left / "metrics.jsonl").read_bytes(), count, flips=False)
    ways["followed by zeros that were never written"] = lambda old: old + b"\0" * 4096
    ways["with a torn last line"] = lambda old: old[:-20]
    ways["without its first line"] = lambda old: old[old.index(b"\n") + 1 :]
    ways["with a torn line among the others"] = lambda old: old[:40] + old[90:]
    ways["with a line twice"] = lambda old: old + old[: old.index(b"\n") + 1]
    for what, change in ways.items():
        out = _copied(bench, left)
        log = out / "metrics.jsonl"
        log.write_bytes(change(log.read_bytes()))
        yield compared(f"the log {what}", bench.expected, bench.final(out))


def damaged_snapshots(bench: Bench, left: Path, count: int) -> Iterator[Trial]:
    """Damage the file of snapshots of a run that has not ended."""
    parts = sorted(left.glob("behavior/.run-*.parts"))[-1]
    for what, change in changes(parts.read_bytes(), count).items():
        out = _copied(bench, left)
        file = out / parts.relative_to(left)
        file.write_bytes(change(file.read_bytes()))
        yield compared(f"snapshots {what}", bench.expected, bench.final(out))


def left_drafts(bench: Bench, left: Path) -> Iterator[Trial]:
    """Leave drafts behind, as somebody does who is killed while writing."""
    names = (
        ".run.json.part.json",
        ".metrics.jsonl.part.jsonl",
        "champions/.run-000.keras.part.keras",
        "behavior/.run-000.npz.part.npz",
        "checkpoints/.run-000-002-at-000000083.checkpoint.part.checkpoint",
    )
    for name in names:
        out = _copied(bench, left)
        (out / name).write_text('{"half": ')
        yield compared(f"a draft {name}", bench.expected, bench.final(out))


def checkpoints(directory: Path) -> list[Path]:
    """Return the checkpoints of a directory, the newest last."""
    return sorted((directory / "checkpoints").glob("*.checkpoint"))


def newer(content: bytes) -> bytes:
    """Return a checkpoint that says that it is of a newer format, with the right digest."""
    body = content[:16] + struct.pack("<I", 99) + content[20:-32]
    return body + hashlib.sha256(body).digest()


def _foreign(file: Path) -> bytes:
    """Return what another experiment, with other settings, would have written."""
    saved, about = read_checkpoint(file)
    return pack_checkpoint(saved, about | {"experiment": "another"})


def _flipped(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


def _zeroed(content: bytes, at: int) -> bytes:
    length = min(64, len(content) - at)
    return content[:at] + b"\0" * length + content[at + length :]


def _copied(bench: Bench, left: Path) -> Path:
    out = bench.out()
    shutil.copytree(left, out)
    return out


PAGE: Final = 4096
_SIZE: Final = "1m"
_WITHOUT_RIGHTS: Final = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """Mount a small disk in memory; an `OSError` where that is not allowed."""
    folder.mkdir(parents=True)
    _mount("-t", "tmpfs", "-o", f"size={_SIZE}", "none", str(folder))
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Let nothing be opened for writing below a folder; what is open stays so."""
    _mount("--bind", str(folder), str(folder))
    try:
        _mount("-o", "remount,ro,bind", str(folder))
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def can_mount(folder: Path) -> bool:
    """Say whether this process may mount something."""
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


def full_disks(bench: Bench, folder: Path, cases: Sequence[tuple[int, int]]) -> Iterator[Trial]:
    """Fill a disk when so many events were heard, but for so many pages; go on when there is room again."""
    for number, (event, pages) in enumerate(cases):
        with small_disk(folder / f"disk-{number}") as disk:
            out = disk / "run"
            filling = ActAfter(event, lambda disk=disk, pages=pages: _fill(disk, pages))
            problems, words = _tried(bench, out, [filling])
            (disk / "rubbish").unlink(missing_ok=True)
            trial = compared(f"full at event {event} but for {pages} pages", bench.expected, bench.final(out), problems)
            yield trial._replace(words=trial.words or words)


def limited_files(bench: Bench, sizes: Sequence[int]) -> Iterator[Trial]:
    """Let no file grow beyond a size from some time on, which of the files that stops depends on the size."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for size in sizes:
        out = bench.out()
        limiting = ActAfter(6, lambda size=size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard)))
        try:
            problems, words = _tried(bench, out, [limiting])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        trial = compared(f"files of {size} bytes at the most", bench.expected, bench.final(out), problems)
        yield trial._replace(words=trial.words or words)


def read_only_folders(bench: Bench, folder: Path, events: Sequence[int]) -> Iterator[Trial]:
    """Let a run directory become read-only when so many events were heard, and before the start."""
    for number, event in enumerate(events):
        with small_disk(folder / f"disk-{number}") as disk:
            out = disk / "run"
            out.mkdir()
            held: list[Any] = []

            def lock(out: Path = out, held: list[Any] = held) -> None:
                held.append(read_only(out))
                held[0].__enter__()

            if not event:
                lock()
            problems, words = _tried(bench, out, [ActAfter(event, lock)])
            if not event and "cannot be written" not in words:
                problems.append(f"it was told: {words}")
            for one in held:
                one.__exit__(None, None, None)
            trial = compared(f"read-only from event {event} on", bench.expected, bench.final(out), problems)
            yield trial._replace(words=trial.words or words)


def limited_command(lab: Lab, bench: Bench, size: int = 1500) -> Trial:
    """Let the files of a command not grow any more: it ends with one line."""
    out = lab.out()
    process = lab.begin(out)
    process.wait_for(lambda: bool(list(out.glob("checkpoints/*.checkpoint"))))
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, size))
    ended = process.end()
    problems = list(ended.problems)
    told = [line for line in ended.err.splitlines() if line.startswith("error:")]
    if ended.code != 2 or len(told) != 1 or f"tfsm run --resume {out}" not in told[0]:
        problems.append(f"exit code {ended.code}: {ended.err}")
    return compared("a command whose files may not grow", bench.expected, bench.final(out), problems)


def without_rights(lab: Lab) -> Trial:
    """Run a command where it may not write; root may everywhere, unless that right is taken away."""
    out = lab.root / "not-yours"
    out.mkdir(mode=0o555)
    arguments = ["run", "fragile", "--mutation", "control", *flags(), "--out", str(out / "x")]
    ended = lab.start(*arguments, through=() if os.geteuid() else _WITHOUT_RIGHTS).end()
    told = ended.err.strip().splitlines()
    fine = ended.code == 2 and len(told) == 1 and "Permission denied" in told[0]
    return Trial("no right to write", fine and not any(out.iterdir()), 0, "" if fine else ended.err)


def _tried(bench: Bench, out: Path, observers: list[Any]) -> tuple[list[str], str]:
    """Run, and return what was wrong, and what the user was told."""
    try:
        bench.run(out, observers=observers)
    except TfsmError as error:
        words = str(error)
        return (["more than one line"] if "\n" in words else []), "; ".join(
            [f"{_written(error)}: {words}", *bench.heard]
        )
    except Exception as error:
        return [f"{type(error).__name__}: {error}"], ""
    return [], "; ".join(bench.heard)


def _written(error: BaseException) -> str:
    """Return what could not be written."""
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


def locks(lab: Lab, bench: Bench) -> Iterator[Trial]:
    """Let a second process in while one is at work; then kill the first, whose lock must not hold any longer."""
    out = lab.out()
    first = lab.begin(out)
    first.wait_for(lambda: bool(list(out.glob("checkpoints/*.checkpoint"))))
    problems = [] if is_locked(out) else ["it does not look as if somebody were at work"]
    try:
        bench.run(out)
        problems.append("the second was let in")
    except TfsmError as error:
        if "in use by another process" not in str(error) or "\n" in str(error):
            problems.append(f"the second was told: {error}")
    ended = first.end()
    if ended.code:
        problems.append(f"the first ended with {ended.code}: {ended.err}")
    yield compared("a second process", bench.expected, bench.final(out), problems)

    out = lab.out()
    first = lab.begin(out)
    first.wait_for(lambda: bool(list(out.glob("checkpoints/*.checkpoint"))))
    first.kill()
    problems = ["the lock of a dead process holds"] if is_locked(out) else []
    yield compared("a lock of a dead process", bench.expected, bench.final(out), problems)


@contextmanager
def backwards() -> Iterator[None]:
    """Let the time of day, of this process alone, go back by an hour each time that somebody asks."""
    asked = [0]

    def earlier() -> timedelta:
        asked[0] += 1
        return timedelta(hours=asked[0])

    class Backwards(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:
            return datetime(2026, 1, 1, tzinfo=UTC) - earlier()

    def clock() -> float:
        return 1.7e9 - earlier().total_seconds()

    with (
        patch("tfsm.runs.records.datetime", Backwards),
        patch("tfsm.runs.directory.datetime", Backwards),
        patch.object(time, "time", clock),
    ):
        yield
    assert asked[0], "nobody has looked at the clock"


def clocks(bench: Bench) -> Iterator[Trial]:
    """Let the clock go backwards during an experiment, and while one is gone on with."""
    with backwards():
        out = bench.out()
        yield compared("backwards from the start", bench.expected, bench.final(out))
    left = left_experiment(bench)
    with backwards():
        yield compared("backwards after a kill", bench.expected, bench.final(left))


def clocks_with_cadence(bench: Bench) -> Iterator[Trial]:
    """Let it go backwards where checkpoints are made by the clock."""
    out = bench.out()
    with backwards():
        bench.run(out, checkpoint_every="0.01s")
    yield compared("backwards, with checkpoints by the clock", bench.expected, bench.final(out))
