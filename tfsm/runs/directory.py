"""Write a run directory: `run.json`, `metrics.jsonl`, champions, behavior and copies of input files."""

from __future__ import annotations

import itertools
import json
import math
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tfsm import __version__
from tfsm.errors import TfsmError
from tfsm.evolution.batches import Batches, LogIntervals
from tfsm.evolution.observers import Interval, RunResult
from tfsm.interfaces import Observer
from tfsm.models.network import Network
from tfsm.runs.behavior_log import BehaviorFiles
from tfsm.runs.records import LOCK, METRICS, ORDER, RECORD, behavior_file, read_record, timestamp
from tfsm.settings import ResolvedSettings
from tfsm.utils.files import atomic_write, back_up, flush_to_disk, is_temporary, write_json, write_text


class MetricsFile:
    """Appends to `metrics.jsonl`, which may exist already.

    Lines that are in the file are not written again: a run that resumes from a checkpoint repeats what came after it.
    An incomplete last line is removed.

    Args:
        directory: the run directory.
        notify: receives a message if the file is damaged; then a copy of it is kept.
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
        damaged = len(parts) - 1 - len(lines)
        if damaged:
            copy = back_up(self._file, "damaged", copy=True)
            notify(f"{self._file}: {damaged} damaged lines were removed; the original is kept as {copy.name}")
        if content and (parts[-1] or damaged):
            write_text(self._file, b"".join(line + b"\n" for line in lines).decode())
        self._opened = self._file.open("a", encoding="utf-8")

    @property
    def known(self) -> frozenset[tuple[int, int]]:
        """The run and the number of evaluations of each line."""
        return frozenset(self._known)

    def add(self, metrics: Mapping[str, Any]) -> None:
        """Append a line unless it is known, and flush it, so that a killed process loses nothing."""
        if _key(metrics) not in self._known:
            self._opened.write(json.dumps(metrics) + "\n")
            self._opened.flush()
            self._known.add(_key(metrics))

    def rewind(self, evaluations: Mapping[int, int]) -> None:
        """Remove the lines beyond a run's given number of evaluations."""
        dropped = {(run, number) for run, number in self._known if number > evaluations.get(run, math.inf)}
        if not dropped:
            return
        self.close()
        lines = self._file.read_text(encoding="utf-8").splitlines(keepends=True)
        write_text(self._file, "".join(line for line in lines if _key(json.loads(line)) not in dropped))
        self._known -= dropped
        self._opened = self._file.open("a", encoding="utf-8")

    def sync(self) -> None:
        """Bring all lines to the disk, so that a power cut loses nothing."""
        os.fsync(self._opened.fileno())

    def close(self) -> None:
        """Close the file."""
        self._opened.close()

    def sort(self, intervals: LogIntervals) -> None:
        """Close and sort the file of a finished experiment; it is the same however often the experiment was resumed.

        A run that was interrupted between two intervals has a line that an uninterrupted run does not have. It is
        removed, since the next line covers it.
        """
        self.close()
        lines = [json.loads(line) for line in self._file.read_text(encoding="utf-8").splitlines()]
        last: dict[int, int] = {}
        for line in lines:
            last[line["run"]] = max(line["evaluations"], last.get(line["run"], 0))
        lines = [line for line in lines if line["evaluations"] in intervals or line["evaluations"] == last[line["run"]]]
        lines.sort(key=lambda line: (line["evaluations"], line["run"]))
        write_text(self._file, "".join(json.dumps(line) + "\n" for line in lines))


def _key(line: Mapping[str, Any]) -> tuple[int, int]:
    return int(line["run"]), int(line["evaluations"])


CHAMPIONS = "champions"
INPUTS = "inputs"


