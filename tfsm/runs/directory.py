"""RunDirectory (writer)."""

from __future__ import annotations

import itertools
import json
import math
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tfsm.errors import TfsmError
from tfsm.evolution.lockstep_loop import LogIntervals
from tfsm.evolution.observers import Interval, RunResult
from tfsm.interfaces import Observer
from tfsm.models.network import Network
from tfsm.runs.behavior_log import BehaviorFiles
from tfsm.runs.records import (
    LOCK,
    METRICS,
    ORDER,
    RECORD,
    behavior_file,
    read_record,
    timestamp,
    write_json,
    write_text,
)
from tfsm.settings import ResolvedSettings
from tfsm.utils.atomic import atomic_write, back_up, flush_to_disk, is_temporary


class MetricsFile:
    """Adds to the log of a directory, which may be there already.

    A line that was there before is not written again: a run that goes on from a checkpoint tells once more what it has
    told since. A last line that was never finished is taken off.

    Args:
        directory: the run directory.
        notify: told if the log was damaged; then a copy of it is kept.
    """

    def __init__(self, directory: Path, notify: Callable[[str], None] = lambda message: None) -> None:
        self._file = directory / METRICS
        content = self._file.read_bytes() if self._file.is_file() else b""
        lines: list[bytes] = []
        self._known: set[tuple[int, int]] = set()
        parts = content.split(b"\n")
        for part in parts[:-1]:
            try:
                key = _key(json.loads(part))
                if key not in self._known:
                    self._known.add(key)
                    lines.append(part)
            except (ValueError, KeyError, TypeError, RecursionError):
                continue
        if len(lines) < len(parts) - 1:
            copy = back_up(self._file, "damaged", copy=True)
            notify(f"{self._file}: {len(parts) - 1 - len(lines)} damaged lines are left out; a copy is in {copy.name}")
        if content and (parts[-1] or len(lines) < len(parts) - 1):
            write_text(self._file, b"".join(line + b"\n" for line in lines).decode())
        self._opened = self._file.open("a", encoding="utf-8")

    @property
    def known(self) -> frozenset[tuple[int, int]]:
        """The run and the number of evaluations of each line."""
        return frozenset(self._known)

    def add(self, metrics: Iterable[Mapping[str, Any]]) -> None:
        """Add the lines that are new, so that a process that is killed has lost none."""
        new = [line for line in metrics if _key(line) not in self._known]
        self._opened.writelines(json.dumps(line) + "\n" for line in new)
        self._opened.flush()
        self._known.update(map(_key, new))

    def forget(self, after: Mapping[int, int]) -> None:
        """Take back what was told of runs after so many evaluations each."""
        explain_write_errors = {key for key in self._known if key[0] in after and key[1] > after[key[0]]}
        if not explain_write_errors:
            return
        self.close()
        lines = self._file.read_text(encoding="utf-8").splitlines(keepends=True)
        write_text(self._file, "".join(line for line in lines if _key(json.loads(line)) not in explain_write_errors))
        self._known -= explain_write_errors
        self._opened = self._file.open("a", encoding="utf-8")

    def sync(self) -> None:
        """Let a power cut lose none either."""
        os.fsync(self._opened.fileno())

    def close(self) -> None:
        """Close the file."""
        self._opened.close()

    def tidy(self, intervals: LogIntervals) -> None:
        """Put the lines of a finished experiment in order: the same file, however often it was interrupted.

        Where a run was interrupted between two intervals there is a line that an uninterrupted run does not have, and
        which the next one covers.
        """
        self.close()
        lines = [json.loads(line) for line in self._file.read_text(encoding="utf-8").splitlines()]
        last: dict[int, int] = {}
        for line in lines:
            last[line["run"]] = max(line["evaluations"], last.get(line["run"], 0))
        kept = [line for line in lines if line["evaluations"] in intervals or line["evaluations"] == last[line["run"]]]
        kept.sort(key=lambda line: (line["evaluations"], line["run"]))
        write_text(self._file, "".join(json.dumps(line) + "\n" for line in kept))


def _key(line: Mapping[str, Any]) -> tuple[int, int]:
    return int(line["run"]), int(line["evaluations"])


CHAMPIONS = "champions"
INPUTS = "inputs"


