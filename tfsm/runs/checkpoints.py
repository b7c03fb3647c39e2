"""The checkpoint files of a run directory: the last two of each group of runs, so that a damaged one costs little."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tfsm.errors import TfsmError
from tfsm.evolution.checkpoint import (
    Checkpoint,
    pack_checkpoint,
    read_checkpoint,
    split_into_ranges,
    write_checkpoint,
    write_packed_checkpoint,
)
from tfsm.evolution.checkpoint_schedule import CheckpointInterval, CheckpointSchedule
from tfsm.evolution.compile_plan import Plan
from tfsm.evolution.observers import CheckpointInfo
from tfsm.interfaces import Observer
from tfsm.utils.files import back_up, is_temporary

CHECKPOINTS: Final = "checkpoints"
_NAME: Final = re.compile(r"run-(\d+)-(\d+)-at-(\d+)\.checkpoint")
_MAX_FILES: Final = 2
FULL: Final = 0.9
"""Share of a disk from which on it counts as nearly full."""


def estimate_disk(plan: Plan, runs: int, *, side_by_side: bool) -> int:
    """Return the bytes that checkpoints take at most: two of each run that evolves, and one that is being written.

    Args:
        plan: the memory of a run.
        runs: number of runs.
        side_by_side: whether all runs evolve at the same time, on workers.
    """
    return (_MAX_FILES + 1) * plan.bytes_each * (runs if side_by_side else plan.runs)


def warn_of_small_disk(directory: Path, needed: int, notify: Callable[[str], None]) -> None:
    """Notify the user if checkpoints may not fit the disk."""
    with suppress(OSError):
        free = shutil.disk_usage(directory).free
        if needed > free:
            notify(
                f"warning: {directory}: checkpoints take up to {needed / 2**30:,.2f} GiB, and {free / 2**30:,.2f} GiB "
                "are free: choose another --out, or --checkpoint-every never"
            )


@dataclass(frozen=True)
class PackedCheckpoint:
    """A checkpoint that a worker has sent: the bytes of its file, and what its file is named by."""

    runs: range
    number: int
    evaluations_used: int
    content: bytes = field(repr=False)

    @classmethod
    def pack(cls, checkpoint: Checkpoint, about: Mapping[str, Any]) -> PackedCheckpoint:
        """Pack a checkpoint with a description of its experiment."""
        content = pack_checkpoint(checkpoint, about)
        return cls(checkpoint.runs, checkpoint.number, checkpoint.evaluations_used, content)


class CheckpointFiles:
    """Writes checkpoints, and finds those to resume from.

    Args:
        directory: the run directory.
        about: identifies the experiment; a checkpoint of another one is not used.
        every: how often to write one.
        notify: receives messages for the user, about checkpoints that cannot be written or read.
        sync: called before a checkpoint is written, to bring everything reported before it to the disk.
        is_complete: says whether the log of a run has all intervals up to a number of evaluations, at which the run has
            ended or not. A checkpoint beyond a gap in the log is not used, and the run is evolved again.
        size: expected size of a checkpoint in bytes.
        observers: notified of each checkpoint that was written.
    """

    def __init__(
        self,
        directory: Path,
        about: Mapping[str, Any],
        every: CheckpointInterval,
        notify: Callable[[str], None] = lambda _: None,
        sync: Callable[[], None] = lambda: None,
        is_complete: Callable[[int, int, bool], bool] = lambda run, evaluations, ended: True,
        size: int = 0,
        observers: Sequence[Observer] = (),
    ) -> None:
        self._folder, self._about, self._notify = directory / CHECKPOINTS, dict(about), notify
        self._schedule, self._enabled = CheckpointSchedule(every, size=size), bool(every)
        self._sync, self._is_complete, self._observers = sync, is_complete, observers
        self._valid: set[Path] = set()
        """Files of this experiment that can be read."""
        self._rejected: set[Path] = set()
        """Those of them that were not used for all of their runs."""
        self._failing = self._has_warned = False
        self._remove_temporary_files()

    @property
    def has_files(self) -> bool:
        """Whether there are valid checkpoints of this experiment, used or not."""
        return bool(self._valid)

    def next_check(self, used: int) -> int:
        """Return the number of evaluations, above `used`, at which to check again at the latest."""
        return self._schedule.next_check(used)

    def is_due(self, used: int) -> bool:
        """Say whether a checkpoint is due."""
        return self._schedule.is_due(used)

    def save(
        self, checkpoint: Checkpoint | PackedCheckpoint, *, last: bool = False, replace_others: bool = False
    ) -> None:
        """Write a checkpoint; if that fails, the run continues and the previous one stays.

        Args:
            checkpoint: the checkpoint of a group of runs; a packed one is written as it is.
            last: whether the group has ended.
            replace_others: whether to remove all other checkpoints of these runs, whatever their evaluations.
        """
        if not self._enabled:
            return
        start = time.perf_counter()
        try:
            self._folder.mkdir(exist_ok=True)
            file = self._file(checkpoint)
            if file.exists() and file not in self._valid:  # one that could not be read is never deleted
                back_up(file, "damaged")
            self._sync()
            if isinstance(checkpoint, PackedCheckpoint):
                write_packed_checkpoint(file, checkpoint.content)
            else:
                write_checkpoint(file, checkpoint, self._about)
        except OSError as error:
            if not self._failing:
                self._notify(
                    f"warning: {self._folder}: cannot write a checkpoint ({error.strerror or error}); the run "
                    "continues, and the previous checkpoint is kept"
                )
            self._failing = True
        else:
            self._failing = False
            self._valid.add(file)
            self._rejected.discard(file)
            self._prune(checkpoint.runs, 1 if last or self._is_nearly_full() else _MAX_FILES)
            if replace_others:
                self._remove_others(file, checkpoint.runs)
            for observer in self._observers:
                observer.on_checkpoint(CheckpointInfo(checkpoint.runs, checkpoint.evaluations_used, file))
        self._schedule.record(checkpoint.evaluations_used, time.perf_counter() - start)

    def _is_nearly_full(self) -> bool:
        """Say whether the disk is nearly full, which the user is notified of once."""
        try:
            usage = shutil.disk_usage(self._folder)
        except OSError:
            return False
        share = 1.0 - usage.free / usage.total if usage.total else 0.0
        if share >= FULL and not self._has_warned:
            self._has_warned = True
            self._notify(
                f"warning: {self._folder}: the disk is {share:.0%} full, {usage.free / 2**30:.2f} GiB are free; one "
                "checkpoint is kept instead of two"
            )
        return share >= FULL

    def find(self, runs: range) -> list[Checkpoint]:
        """Return the newest valid checkpoints of these runs; damaged ones are reported and left alone."""
        covered: set[int] = set()
        checkpoints: list[Checkpoint] = []
        for file, file_runs, _ in sorted(self._list(), key=lambda item: item[2], reverse=True):
            missing = [run for run in file_runs if run in runs and run not in covered]
            try:
                checkpoint = self._read(file, file_runs, warn=bool(missing))
            except TfsmError as error:
                if missing:
                    self._notify(f"warning: {error}; using an older checkpoint, if there is one")
                continue
            self._valid.add(file)
            usable = self._select_usable(file, checkpoint, missing)
            if len(usable) < len(missing):
                self._rejected.add(file)
            covered.update(usable)
            checkpoints += [checkpoint.select(part) for part in split_into_ranges(usable)]
        return checkpoints

    def _select_usable(self, file: Path, checkpoint: Checkpoint, runs: list[int]) -> list[int]:
        ended = {result.run: result.evaluations for result in checkpoint.results}
        evaluations = checkpoint.evaluations_by_run | ended
        usable = [run for run in runs if self._is_complete(run, evaluations[run], run in ended)]
        if len(usable) < len(runs):
            others = ", ".join(str(run) for run in runs if run not in usable)
            self._notify(
                f"warning: {file}: not used for run {others}: its log is incomplete, so the run is evolved again"
            )
        return usable

    def _read(self, file: Path, runs: range, *, warn: bool) -> Checkpoint:
        checkpoint, about = read_checkpoint(file)
        if about.get("experiment") != self._about["experiment"]:
            raise TfsmError(f"{file}: a checkpoint of another experiment")
        if checkpoint.runs != runs:
            first, last = checkpoint.runs.start, checkpoint.runs.stop - 1
            raise TfsmError(f"{file}: a renamed checkpoint of runs {first} to {last}")
        changes = [
            f"{name} {version} then, {self._about['versions'].get(name)} now"
            for name, version in about.get("versions", {}).items()
            if version != self._about["versions"].get(name)
        ]
        if changes and warn:
            self._notify(f"warning: {file}: {', '.join(changes)}: results may be rounded differently")
        return checkpoint

    def _file(self, checkpoint: Checkpoint | PackedCheckpoint) -> Path:
        first, last = checkpoint.runs.start, checkpoint.runs.stop - 1
        return self._folder / f"run-{first:03d}-{last:03d}-at-{checkpoint.number:09d}.checkpoint"

    def _list(self) -> Iterator[tuple[Path, range, int]]:
        """Return all files, with their runs and numbers."""
        for file in sorted(self._folder.glob("*.checkpoint")):
            if name := _NAME.fullmatch(file.name):
                yield file, range(int(name[1]), int(name[2]) + 1), int(name[3])

    def _remove_temporary_files(self) -> None:
        """Remove what a killed process has left: it may be large, and is never overwritten."""
        for file in self._folder.glob(".*"):
            if is_temporary(file):
                with suppress(OSError):
                    file.unlink()

    def _prune(self, runs: range, count: int) -> None:
        """Keep the newest valid files of a group; files that are not valid are left alone."""
        # Rejected ones go first, whatever their numbers.
        files = sorted(
            (file not in self._rejected, number, file)
            for file, file_runs, number in self._list()
            if file_runs == runs and file in self._valid
        )
        for *_, file in files[:-count]:
            file.unlink(missing_ok=True)
            self._valid.discard(file)

    def _remove_others(self, file: Path, runs: range) -> None:
        for other, other_runs, _ in list(self._list()):
            if other != file and other in self._valid and any(run in runs for run in other_runs):
                other.unlink(missing_ok=True)
                self._valid.discard(other)
