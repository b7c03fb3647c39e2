"""Damaged files are reported, kept and repaired; full and read-only disks lose no results."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.faults.disk_faults import (
    can_mount,
    contend_for_lock,
    damage_all_checkpoints,
    damage_checkpoints,
    damage_log,
    damage_snapshots,
    fill_disks,
    leave_temporary_files,
    limit_file_sizes,
    limit_file_sizes_of_command,
    make_directories_read_only,
    run_clock_backwards,
    run_clock_backwards_with_timed_checkpoints,
    run_without_write_permission,
)
from tests.faults.lab import Bench, Lab, assert_nothing_lost


@pytest.mark.slow
@pytest.mark.parametrize("offsets", [1, pytest.param(40, marks=pytest.mark.slow)])
def test_a_damaged_checkpoint_loses_nothing(bench: Bench, killed_experiment: Path, offsets: int) -> None:
    assert_nothing_lost(damage_checkpoints(bench, killed_experiment, offsets))


@pytest.mark.slow
def test_an_experiment_without_an_intact_checkpoint_restarts(bench: Bench, killed_experiment: Path) -> None:
    assert_nothing_lost([damage_all_checkpoints(bench, killed_experiment)])


@pytest.mark.slow
@pytest.mark.parametrize("offsets", [1, pytest.param(30, marks=pytest.mark.slow)])
def test_a_damaged_log_loses_nothing(bench: Bench, killed_experiment: Path, offsets: int) -> None:
    assert_nothing_lost(damage_log(bench, killed_experiment, offsets))


@pytest.mark.slow
@pytest.mark.parametrize("offsets", [1, pytest.param(30, marks=pytest.mark.slow)])
def test_damaged_snapshots_lose_nothing(bench: Bench, killed_experiment: Path, offsets: int) -> None:
    assert_nothing_lost(damage_snapshots(bench, killed_experiment, offsets))


def test_leftover_temporary_files_are_removed(bench: Bench, killed_experiment: Path) -> None:
    assert_nothing_lost(leave_temporary_files(bench, killed_experiment))


def test_a_directory_without_a_record_is_reused_after_a_kill(bench: Bench) -> None:
    out = bench.new_out()
    out.mkdir()
    (out / ".lock").touch()
    (out / ".run.json.part.json").write_text("{")
    assert bench.expected.list_lost(bench.finish(out)) == []


@pytest.fixture(scope="module")
def disk_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("disks")
    if not can_mount(folder / "try"):
        pytest.skip("only root can mount a disk")
    return folder


@pytest.mark.slow
def test_a_full_disk_loses_nothing(bench: Bench, disk_folder: Path) -> None:
    trials = list(fill_disks(bench, disk_folder / "few", [(1, 1), (10, 0), (18, 2)]))
    assert_nothing_lost(trials)
    assert all("No space left on device" in trial.details and "--resume" in trial.details for trial in trials)


@pytest.mark.slow
def test_a_full_disk_at_any_time_and_for_any_file_loses_nothing(bench: Bench, disk_folder: Path) -> None:
    trials = list(
        fill_disks(bench, disk_folder / "all", [(event, pages) for event in range(1, 28) for pages in range(6)])
    )
    assert_nothing_lost(trials)
    files = {trial.details.split(":")[0] for trial in trials}
    assert {"log", "snapshot", "snapshots", "champion", "record"} <= files
    assert any("cannot write a checkpoint" in trial.details for trial in trials)


@pytest.mark.slow
def test_a_file_size_limit_loses_nothing(bench: Bench) -> None:
    trials = list(limit_file_sizes(bench, [0, 1500, 9000]))
    assert_nothing_lost(trials)
    assert {trial.details.split(":")[0] for trial in trials} >= {"champion"}


@pytest.mark.slow
def test_any_file_size_limit_loses_nothing(bench: Bench) -> None:
    assert_nothing_lost(limit_file_sizes(bench, range(0, 12_000, 500)))


def test_a_read_only_directory_loses_nothing(bench: Bench, disk_folder: Path) -> None:
    assert_nothing_lost(make_directories_read_only(bench, disk_folder / "read-only", [0, 10]))


@pytest.mark.slow
def test_a_command_with_a_file_size_limit_loses_nothing(lab: Lab, bench: Bench) -> None:
    assert_nothing_lost([limit_file_sizes_of_command(lab, bench)])


@pytest.mark.slow
@pytest.mark.skipif(not os.geteuid() and not shutil.which("setpriv"), reason="root may write everywhere")
def test_a_command_without_write_permission_fails_in_one_line(lab: Lab) -> None:
    assert_nothing_lost([run_without_write_permission(lab)])


@pytest.mark.slow
def test_a_second_process_is_rejected_and_a_dead_process_releases_its_lock(lab: Lab, bench: Bench) -> None:
    assert_nothing_lost(contend_for_lock(lab, bench))


@pytest.mark.slow
def test_timed_checkpoints_survive_a_clock_running_backwards(bench: Bench) -> None:
    assert_nothing_lost(run_clock_backwards_with_timed_checkpoints(bench))


@pytest.mark.slow
def test_a_clock_running_backwards_changes_nothing(bench: Bench) -> None:
    assert_nothing_lost(run_clock_backwards(bench))