class RunDirectory(Observer):
    """Writes a run directory as an observer of the run; one that is there already is gone on with.

    Args:
        path: the directory, claimed before.
        resolved: the settings and where they came from.
        network: the network, whose models champions are saved as.
        command: the command line.
        plan: how the run is compiled, for the record.
        objects: parts that came ready made, and the user's model, in words, for the record.
        files: files that options of the domain name, which are copied.
        initial_population: how many first individuals a run has.
        notify: told what the user should know.
    """

    def __init__(
        self,
        path: Path,
        resolved: ResolvedSettings,
        network: Network,
        *,
        command: list[str],
        plan: dict[str, Any],
        objects: dict[str, str],
        files: Mapping[str, Path],
        initial_population: int,
        notify: Callable[[str], None] = lambda message: None,
    ) -> None:
        self.path, self._notify = path, notify
        self._network = network
        self._intervals = LogIntervals(resolved.settings.log_every, initial_population)
        self._behavior = BehaviorFiles(path, self._intervals)
        again = (path / RECORD).is_file()
        self._before: dict[str, Any] = {}
        """What was on record before, until something has happened since."""
        with explain_write_errors(path):
            if again:
                self._record = read_record(path)
                self._before = dict(self._record)
                self._record.setdefault("resumed", []).append({"at": timestamp(), "command": command})
                self._behavior.reopen()
            else:
                self._record = {
                    "command": command,
                    "started": timestamp(),
                    "inputs": _copy_inputs(files, path / INPUTS),
                }
            self._record |= {
                "status": "running",
                "ended": None,
                "process": os.getpid(),
                "seed": resolved.settings.seed,
                "settings": resolved.settings.as_dict(),
                "sources": resolved.sources,
                "objects": objects,
                "plan": plan,
                "versions": collect_versions(),
            }
            self._record.pop("error", None)
            self._record.setdefault("runs", [])
            self._write_record()
            (path / CHAMPIONS).mkdir(exist_ok=True)
            self._metrics = MetricsFile(path, notify)

    @property
    def known(self) -> frozenset[tuple[int, int]]:
        """The run and the number of evaluations of all that was told before."""
        return self._metrics.known

    def is_whole(self, run: int, until: int, ended: bool) -> bool:
        """Say whether log and snapshots tell of all intervals of a run up to so many evaluations, its end included."""
        known: Set[tuple[int, int]] = self._metrics.known
        if self._behavior.known:
            known = known & self._behavior.known
        return all((run, number) in known for number in [*self._intervals.until(until), *([until] if ended else [])])

    def forget(self, after: Mapping[int, int]) -> None:
        """Take back what was told of runs after so many evaluations each: it will happen otherwise.

        What is taken back of runs that had come to their end is put aside: nobody may ever find it again.
        """
        with explain_write_errors(self.path):
            ended = [run for run in self._record["runs"] if run["evaluations"] > after.get(run["run"], math.inf)]
            if ended:
                self._put_aside([run["run"] for run in ended])
            self._metrics.forget(after)
            self._behavior.forget(after)
            self._record["runs"] = [run for run in self._record["runs"] if run not in ended]
            self._write_record()

    def on_interval(self, interval: Interval) -> None:
        """Append the run's line to the log, and keep the population's behavior."""
        self._before = {}
        with explain_write_errors(self.path):
            self._metrics.add([interval.metrics])
            if interval.population is not None:
                self._behavior.add(interval.population)

    def on_run_end(self, result: RunResult) -> None:
        """Save the population's behavior and the champion, then record the result."""
        self._before = {}
        file = champion_file(self.path, result.run)
        with explain_write_errors(self.path):
            self._behavior.end(result.run)
            with atomic_write(file) as draft:
                self._network.child(result.champion).save(draft)
            others = [run for run in self._record["runs"] if run["run"] != result.run]
            summary = {**result.summary(), "champion": str(file.relative_to(self.path))}
            self._record["runs"] = sorted([*others, summary], key=lambda run: run["run"])
            self._write_record()

    def sync(self) -> None:
        """Let a power cut lose nothing that was told so far: whoever goes on from a checkpoint tells only the rest."""
        self._metrics.sync()
        self._behavior.sync()
        flush_to_disk(self.path)

    def close(self, status: str, error: str | None = None) -> None:
        """Write down how it ended: `finished`, `interrupted` or `failed`."""
        with explain_write_errors(self.path):
            try:
                self._behavior.end_all()
                if status == "finished":
                    self._metrics.tidy(self._intervals)
            finally:
                self._metrics.close()
            if status == "failed":  # before anything was added: then it is what it was
                self._record |= {key: self._before[key] for key in ("settings", "plan") if key in self._before}
            self._record |= {"status": status, "ended": timestamp()}
            if error is not None:
                self._record["error"] = error
            self._write_record()

    def _put_aside(self, runs: list[int]) -> None:
        logs = [self.path / name for name in (METRICS, ORDER)]
        own = [file for run in runs for file in (champion_file(self.path, run), behavior_file(self.path, run))]
        kept = [back_up(file, "before", copy=True).name for file in [*logs, *own] if file.is_file()]
        self._notify(
            f"warning: {self.path}: no checkpoint has what runs {', '.join(map(str, runs))} ended with, so they are "
            f"evolved again, and otherwise; how they ended is kept: {', '.join(kept)}"
        )

    def _write_record(self) -> None:
        write_json(self.path / RECORD, self._record)


