"""The behavior of a run's populations on disk: snapshots are appended during a run and compressed at its end."""

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
from tfsm.runs.records import BEHAVIOR, behavior_file
from tfsm.utils.files import atomic_write, flush_to_disk

if TYPE_CHECKING:
    from tfsm.evolution.batches import LogIntervals

_LENGTH: Final = struct.Struct("<Q")


def read_behavior(file: Path) -> dict[str, np.ndarray]:
    """Return all tables of a file: evaluations `[T]`, behavior `[T, N, D]` and more."""
    from tfsm.models.safe_loading import check_arrays

    try:
        # Opened here, because NumPy leaves a file open that it cannot read.
        with file.open("rb") as opened:
            check_arrays(opened, str(file))
            opened.seek(0)
            with np.load(opened, allow_pickle=False) as tables:
                return {name: tables[name] for name in tables.files}
    except TfsmError:
        raise
    except Exception as error:  # NumPy, zipfile and zlib raise many kinds of errors for a broken file
        raise TfsmError(f"{file}: cannot be read: {summarize_error(error)}") from None


class BehaviorFiles:
    """Writes snapshots: one by one during a run, and all in one file at its end.

    Nothing can be appended to a compressed file. Until a run ends there is a file of parts instead, of which a killed
    process loses none.

    Args:
        directory: the run directory.
        intervals: when runs are logged.
    """

    def __init__(self, directory: Path, intervals: LogIntervals) -> None:
        self._directory, self._intervals = directory, intervals
        self._snapshots: dict[int, dict[int, PopulationSnapshot]] = {}
        self._unsynced: set[Path] = set()
        self.known: set[tuple[int, int]] = set()
        """The run and the number of evaluations of each snapshot."""

    def reopen(self) -> None:
        """Read the existing files; an incomplete part is removed."""
        for file in sorted(self._directory.glob(f"{BEHAVIOR}/run-*.npz")):
            run = int(file.stem.removeprefix("run-"))
            self._snapshots[run] = _read_snapshots(run, file)
        for file in sorted(self._directory.glob(f"{BEHAVIOR}/.run-*.parts")):
            run, end = int(file.stem.removeprefix(".run-")), 0
            with file.open("r+b") as opened:
                for part in _read_parts(opened):
                    self._snapshots.setdefault(run, {}).update({s.evaluations: s for s in _to_snapshots(run, part)})
                    end = opened.tell()
                opened.truncate(end)
        self.known.update((run, number) for run, known in self._snapshots.items() for number in known)

    def add(self, snapshot: PopulationSnapshot) -> None:
        """Append a snapshot, unless it is known."""
        snapshots = self._load(snapshot.run)
        if snapshot.evaluations in snapshots:
            return
        snapshots[snapshot.evaluations] = snapshot
        file = self._parts_file(snapshot.run)
        file.parent.mkdir(exist_ok=True)
        with file.open("ab") as opened:
            opened.write(_pack_part(snapshot))
        self._unsynced.add(file)
        self.known.add((snapshot.run, snapshot.evaluations))

    def rewind(self, evaluations: Mapping[int, int]) -> None:
        """Remove the snapshots beyond a run's given number of evaluations."""
        for run, limit in evaluations.items():
            snapshots = self._load(run)
            if not any(number > limit for number in snapshots):
                continue
            left = {number: snapshots[number] for number in sorted(snapshots) if number <= limit}
            with atomic_write(self._parts_file(run)) as temporary:
                temporary.write_bytes(b"".join(_pack_part(snapshot) for snapshot in left.values()))
            behavior_file(self._directory, run).unlink(missing_ok=True)
            self._snapshots[run] = left
            self.known -= {(run, number) for number in snapshots if number > limit}

    def sync(self) -> None:
        """Bring all parts to the disk, so that a power cut loses none."""
        for path in {*self._unsynced, *(file.parent for file in self._unsynced)}:
            flush_to_disk(path)
        self._unsynced.clear()

    def finish(self, run: int) -> None:
        """Write one file of a run's snapshots: those at the end of an interval or of the run."""
        snapshots = self._snapshots.get(run, {})
        last = max(snapshots, default=0)
        chosen = [snapshots[number] for number in sorted(snapshots) if number in self._intervals or number == last]
        if not chosen:
            return
        file = behavior_file(self._directory, run)
        file.parent.mkdir(exist_ok=True)
        with atomic_write(file) as temporary:
            np.savez_compressed(temporary, **_to_tables(chosen))
        del self._snapshots[run]  # not before they are in the file
        self._parts_file(run).unlink(missing_ok=True)
        self._unsynced.discard(self._parts_file(run))

    def finish_all(self) -> None:
        """Finish all runs that are still in parts."""
        for run in list(self._snapshots):
            self.finish(run)

    def _load(self, run: int) -> dict[int, PopulationSnapshot]:
        """Return a run's snapshots; a finished run is reported again if a worker died before the next checkpoint."""
        file = behavior_file(self._directory, run)
        if run not in self._snapshots:
            self._snapshots[run] = _read_snapshots(run, file) if file.is_file() else {}
        return self._snapshots[run]

    def _parts_file(self, run: int) -> Path:
        return self._directory / BEHAVIOR / f".run-{run:03d}.parts"


def _pack_part(snapshot: PopulationSnapshot) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **_to_tables([snapshot]))
    return _LENGTH.pack(buffer.tell()) + buffer.getvalue()


def _read_snapshots(run: int, file: Path) -> dict[int, PopulationSnapshot]:
    return {snapshot.evaluations: snapshot for snapshot in _to_snapshots(run, read_behavior(file))}


def _to_tables(snapshots: Sequence[PopulationSnapshot]) -> dict[str, Any]:
    tables: dict[str, Any] = {
        "evaluations": [snapshot.evaluations for snapshot in snapshots],
        "behavior": np.stack([snapshot.behavior for snapshot in snapshots]),
        "fitness": np.stack([snapshot.fitness for snapshot in snapshots]),
        "names": np.array(snapshots[-1].names, np.str_),
    }
    return tables if snapshots[-1].cells is None else {**tables, "cells": snapshots[-1].cells}


def _to_snapshots(run: int, tables: Mapping[str, np.ndarray]) -> Iterator[PopulationSnapshot]:
    names = tuple(str(name) for name in tables["names"])
    for index, evaluations in enumerate(tables["evaluations"]):
        yield PopulationSnapshot(
            run, int(evaluations), tables["behavior"][index], tables["fitness"][index], names, tables.get("cells")
        )


def _read_parts(file: IO[bytes]) -> Iterator[dict[str, np.ndarray]]:
    """Read one part after another, up to an incomplete one."""
    while len(preface := file.read(_LENGTH.size)) == _LENGTH.size:
        (length,) = _LENGTH.unpack(preface)
        content = file.read(min(length, 2**31))
        if len(content) < length:
            return
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as tables:
                yield {name: tables[name] for name in tables.files}
        except (OSError, ValueError, KeyError, EOFError, BadZipFile):
            return
