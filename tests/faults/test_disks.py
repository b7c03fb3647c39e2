"""A disk that is full, or cannot be written to, costs nothing but the time until that is mended."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.faults.bench import Bench
from tests.faults.disks import (
    can_mount,
    full_disks,
    limited_command,
    limited_files,
    read_only_folders,
    without_rights,
)
from tests.faults.lab import Lab
from tests.faults.trial import assert_nothing_lost


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("disks")
    if not can_mount(found / "try"):
        pytest.skip("only root can mount a disk")
    return found


def test_a_full_disk(bench: Bench, folder: Path) -> None:
    trials = list(full_disks(bench, folder / "few", [(1, 1), (12, 0), (22, 2)]))
    assert_nothing_lost(trials)
    assert all("No space left on device" in trial.words and "--resume" in trial.words for trial in trials)


@pytest.mark.slow
def test_a_full_disk_at_any_time_and_by_any_file(bench: Bench, folder: Path) -> None:
    trials = list(full_disks(bench, folder / "all", [(event, pages) for event in range(1, 40) for pages in range(6)]))
    assert_nothing_lost(trials)
    files = {trial.words.split(":")[0] for trial in trials}
    assert {"log", "snapshot", "snapshots", "champion", "record"} <= files
    assert any("no checkpoint can be written" in trial.words for trial in trials)


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