class WriteError(TfsmError):
    """Something that happened could not be written down: only what is on the disk already counts."""


@contextmanager
def explain_write_errors(directory: Path) -> Iterator[None]:
    """Say of a file that cannot be written how to go on: up to the last checkpoint nothing is lost."""
    try:
        yield
    except OSError as error:
        raise WriteError(
            f"{error.filename or directory}: cannot be written: {error.strerror or error}; once that is mended, go on "
            f"with: tfsm run --resume {directory}"
        ) from error


def _copy_inputs(files: Mapping[str, Path], folder: Path) -> dict[str, str]:
    """Copy files, and return where each is within the run directory."""
    for option, file in files.items():
        folder.mkdir(exist_ok=True)
        shutil.copyfile(file, folder / f"{option}{file.suffix}")
    return {option: f"{folder.name}/{option}{file.suffix}" for option, file in files.items()}


def champion_file(directory: Path, run: int) -> Path:
    """Return where a run's champion is kept."""
    return directory / CHAMPIONS / f"run-{run:03d}.keras"


def check_free(wanted: Path | None) -> None:
    """Refuse a directory that has something in it."""
    if wanted is None or not wanted.exists():
        return
    # Whoever was killed before there was a record has left no more than this.
    if not wanted.is_dir() or any(path.name != LOCK and not is_temporary(path) for path in wanted.iterdir()):
        raise directory_taken_error(wanted)


def directory_taken_error(path: Path) -> TfsmError:
    """Return the error for a directory that has something in it."""
    hint = f", or go on with it by --resume {path}" if (path / RECORD).is_file() else ""
    return TfsmError(f"{path}: already there, and an earlier run is never overwritten: choose another --out{hint}")


def claim(wanted: Path | None, name: str) -> Path:
    """Make a directory that nobody else has, and return it: the wanted one, or a new one below `runs`.

    Args:
        wanted: what the user asked for; an error if it has something in it.
        name: what to call a new one, before the time.
    """
    check_free(wanted)
    try:
        if wanted is not None:
            wanted.mkdir(parents=True, exist_ok=True)
            return wanted
        base = Path("runs") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
        base.parent.mkdir(exist_ok=True)
        for count in itertools.count(1):
            path = base if count == 1 else base.with_name(f"{base.name}-{count}")
            # Making it is the only way to be sure that it is ours: another run may start in the same second.
            with suppress(FileExistsError):
                path.mkdir()
                return path
    except OSError as error:
        raise TfsmError(f"{wanted or 'runs'}: cannot make the run directory: {error.strerror}") from error
    raise AssertionError("unreachable: the numbers do not end")


def collect_versions() -> dict[str, str]:
    """Return the versions of what a result may depend on."""
    found = {"python": platform.python_version(), "platform": platform.platform()}
    for package in ("tfsm", "tensorflow", "keras", "numpy"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = getattr(sys.modules.get(package), "__version__", "unknown")
    return found
