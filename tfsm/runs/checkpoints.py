"""The checkpoints of a run directory: two of each group of runs, so that one that is torn costs little."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tfsm.errors import TfsmError
from tfsm.evolution.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from tfsm.evolution.checkpoint_schedule import CheckpointInterval, CheckpointSchedule
from tfsm.evolution.observers import CheckpointInfo
from tfsm.interfaces import Observer
from tfsm.utils.atomic import back_up, is_temporary

CHECKPOINTS: Final = "checkpoints"
_NAME: Final = re.compile(r"run-(\d+)-(\d+)-at-(\d+)\.checkpoint")
_KEPT: Final = 2


class CheckpointFiles:
    """Writes checkpoints, and finds those to go on from.

    Args:
        directory: the run directory.
        about: which experiment it is; the file of another is not used.
        every: how often.
        notify: told what the user should know: a checkpoint that cannot be written, or read.
        sync: called before a checkpoint is written: what was told before it must be on the disk by then.
        is_whole: says of a run whether all that it told up to so many evaluations, with which it has ended or not, is
            still there; if not, a checkpoint after them is of no use to it, and it is evolved again.
        size: bytes that a checkpoint is likely to have.
        observers: notified of each checkpoint that was written.
    """

    def __init__(
        self,
        directory: Path,
        about: Mapping[str, Any],
        every: CheckpointInterval,
        notify: Callable[[str], None] = lambda _: None,
        sync: Callable[[], None] = lambda: None,
        is_whole: Callable[[int, int, bool], bool] = lambda run, evaluations, ended: True,
        size: int = 0,
        observers: Sequence[Observer] = (),
    ) -> None:
        self._folder, self._about, self._notify = directory / CHECKPOINTS, dict(about), notify
        self._cadence, self._on = CheckpointSchedule(every, size=size), bool(every)
        self._sync, self._is_whole, self._observers = sync, is_whole, observers
        self._ours: set[Path] = set()
        self._rejected: set[Path] = set()
        self._failing = False
        self._tidy()

    def next_check(self, spent: int) -> int:
        """Return the number of evaluations, above `spent`, at which to look again at the latest."""
        return self._cadence.next_check(spent)

    def is_due(self, spent: int) -> bool:
        """Say whether it is time."""
        return self._cadence.is_due(spent)

    def save(self, saved: Checkpoint, *, last: bool = False, instead: bool = False) -> None:
        """Write a checkpoint; where that fails the run goes on, and the one before stays.

        Args:
            saved: where a group of runs stands.
            last: whether it has come to its end.
            instead: whether it takes the place of all others of these runs, whatever evaluations those were at.
        """
        if not self._on:
            return
        began = time.perf_counter()
        try:
            self._folder.mkdir(exist_ok=True)
            file = self._file(saved)
            self._put_aside(file)
            self._sync()
            write_checkpoint(file, saved, self._about)
        except OSError as error:
            if not self._failing:
                self._notify(
                    f"warning: {self._folder}: no checkpoint can be written ({error.strerror or error}); the run goes "
                    "on, and the one before is kept"
                )
            self._failing = True
        else:
            self._failing = False
            self._ours.add(file)
            self._rejected.discard(file)
            self._prune(saved, 1 if last else _KEPT)
            if instead:
                self._remove_others(file, saved)
            for observer in self._observers:
                observer.on_checkpoint(CheckpointInfo(saved.runs, saved.evaluations_used, file))
        self._cadence.record(saved.evaluations_used, time.perf_counter() - began)

    @property
    def present(self) -> bool:
        """Whether there are checkpoints of this experiment, of use or not."""
        return bool(self._ours)

    def find(self, runs: range) -> list[Checkpoint]:
        """Return where these runs stand by the newest whole checkpoints; others are told of, and left alone."""
        covered: set[int] = set()
        found: list[Checkpoint] = []
        for file, own, _ in sorted(self._listed(), key=lambda item: item[2], reverse=True):
            wanted = [run for run in own if run in runs and run not in covered]
            try:
                saved = self._read(file, own, tell=bool(wanted))
            except TfsmError as error:
                if wanted:
                    self._notify(f"warning: {error}; an older checkpoint is used, if there is one")
                continue
            self._ours.add(file)
            useful = self._useful(file, saved, wanted)
            if len(useful) < len(wanted):
                self._rejected.add(file)
            covered.update(useful)
            found += [saved.select(part) for part in _together(useful)]
        return found

    def _useful(self, file: Path, saved: Checkpoint, runs: list[int]) -> list[int]:
        ended = {result.run: result.evaluations for result in saved.results}
        told = saved.evaluations_by_run | ended
        useful = [run for run in runs if self._is_whole(run, told[run], run in ended)]
        if len(useful) < len(runs):
            others = ", ".join(str(run) for run in runs if run not in useful)
            self._notify(
                f"warning: {file}: not used for run {others}: the log has lost some of it, so it is evolved again"
            )
        return useful

    def _read(self, file: Path, own: range, *, tell: bool) -> Checkpoint:
        saved, about = read_checkpoint(file)
        if about.get("experiment") != self._about["experiment"]:
            raise TfsmError(f"{file}: a checkpoint of another experiment")
        if saved.runs != own:
            raise TfsmError(f"{file}: a checkpoint of runs {saved.runs.start} to {saved.runs.stop - 1}, renamed")
        different = [
            f"{name} {version} then, {self._about['versions'].get(name)} now"
            for name, version in about.get("versions", {}).items()
            if version != self._about["versions"].get(name)
        ]
        if different and tell:
            self._notify(f"warning: {file}: {', '.join(different)}: what follows may be rounded otherwise")
        return saved

    def _file(self, saved: Checkpoint) -> Path:
        last = saved.first_run + saved.count - 1
        return self._folder / f"run-{saved.first_run:03d}-{last:03d}-at-{saved.number:09d}.checkpoint"

    def _listed(self) -> Iterator[tuple[Path, range, int]]:
        for file in sorted(self._folder.glob("*.checkpoint")):
            if found := _NAME.fullmatch(file.name):
                yield file, range(int(found[1]), int(found[2]) + 1), int(found[3])

    def _tidy(self) -> None:
        """Remove what somebody was writing when he was killed: another has another name, and it may be large."""
        for file in self._folder.glob(".*"):
            if is_temporary(file):
                with suppress(OSError):
                    file.unlink()

    def _put_aside(self, file: Path) -> None:
        """Make room for a file without deleting one that could not be read."""
        if file.exists() and file not in self._ours:
            back_up(file, "damaged")

    def _prune(self, saved: Checkpoint, count: int) -> None:
        """Keep only the newest of a group, so many of them; what is not ours is left alone."""
        # Those that were of no use go first, whatever their numbers.
        own = sorted(
            (file not in self._rejected, number, file)
            for file, runs, number in self._listed()
            if runs == saved.runs and file in self._ours
        )
        for *_, file in own[:-count]:
            file.unlink(missing_ok=True)
            self._ours.discard(file)

    def _remove_others(self, file: Path, saved: Checkpoint) -> None:
        for other, runs, _ in list(self._listed()):
            if other != file and other in self._ours and any(run in saved.runs for run in runs):
                other.unlink(missing_ok=True)
                self._ours.discard(other)


def _together(runs: list[int]) -> list[range]:
    """Return runs as ranges of those that follow one another."""
    found: list[range] = []
    for run in runs:
        if found and found[-1].stop == run:
            found[-1] = range(found[-1].start, run + 1)
        else:
            found.append(range(run, run + 1))
    return found
