"""Disks that are full, files that may not grow, folders that cannot be written to."""

from __future__ import annotations

import os
import resource
import subprocess
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.faults.bench import Bench
from tests.faults.lab import Lab, flags
from tests.faults.trial import Trial, compared
from tfsm.errors import TfsmError

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


class At:
    """An observer that does something, once, when so many events were heard."""

    def __init__(self, number: int, do: Callable[[], None]) -> None:
        self._left, self._do = number, do

    def __getattr__(self, event: str) -> Any:
        if event not in ("interval", "population", "best", "finished", "progress"):
            raise AttributeError(event)
        return self._hear

    def _hear(self, *told: Any) -> None:
        self._left -= 1
        if self._left == 0:
            self._do()


def full_disks(bench: Bench, folder: Path, cases: Sequence[tuple[int, int]]) -> Iterator[Trial]:
    """Fill a disk when so many events were heard, but for so many pages; go on when there is room again."""
    for number, (event, pages) in enumerate(cases):
        with small_disk(folder / f"disk-{number}") as disk:
            out = disk / "run"
            filling = At(event, lambda disk=disk, pages=pages: _fill(disk, pages))
            problems, words = _tried(bench, out, [filling])
            (disk / "rubbish").unlink(missing_ok=True)
            trial = compared(f"full at event {event} but for {pages} pages", bench.expected, bench.final(out), problems)
            yield trial._replace(words=trial.words or words)


def limited_files(bench: Bench, sizes: Sequence[int]) -> Iterator[Trial]:
    """Let no file grow beyond a size from some time on, which of the files that stops depends on the size."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for size in sizes:
        out = bench.out()
        limiting = At(6, lambda size=size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard)))
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
            problems, words = _tried(bench, out, [At(event, lock)])
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
    names = {frame.name for frame in traceback.extract_tb(error.__cause__.__traceback__)} if error.__cause__ else set()
    for function, what in {"interval": "log", "population": "snapshot", "_write_record": "record"}.items():
        if function in names:
            return what
    if "finished" in names:
        return "champion" if "save_model" in names else "snapshots"
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