class RunDirectory(Observer):
    """Writes a run directory as an observer of its runs; an existing one is continued.

    Args:
        path: the directory, which exists.
        resolved: the settings and their sources.
        network: the network that champions are saved with.
        command: the command line, for the record.
        plan: how the run is compiled, for the record.
        objects: descriptions of ready-made parts and of the user's model, for the record.
        files: files that options of the domain name; they are copied.
        batches: the children that runs ask for at once.
        notify: receives messages for the user.
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
        batches: Batches,
        notify: Callable[[str], None] = lambda message: None,
    ) -> None:
        self.path, self._notify = path, notify
        self._network = network
        self._intervals = LogIntervals(resolved.settings.log_every, batches)
        self._behavior = BehaviorFiles(path, self._intervals)
        self._previous: dict[str, Any] = {}
        """The record as it was found, until something has changed."""
        with explain_write_errors(path):
            if (path / RECORD).is_file():
                self._record = read_record(path)
                self._previous = dict(self._record)
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
                "settings": resolved.settings.as_record(),
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
        """The run and the number of evaluations of each interval that is in the log."""
        return self._metrics.known

    def is_complete(self, run: int, evaluations: int, ended: bool) -> bool:
        """Say whether the log has all intervals of a run up to some evaluations, with its end if it has ended."""
        known: Set[tuple[int, int]] = self._metrics.known
        if self._behavior.known:
            known = known & self._behavior.known
        expected = [*self._intervals.until(evaluations), *([evaluations] if ended else [])]
        return all((run, number) in known for number in expected)

    def rewind(self, evaluations: Mapping[int, int]) -> None:
        """Remove what was logged beyond a run's given number of evaluations, because it will come out differently.

        The files of runs that had ended are backed up: their results may never be found again.
        """
        with explain_write_errors(self.path):
            ended = [run for run in self._record["runs"] if run["evaluations"] > evaluations.get(run["run"], math.inf)]
            if ended:
                self._back_up([run["run"] for run in ended])
            self._metrics.rewind(evaluations)
            self._behavior.rewind(evaluations)
            self._record["runs"] = [run for run in self._record["runs"] if run not in ended]
            self._write_record()

    def on_interval(self, interval: Interval) -> None:
        """Append the run's line to the log, and save the population's behavior."""
        self._previous = {}
        with explain_write_errors(self.path):
            self._metrics.add(interval.metrics)
            if interval.population is not None:
                self._behavior.add(interval.population)

    def on_run_end(self, result: RunResult) -> None:
        """Save the population's behavior and the champion, then record the result."""
        self._previous = {}
        file = champion_file(self.path, result.run)
        with explain_write_errors(self.path):
            self._behavior.finish(result.run)
            with atomic_write(file) as temporary:
                self._network.child(result.champion).save(temporary)
            others = [run for run in self._record["runs"] if run["run"] != result.run]
            summary = {**result.summary(), "champion": str(file.relative_to(self.path))}
            self._record["runs"] = sorted([*others, summary], key=lambda run: run["run"])
            self._write_record()

    def sync(self) -> None:
        """Bring everything to the disk: a run that resumes from a checkpoint reports only what comes after it."""
        self._metrics.sync()
        self._behavior.sync()
        flush_to_disk(self.path)

    def close(self, status: str, error: str | None = None) -> None:
        """Record how the experiment ended: `finished`, `interrupted` or `failed`."""
        with explain_write_errors(self.path):
            try:
                self._behavior.finish_all()
                if status == "finished":
                    self._metrics.sort(self._intervals)
            finally:
                self._metrics.close()
            if status == "failed":  # before anything was added: the settings did not take effect
                self._record |= {key: self._previous[key] for key in ("settings", "plan") if key in self._previous}
            self._record |= {"status": status, "ended": timestamp()}
            if error is not None:
                self._record["error"] = error
            self._write_record()

    def _back_up(self, runs: list[int]) -> None:
        files = [self.path / name for name in (METRICS, ORDER)]
        files += [file for run in runs for file in (champion_file(self.path, run), behavior_file(self.path, run))]
        backups = [back_up(file, "before", copy=True).name for file in files if file.is_file()]
        self._notify(
            f"warning: {self.path}: no checkpoint has the results of runs {', '.join(map(str, runs))}, so they are "
            f"evolved again and will differ; the old results are kept as {', '.join(backups)}"
        )

    def _write_record(self) -> None:
        write_json(self.path / RECORD, self._record)


class WriteError(TfsmError):
    """An event could not be recorded; the experiment can be resumed from the last checkpoint only."""


@contextmanager
def explain_write_errors(directory: Path) -> Iterator[None]:
    """Turn an `OSError` into a `WriteError` that says how to resume: nothing up to the last checkpoint is lost."""
    try:
        yield
    except OSError as error:
        raise WriteError(
            f"{error.filename or directory}: cannot be written: {error.strerror or error}; fix that, then "
            f"resume with: tfsm run --resume {directory}"
        ) from error


def _copy_inputs(files: Mapping[str, Path], folder: Path) -> dict[str, str]:
    """Copy files into a folder of the run directory; return their relative paths."""
    for option, file in files.items():
        folder.mkdir(exist_ok=True)
        shutil.copyfile(file, folder / f"{option}{file.suffix}")
    return {option: f"{folder.name}/{option}{file.suffix}" for option, file in files.items()}


def champion_file(directory: Path, run: int) -> Path:
    """Return the file of a run's champion."""
    return directory / CHAMPIONS / f"run-{run:03d}.keras"


def check_free(directory: Path | None) -> None:
    """Raise a `TfsmError` if a directory exists and is not empty."""
    if directory is None or not directory.exists():
        return
    # A process that was killed before it wrote the record leaves no more than this.
    if not directory.is_dir() or any(path.name != LOCK and not is_temporary(path) for path in directory.iterdir()):
        raise directory_taken_error(directory)


def directory_taken_error(path: Path) -> TfsmError:
    """Return the error for a directory that is not empty."""
    hint = f", or continue it with --resume {path}" if (path / RECORD).is_file() else ""
    return TfsmError(f"{path}: already exists, and tfsm never overwrites a run: choose another --out{hint}")


def claim(directory: Path | None, name: str) -> Path:
    """Create a directory for exclusive use, and return it.

    Args:
        directory: the user's choice, which must be empty if it exists; None: a new one below `runs`.
        name: the beginning of the name of a new one; the time follows.
    """
    check_free(directory)
    try:
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)
            return directory
        base = Path("runs") / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
        base.parent.mkdir(exist_ok=True)
        for count in itertools.count(1):
            path = base if count == 1 else base.with_name(f"{base.name}-{count}")
            # Only creating it makes sure that it is ours: another run may start in the same second.
            with suppress(FileExistsError):
                path.mkdir()
                return path
    except OSError as error:
        raise TfsmError(f"{directory or 'runs'}: cannot create the run directory: {error.strerror}") from error
    raise AssertionError("unreachable: the numbers do not end")


def collect_versions() -> dict[str, str]:
    """Return the versions of everything that results may depend on."""
    versions = {"python": platform.python_version(), "platform": platform.platform(), "tfsm": __version__}
    for package in ("tensorflow", "keras", "numpy"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = getattr(sys.modules.get(package), "__version__", "unknown")
    return versions
