"""Snapshots are appended to a parts file during a run, and combined when it ends, each of them once."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from tfsm.evolution.batches import Batches, LogIntervals
from tfsm.evolution.observers import PopulationSnapshot
from tfsm.runs.behavior_log import BehaviorFiles, read_behavior


def make_snapshot(run: int, evaluations: int) -> PopulationSnapshot:
    numbers = np.arange(6, dtype=np.float32).reshape(3, 2) + evaluations
    return PopulationSnapshot(run, evaluations, numbers, numbers[:, 0], ("x", "y"), None)


def read_evaluations(directory: Path, run: int = 0) -> list[int]:
    tables = read_behavior(directory / "behavior" / f"run-{run:03d}.npz")
    for index, evaluations in enumerate(tables["evaluations"]):
        np.testing.assert_array_equal(tables["behavior"][index], make_snapshot(run, int(evaluations)).behavior)
        np.testing.assert_array_equal(tables["fitness"][index], make_snapshot(run, int(evaluations)).fitness)
    return [int(number) for number in tables["evaluations"]]


def parts_file(directory: Path) -> Path:
    return directory / "behavior" / ".run-000.parts"


def reopen(directory: Path) -> BehaviorFiles:
    files = BehaviorFiles(directory, LogIntervals(20, Batches(initial_population=0)))
    files.reopen()
    return files


@pytest.fixture
def files(tmp_path: Path) -> BehaviorFiles:
    files = BehaviorFiles(tmp_path, LogIntervals(20, Batches(initial_population=0)))
    for evaluations in (20, 40, 60):
        files.add(make_snapshot(0, evaluations))
    return files


def test_the_end_of_a_run_combines_its_snapshots(tmp_path: Path, files: BehaviorFiles) -> None:
    files.finish(0)
    assert read_evaluations(tmp_path) == [20, 40, 60]
    assert not parts_file(tmp_path).exists()


def test_a_killed_process_loses_no_snapshots(tmp_path: Path, files: BehaviorFiles) -> None:
    reopened = reopen(tmp_path)
    assert reopened.known == files.known == {(0, 20), (0, 40), (0, 60)}
    reopened.add(make_snapshot(0, 60))
    reopened.add(make_snapshot(0, 80))
    reopened.finish(0)
    assert read_evaluations(tmp_path) == [20, 40, 60, 80]


def test_only_the_ends_of_intervals_and_of_the_run_are_kept(tmp_path: Path, files: BehaviorFiles) -> None:
    files.add(make_snapshot(0, 71))  # interrupted here
    files.finish(0)
    assert read_evaluations(tmp_path) == [20, 40, 60, 71]
    reopened = reopen(tmp_path)
    reopened.add(make_snapshot(0, 80))
    reopened.finish_all()
    assert read_evaluations(tmp_path) == [20, 40, 60, 80]


def test_a_torn_part_is_removed_wherever_it_was_cut(tmp_path: Path, files: BehaviorFiles) -> None:
    whole = parts_file(tmp_path).read_bytes()
    size = len(whole) // 3
    for cut in [*range(0, len(whole), 97), size - 1, size, size + 1]:
        parts_file(tmp_path).write_bytes(whole[:cut])
        reopened = reopen(tmp_path)
        assert reopened.known == {(0, 20 * (number + 1)) for number in range(cut // size)}
        for evaluations in (20, 40, 60):
            reopened.add(make_snapshot(0, evaluations))
        assert parts_file(tmp_path).read_bytes() == whole
        assert reopen(tmp_path).known == files.known


def test_everything_after_a_damaged_part_is_discarded(tmp_path: Path, files: BehaviorFiles) -> None:
    whole = bytearray(parts_file(tmp_path).read_bytes())
    middle = len(whole) // 2
    whole[middle : middle + 40] = bytes(40)
    parts_file(tmp_path).write_bytes(whole)
    assert reopen(tmp_path).known == {(0, 20)}


def test_the_end_of_a_run_may_be_reported_again(tmp_path: Path, files: BehaviorFiles) -> None:
    """A worker that dies after a run has ended resumes from an earlier checkpoint, and reports the end again."""
    files.finish(0)
    files.add(make_snapshot(0, 60))
    files.finish(0)
    assert read_evaluations(tmp_path) == [20, 40, 60]
    assert not parts_file(tmp_path).exists()


def test_added_snapshots_are_synced_once(tmp_path: Path, files: BehaviorFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    files.sync()
    assert len(synced) == 2  # the file and its directory entry
    files.sync()
    assert len(synced) == 2


@pytest.mark.parametrize("finished", [False, True])
def test_snapshots_after_a_rewind_are_added_again(tmp_path: Path, files: BehaviorFiles, finished: bool) -> None:
    if finished:
        files.finish(0)
    reopened = reopen(tmp_path)
    reopened.rewind({0: 20, 1: 0})
    assert reopened.known == {(0, 20)}
    reopened = reopen(tmp_path)
    assert reopened.known == {(0, 20)}, "even if nothing is added afterwards"
    reopened.add(make_snapshot(0, 40))
    reopened.finish(0)
    assert read_evaluations(tmp_path) == [20, 40]


def test_a_failed_write_at_the_end_loses_no_snapshots(
    tmp_path: Path, files: BehaviorFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(np, "savez_compressed", fail)
        with pytest.raises(OSError, match="No space left"):
            files.finish(0)
    files.add(make_snapshot(0, 71))  # the run is reported to end here
    files.finish(0)
    assert read_evaluations(tmp_path) == [20, 40, 60, 71]
