"""Snapshots: kept part by part while a run goes on, together when it has ended, each of them once."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from tfsm.evolution.lockstep_loop import LogIntervals
from tfsm.evolution.observers import PopulationSnapshot
from tfsm.runs.behavior_log import BehaviorFiles, read_behavior


def snapshot(run: int, evaluations: int) -> PopulationSnapshot:
    numbers = np.arange(6, dtype=np.float32).reshape(3, 2) + evaluations
    return PopulationSnapshot(run, evaluations, numbers, numbers[:, 0], ("x", "y"), None)


def kept(directory: Path, run: int = 0) -> list[int]:
    tables = read_behavior(directory / "behavior" / f"run-{run:03d}.npz")
    for place, evaluations in enumerate(tables["evaluations"]):
        np.testing.assert_array_equal(tables["behavior"][place], snapshot(run, int(evaluations)).behavior)
        np.testing.assert_array_equal(tables["fitness"][place], snapshot(run, int(evaluations)).fitness)
    return [int(number) for number in tables["evaluations"]]


def parts(directory: Path) -> Path:
    return directory / "behavior" / ".run-000.parts"


def reopened(directory: Path) -> BehaviorFiles:
    files = BehaviorFiles(directory, LogIntervals(20, 0))
    files.reopen()
    return files


@pytest.fixture
def begun(tmp_path: Path) -> BehaviorFiles:
    files = BehaviorFiles(tmp_path, LogIntervals(20, 0))
    for evaluations in (20, 40, 60):
        files.add(snapshot(0, evaluations))
    return files


def test_the_end_of_a_run_puts_its_snapshots_together(tmp_path: Path, begun: BehaviorFiles) -> None:
    begun.finish(0)
    assert kept(tmp_path) == [20, 40, 60]
    assert not parts(tmp_path).exists()


def test_a_killed_process_loses_none(tmp_path: Path, begun: BehaviorFiles) -> None:
    again = reopened(tmp_path)
    assert again.known == begun.known == {(0, 20), (0, 40), (0, 60)}
    again.add(snapshot(0, 60))
    again.add(snapshot(0, 80))
    again.finish(0)
    assert kept(tmp_path) == [20, 40, 60, 80]


def test_only_the_ends_of_intervals_and_of_the_run_are_kept(tmp_path: Path, begun: BehaviorFiles) -> None:
    begun.add(snapshot(0, 71))  # interrupted here
    begun.finish(0)
    assert kept(tmp_path) == [20, 40, 60, 71]
    again = reopened(tmp_path)
    again.add(snapshot(0, 80))
    again.finish_all()
    assert kept(tmp_path) == [20, 40, 60, 80]


def test_a_torn_part_is_taken_off_wherever_it_was_cut(tmp_path: Path, begun: BehaviorFiles) -> None:
    whole = parts(tmp_path).read_bytes()
    size = len(whole) // 3
    for cut in [*range(0, len(whole), 97), size - 1, size, size + 1]:
        parts(tmp_path).write_bytes(whole[:cut])
        again = reopened(tmp_path)
        assert again.known == {(0, 20 * (number + 1)) for number in range(cut // size)}
        for evaluations in (20, 40, 60):
            again.add(snapshot(0, evaluations))
        assert parts(tmp_path).read_bytes() == whole
        assert reopened(tmp_path).known == begun.known


def test_after_a_damaged_part_nothing_is_believed(tmp_path: Path, begun: BehaviorFiles) -> None:
    whole = bytearray(parts(tmp_path).read_bytes())
    middle = len(whole) // 2
    whole[middle : middle + 40] = bytes(40)
    parts(tmp_path).write_bytes(whole)
    assert reopened(tmp_path).known == {(0, 20)}


def test_a_run_that_has_ended_may_be_told_of_again(tmp_path: Path, begun: BehaviorFiles) -> None:
    """A worker that dies after a run has ended goes on from the checkpoint before, and tells of the end once more."""
    begun.finish(0)
    begun.add(snapshot(0, 60))
    begun.finish(0)
    assert kept(tmp_path) == [20, 40, 60]
    assert not parts(tmp_path).exists()


def test_what_was_added_is_brought_to_the_disk_once(
    tmp_path: Path, begun: BehaviorFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(os, "fsync", asked.append)
    begun.sync()
    assert len(asked) == 2  # the file, and its name
    begun.sync()
    assert len(asked) == 2


@pytest.mark.parametrize("ended", [False, True])
def test_snapshots_that_are_taken_back_are_told_again(tmp_path: Path, begun: BehaviorFiles, ended: bool) -> None:
    if ended:
        begun.finish(0)
    files = reopened(tmp_path)
    files.rewind({0: 20, 1: 0})
    assert files.known == {(0, 20)}
    again = reopened(tmp_path)
    assert again.known == {(0, 20)}, "also if nothing comes after it"
    again.add(snapshot(0, 40))
    again.finish(0)
    assert kept(tmp_path) == [20, 40]


def test_an_end_that_cannot_be_written_loses_none(
    tmp_path: Path, begun: BehaviorFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(np, "savez_compressed", fail)
        with pytest.raises(OSError, match="No space left"):
            begun.finish(0)
    begun.add(snapshot(0, 71))  # it is told that it ends here
    begun.finish(0)
    assert kept(tmp_path) == [20, 40, 60, 71]
