"""Damaged files are told of, kept, and made good."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.faults.disk_faults import (
    all_damaged,
    can_mount,
    clocks,
    clocks_with_cadence,
    damaged_checkpoints,
    damaged_logs,
    damaged_snapshots,
    full_disks,
    left_drafts,
    limited_command,
    limited_files,
    locks,
    read_only_folders,
    without_rights,
)
from tests.faults.lab import Bench, Lab, assert_nothing_lost


@pytest.mark.parametrize("places", [1, pytest.param(40, marks=pytest.mark.slow)])
def test_a_damaged_checkpoint(bench: Bench, left: Path, places: int) -> None:
    assert_nothing_lost(damaged_checkpoints(bench, left, places))


def test_no_checkpoint_that_is_whole(bench: Bench, left: Path) -> None:
    assert_nothing_lost([all_damaged(bench, left)])


@pytest.mark.parametrize("places", [1, pytest.param(30, marks=pytest.mark.slow)])
def test_a_damaged_log(bench: Bench, left: Path, places: int) -> None:
    assert_nothing_lost(damaged_logs(bench, left, places))


@pytest.mark.parametrize("places", [1, pytest.param(30, marks=pytest.mark.slow)])
def test_damaged_snapshots(bench: Bench, left: Path, places: int) -> None:
    assert_nothing_lost(damaged_snapshots(bench, left, places))


def test_drafts_that_were_left_behind(bench: Bench, left: Path) -> None:
    assert_nothing_lost(left_drafts(bench, left))


def test_a_directory_whose_owner_was_killed_before_its_record_was_written(bench: Bench) -> None:
    out = bench.out()
    out.mkdir()
    (out / ".lock").touch()
    (out / ".run.json.part.json").write_text("{")
    assert bench.expected.lost(bench.final(out)) == []


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("disks")
    if not can_mount(found / "try"):
        pytest.skip("only root can mount a disk")
    return found


def test_a_full_disk(bench: Bench, folder: Path) -> None:
    trials = list(full_disks(bench, folder / "few", [(1, 1), (10, 0), (18, 2)]))
    assert_nothing_lost(trials)
    assert all("No space left on device" in trial.words and "--resume" in trial.words for trial in trials)


@pytest.mark.slow
def test_a_full_disk_at_any_time_and_by_any_file(bench: Bench, folder: Path) -> None:
    trials = list(full_disks(bench, folder / "all", [(event, pages) for event in range(1, 28) for pages in range(6)]))
    assert_nothing_lost(trials)
    files = {trial.words.split(":")[0] for trial in trials}
    assert {"log", "snapshot", "snapshots", "champion", "record"} <= files
    assert any("cannot write a checkpoint" in trial.words for trial in trials)


def test_files_that_may_not_grow(bench: Bench) -> None:
    trials = list(limited_files(bench, [0, 1500, 9000]))
    assert_nothing_lost(trials)
    assert {trial.words.split(":")[0] for trial in trials} >= {"champion"}


@pytest.mark.slow
def test_files_of_any_size_that_may_not_grow(bench: Bench) -> None:
    assert_nothing_lost(limited_files(bench, range(0, 12_000, 500)))


def test_a_directory_that_becomes_read_only(bench: Bench, folder: Path) -> None:
    assert_nothing_lost(read_only_folders(bench, folder / "read-only", [0, 10]))


@pytest.mark.slow
def test_a_command_whose_files_may_not_grow(lab: Lab, bench: Bench) -> None:
    assert_nothing_lost([limited_command(lab, bench)])


@pytest.mark.slow
@pytest.mark.skipif(not os.geteuid() and not shutil.which("setpriv"), reason="root may write everywhere")
def test_a_command_without_the_right_to_write(lab: Lab) -> None:
    assert_nothing_lost([without_rights(lab)])


@pytest.mark.slow
def test_two_processes(lab: Lab, bench: Bench) -> None:
    assert_nothing_lost(locks(lab, bench))


@pytest.mark.slow
def test_checkpoints_by_a_clock_that_goes_backwards(bench: Bench) -> None:
    assert_nothing_lost(clocks_with_cadence(bench))


def test_a_clock_that_goes_backwards(bench: Bench) -> None:
    assert_nothing_lost(clocks(bench))
