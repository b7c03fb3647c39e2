"""Progress of runs and studies, read from their directories while other processes write them.

Nothing is written. A reader may see a file at any moment: missing, half-written, or replaced by another one. Imports
neither NumPy nor TensorFlow until results are analyzed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from math import isfinite
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tfsm.errors import TfsmError
from tfsm.report.formatting import RateMeter
from tfsm.runs.inventory import find_directories, find_status
from tfsm.runs.records import METRICS, RECORD, STUDY, read_valid_record, read_valid_study

if TYPE_CHECKING:
    from tfsm.analysis.results import Method, Study
    from tfsm.report.findings import Findings

Number = TypeVar("Number", int, float)

ACTIVE: Final = ("starting", "running", "waiting")
"""The states of experiments that will change by themselves."""


class MetricsTail:
    """Reads `metrics.jsonl` as it grows.

    Only complete lines count, and only new ones are read. If the file was replaced, which a resumed run and the end of
    a run do, it is read from its beginning.
    """

    def __init__(self, directory: Path) -> None:
        self._file = directory / METRICS
        self._restart()

    def _restart(self) -> None:
        self._inode, self._offset, self._last_line = -1, 0, b""
        self.changed = 0.0
        """When the file was last written to, in seconds since the epoch."""
        self.lines: list[dict[str, Any]] = []
        self.latest: dict[int, dict[str, Any]] = {}
        """The line with the most evaluations of each run."""

    def read(self) -> None:
        """Read what was added since the last call."""
        try:
            with self._file.open("rb") as file:
                status = os.fstat(file.fileno())
                if not self._is_continued(file, status):
                    self._restart()
                self._inode, self.changed = status.st_ino, status.st_mtime
                file.seek(self._offset)
                content = file.read()
        except OSError:
            self._restart()
            return
        complete = content[: content.rfind(b"\n") + 1]
        self._offset += len(complete)
        for line in complete.splitlines(keepends=True):
            self._last_line = line
            self._add(line)

    def _is_continued(self, file: Any, status: os.stat_result) -> bool:
        if status.st_ino != self._inode or status.st_size < self._offset:
            return False
        # The number of a removed file may be used again.
        file.seek(self._offset - len(self._last_line))
        return bool(file.read(len(self._last_line)) == self._last_line)

    def _add(self, line: bytes) -> None:
        try:
            metrics = json.loads(line)
        except (ValueError, RecursionError):
            return
        if not isinstance(metrics, dict) or not all(_is_count(metrics.get(key)) for key in ("run", "evaluations")):
            return
        metrics["best_fitness"] = _to_finite(metrics.get("best_fitness"))
        self.lines.append(metrics)
        known = self.latest.get(metrics["run"])
        if known is None or metrics["evaluations"] >= known["evaluations"]:
            self.latest[metrics["run"]] = metrics


@dataclass(frozen=True)
class ExperimentProgress:
    """How far the runs of one experiment are."""

    name: str
    domain: str
    directory: Path
    status: str
    """`starting`, `running`, `waiting` for its turn in a study, or the status of a directory that is not in use."""
    runs: int | None = None
    ended: int = 0
    solved: int = 0
    evaluations: int = 0
    """Of all runs."""
    left: int | None = None
    """Maximum evaluations that the unfinished runs may still use."""
    best_fitness: float | None = None
    divergence: float | None = None
    """The median over runs of the divergence that each logged last."""
    rate: float | None = None
    """Evaluations per second: recently, or of a finished experiment on average."""
    problem: str = ""

    @property
    def is_active(self) -> bool:
        """Whether it will change by itself."""
        return self.status in ACTIVE

    @property
    def share(self) -> float | None:
        """The share of its maximum evaluations that are used."""
        if self.left is None:
            return None
        return self.evaluations / (self.evaluations + self.left) if self.evaluations + self.left else 1.0


@dataclass(frozen=True)
class StudyProgress:
    """The experiments on one domain."""

    id: str
    domain: str
    experiments: tuple[ExperimentProgress, ...]

    @property
    def is_active(self) -> bool:
        """Whether it will change by itself."""
        return any(experiment.is_active for experiment in self.experiments)

    @property
    def solved(self) -> int:
        """Number of solved runs."""
        return sum(experiment.solved for experiment in self.experiments)

    @property
    def runs(self) -> int:
        """Number of runs, without those of experiments whose settings are not known yet."""
        return sum(experiment.runs or 0 for experiment in self.experiments)

    @property
    def best_fitness(self) -> float | None:
        """The highest fitness of all runs."""
        return max(_known(experiment.best_fitness for experiment in self.experiments), default=None)

    @property
    def divergence(self) -> float | None:
        """The median over experiments."""
        known = _known(experiment.divergence for experiment in self.experiments)
        return median(known) if known else None

    @property
    def rate(self) -> float | None:
        """Evaluations per second of all experiments that are running."""
        known = _known(experiment.rate for experiment in self.experiments if experiment.is_active)
        return sum(known) if known else None

    @property
    def seconds_left(self) -> float | None:
        """The maximum time that is left; it is shorter if runs are solved early."""
        left = [experiment.left for experiment in self.experiments if experiment.is_active]
        if not self.rate or None in left:
            return None
        return sum(_known(left)) / self.rate


@dataclass(eq=False)
class Watcher:
    """Follows the runs and studies below a directory.

    Args:
        top: a run directory, a study, or a folder of them.
    """

    top: Path
    _tails: dict[Path, MetricsTail] = field(default_factory=dict, init=False)
    _meters: dict[Path, RateMeter] = field(default_factory=dict, init=False)
    _records: dict[Path, dict[str, Any]] = field(default_factory=dict, init=False)
    _ids: dict[str, str] = field(default_factory=dict, init=False)
    """By domain; they stay the same when other domains are added."""

    def read(self) -> list[StudyProgress]:
        """Return the progress of everything that is there now, by domain."""
        if not self.top.is_dir():
            raise TfsmError(f"{self.top}: no such directory")
        domains: dict[str, list[ExperimentProgress]] = {}
        for directory in sorted(find_directories(self.top)):
            for experiment in self._read_directory(directory):
                domains.setdefault(experiment.domain, []).append(experiment)
        for domain in domains:
            self._ids.setdefault(domain, f"study-{len(self._ids) + 1}")
        return [StudyProgress(self._ids[domain], domain, tuple(experiments)) for domain, experiments in domains.items()]

    def _read_directory(self, directory: Path) -> list[ExperimentProgress]:
        if not (directory / STUDY).is_file():
            return [self._read_run(directory, None)]
        try:
            study = read_valid_study(directory)
        except TfsmError as error:
            return [_damaged(directory, directory.name, "-", error)]
        domain = str(study.get("domain", "-"))
        status = find_status(study, directory)
        members = {directory / member["directory"]: str(member["name"]) for member in study["members"]}
        started = {path: self._read_run(path, name, domain) for path, name in members.items() if _is_run(path)}
        # Members that have not begun have the runs and evaluations of the others.
        record = next((self._records[path] for path in started if path in self._records), None)
        settings = record["settings"] if record else {}
        runs, budget = settings.get("runs"), settings.get("evaluations")
        waiting: dict[str, Any] = {
            "status": "waiting" if status == "running" else "not started",
            "runs": runs,
            "left": None if runs is None or budget is None else runs * budget,
        }
        return [
            started[path] if path in started else ExperimentProgress(name, domain, path, **waiting)
            for path, name in members.items()
        ]

    def _read_run(self, directory: Path, name: str | None, domain: str = "-") -> ExperimentProgress:
        try:
            record = read_valid_record(directory)
            status = find_status(record, directory)
            if status == "killed":  # or it ended in between
                record = read_valid_record(directory)
                status = find_status(record, directory)
        except TfsmError as error:
            return _damaged(directory, name or directory.name, domain, error)
        self._records[directory] = record
        tail = self._tails.setdefault(directory, MetricsTail(directory))
        tail.read()
        settings = record["settings"]
        results = {run["run"]: run for run in record["runs"]}
        ended = {run for run, result in results.items() if _is_complete(result, status, settings)}
        used = {run: line["evaluations"] for run, line in tail.latest.items()}
        used |= {run: max(used.get(run, 0), result["evaluations"]) for run, result in results.items()}
        runs = max(settings.get("runs", 0), len(used))
        evaluations = sum(used.values())
        active_use = sum(used[run] for run in used.keys() - ended)
        fitness = [_to_finite(result["best_fitness"]) for result in results.values()]
        divergence = _known(_to_finite(line.get("divergence")) for line in tail.latest.values())
        if status == "running" and not used:
            status = "starting"
        return ExperimentProgress(
            name=name or str(settings["mutation"]),
            domain=str(settings["domain"]),
            directory=directory,
            status=status,
            runs=runs,
            ended=len(ended),
            solved=sum(result["solved"] for result in results.values()),
            evaluations=evaluations,
            left=max(0, settings["evaluations"] * (runs - len(ended)) - active_use),
            best_fitness=max(
                _known([*fitness, *(line["best_fitness"] for line in tail.latest.values())]), default=None
            ),
            divergence=median(divergence) if divergence else None,
            rate=self._measure_rate(directory, record, status, evaluations),
            problem=str(record["error"]) if status == "failed" and record.get("error") else "",
        )

    def _measure_rate(self, directory: Path, record: Mapping[str, Any], status: str, evaluations: int) -> float | None:
        meter = self._meters.setdefault(directory, RateMeter())
        changed = self._tails[directory].changed
        if status == "running":
            rate = meter.add(changed, evaluations)
            if rate is not None:
                return rate
        elif status != "finished":
            del self._meters[directory]
            return None
        # The average, unless the run was interrupted.
        started = _to_seconds(record.get("started"))
        until = changed if status == "running" else _to_seconds(record.get("ended"))
        if record.get("resumed") or started is None or until is None or until <= started:
            return None
        return evaluations / (until - started)

    def analyze(self, study: StudyProgress) -> tuple[Findings | None, bool]:
        """Return the numbers of a report, if there are any yet, and whether they are final.

        While runs are active, and if none has ended, they count as unsolved up to now, and the budget is what was used.
        """
        from tfsm.analysis.results import load_studies
        from tfsm.report.findings import analyze_study

        if not study.is_active:
            directories = [item.directory for item in study.experiments if _is_run(item.directory)]
            for final in load_studies(directories, strict=False):
                return analyze_study(final), True
        so_far = self._load_so_far(study)
        return None if so_far is None else analyze_study(so_far), False

    def _load_so_far(self, study: StudyProgress) -> Study | None:
        from tfsm.analysis.results import Study, make_names_unique

        methods = [method for item in study.experiments if (method := self._load_method(item)) is not None]
        return Study(study.domain, make_names_unique(methods)) if methods else None

    def _load_method(self, experiment: ExperimentProgress) -> Method | None:
        from tfsm.analysis.results import Method, RunOutcome

        directory = experiment.directory
        record, tail = self._records.get(directory), self._tails.get(directory)
        if record is None or tail is None:
            return None
        outcomes = {
            run: RunOutcome(run, False, line["evaluations"], line["best_fitness"]) for run, line in tail.latest.items()
        }
        for result in record["runs"]:
            run = result["run"]
            outcomes[run] = RunOutcome(run, result["solved"], result["evaluations"], result["best_fitness"])
        used = max((outcome.evaluations for outcome in outcomes.values()), default=0)
        if not used:
            return None
        settings = record["settings"]
        ended = tuple(outcomes[run] for run in sorted(outcomes))
        return Method(experiment.name, ended, used, tuple(tail.lines), settings, record, directory)


def check_directory(directory: Path) -> None:
    """Raise a `TfsmError` unless there is something to watch."""
    if not directory.is_dir():
        raise TfsmError(f"{directory}: no such directory")
    if next(iter(find_directories(directory)), None) is None:
        raise TfsmError(f"{directory}: no runs here; start one with: tfsm run parity --mutation sm-g-sum --out DIR")


def _is_run(directory: Path) -> bool:
    return (directory / RECORD).is_file()


def _is_complete(result: Mapping[str, Any], status: str, settings: Mapping[str, Any]) -> bool:
    """Return whether a recorded run has ended; an interrupted experiment records the others, too."""
    if status not in ("interrupted", "failed"):
        return True
    solved = result["solved"] and settings.get("stop") != "budget"
    return bool(solved or result["evaluations"] >= settings["evaluations"])


def _damaged(directory: Path, name: str, domain: str, error: TfsmError) -> ExperimentProgress:
    return ExperimentProgress(name, domain, directory, "damaged", problem=str(error))


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _to_finite(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if isfinite(value) else None
    except OverflowError:
        return None


def _to_seconds(text: object) -> float | None:
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except (ValueError, OverflowError):
        return None


def _known(values: Iterable[Number | None]) -> list[Number]:
    return [value for value in values if value is not None]
