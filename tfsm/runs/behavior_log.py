"""What a run's populations did, as its directory keeps it."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final
from zipfile import BadZipFile

import numpy as np

from tfsm.errors import TfsmError
from tfsm.evolution.observers import PopulationSnapshot
from tfsm.models.names import summarize_error
from tfsm.models.safe_loading import check_arrays
from tfsm.runs.records import BEHAVIOR, behavior_file
from tfsm.utils.atomic import atomic_write, flush_to_disk

if TYPE_CHECKING:
    from tfsm.evolution.lockstep_loop import LogIntervals

_LENGTH: Final = struct.Struct("<Q")


def read_behavior(file: Path) -> dict[str, np.ndarray]:
    """Return all tables of a file: evaluations `[T]`, behavior `[T, N, D]`, and what else was kept."""
    try:
        # Opened here, because NumPy leaves a file open that turns out to be none of its own.
        with file.open("rb") as opened:
            check_arrays(opened, str(file))
            opened.seek(0)
            with np.load(opened, allow_pickle=False) as kept:
                return {name: kept[name] for name in kept.files}
    except TfsmError:
        raise
    except Exception as error:  # what a broken file makes NumPy, zipfile and zlib raise is of many kinds
        raise TfsmError(f"{file}: cannot be read: {summarize_error(error)}") from None


class BehaviorFiles:
    """Keeps snapshots: one by one while a run goes on, and together when it has ended.

    A compressed file cannot be added to; so until a run ends there is a file of parts beside it, of which a process
    that is killed loses none.

    Args:
        directory: the run directory.
        intervals: when runs are logged.
    """

    def __init__(self, directory: Path, intervals: LogIntervals) -> None:
        self._directory, self._intervals = directory, intervals
        self._snapshots: dict[int, dict[int, PopulationSnapshot]] = {}
        self._unsafe: set[Path] = set()
        self.known: set[tuple[int, int]] = set()
        """The run and the number of evaluations of each snapshot."""

    def reopen(self) -> None:
        """Make ready to go on with what is there; what was never finished is taken off."""
        for file in sorted(self._directory.glob(f"{BEHAVIOR}/run-*.npz")):
            run = int(file.stem.removeprefix("run-"))
            self._snapshots[run] = _from_file(run, file)
        for file in sorted(self._directory.glob(f"{BEHAVIOR}/.run-*.parts")):
            run, end = int(file.stem.removeprefix(".run-")), 0
            with file.open("r+b") as opened:
                for part in _parts(opened):
                    self._snapshots.setdefault(run, {}).update({s.evaluations: s for s in _apart(run, part)})
                    end = opened.tell()
                opened.truncate(end)
        self.known.update((run, number) for run, known in self._snapshots.items() for number in known)

    def add(self, snapshot: PopulationSnapshot) -> None:
        """Keep a snapshot, unless it is there already."""
        known = self._of(snapshot.run)
        if snapshot.evaluations in known:
            return
        known[snapshot.evaluations] = snapshot
        file = self._parts_file(snapshot.run)
        file.parent.mkdir(exist_ok=True)
        with file.open("ab") as opened:
            opened.write(_part(snapshot))
        self._unsafe.add(file)
        self.known.add((snapshot.run, snapshot.evaluations))

    def forget(self, after: Mapping[int, int]) -> None:
        """Take back the snapshots of runs after so many evaluations each."""
        for run, evaluations in after.items():
            known = self._of(run)
            if not any(number > evaluations for number in known):
                continue
            left = {number: known[number] for number in sorted(known) if number <= evaluations}
            with atomic_write(self._parts_file(run)) as draft:
                draft.write_bytes(b"".join(_part(snapshot) for snapshot in left.values()))
            behavior_file(self._directory, run).unlink(missing_ok=True)
            self._snapshots[run] = left
            self.known -= {(run, number) for number in known if number > evaluations}

    def sync(self) -> None:
        """Let a power cut lose none either."""
        for path in {*self._unsafe, *(file.parent for file in self._unsafe)}:
            flush_to_disk(path)
        self._unsafe.clear()

    def end(self, run: int) -> None:
        """Put a run's snapshots together, those that belong to the end of an interval or of the run."""
        known = self._snapshots.get(run, {})
        chosen = [known[number] for number in sorted(known) if number in self._intervals or number == max(known)]
        if not chosen:
            return
        file = behavior_file(self._directory, run)
        file.parent.mkdir(exist_ok=True)
        with atomic_write(file) as draft:
            np.savez_compressed(draft, **_together(chosen))
        del self._snapshots[run]  # not before they are in the file
        self._parts_file(run).unlink(missing_ok=True)
        self._unsafe.discard(self._parts_file(run))

    def end_all(self) -> None:
        """Put together what is still in parts."""
        for run in list(self._snapshots):
            self.end(run)

    def _of(self, run: int) -> dict[int, PopulationSnapshot]:
        """Return a run's snapshots; one that has ended is told of again if a worker died before the next checkpoint."""
        file = behavior_file(self._directory, run)
        if run not in self._snapshots:
            self._snapshots[run] = _from_file(run, file) if file.is_file() else {}
        return self._snapshots[run]

    def _parts_file(self, run: int) -> Path:
        return self._directory / BEHAVIOR / f".run-{run:03d}.parts"


def _part(snapshot: PopulationSnapshot) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **_together([snapshot]))
    return _LENGTH.pack(buffer.tell()) + buffer.getvalue()


def _from_file(run: int, file: Path) -> dict[int, PopulationSnapshot]:
    return {snapshot.evaluations: snapshot for snapshot in _apart(run, read_behavior(file))}


def _together(snapshots: Sequence[PopulationSnapshot]) -> dict[str, Any]:
    tables: dict[str, Any] = {
        "evaluations": [snapshot.evaluations for snapshot in snapshots],
        "behavior": np.stack([snapshot.behavior for snapshot in snapshots]),
        "fitness": np.stack([snapshot.fitness for snapshot in snapshots]),
        "names": np.array(snapshots[-1].names, np.str_),
    }
    return tables if snapshots[-1].cells is None else {**tables, "cells": snapshots[-1].cells}


def _apart(run: int, tables: Mapping[str, np.ndarray]) -> Iterator[PopulationSnapshot]:
    names = tuple(str(name) for name in tables["names"])
    for place, evaluations in enumerate(tables["evaluations"]):
        yield PopulationSnapshot(
            run, int(evaluations), tables["behavior"][place], tables["fitness"][place], names, tables.get("cells")
        )


def _parts(file: IO[bytes]) -> Iterator[dict[str, np.ndarray]]:
    """Read one part after another, up to one that is not whole."""
    while len(preface := file.read(_LENGTH.size)) == _LENGTH.size:
        (length,) = _LENGTH.unpack(preface)
        content = file.read(min(length, 2**31))
        if len(content) < length:
            return
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as kept:
                yield {name: kept[name] for name in kept.files}
        except (OSError, ValueError, KeyError, EOFError, BadZipFile):
            return
