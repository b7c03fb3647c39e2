"""The checkpoints of a directory: one is always intact, and their headers identify them."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tfsm.evolution.checkpoint import AsyncRunState, Checkpoint, DamagedCheckpoint
from tfsm.evolution.checkpoint_schedule import CheckpointInterval
from tfsm.evolution.compile_plan import Plan
from tfsm.evolution.observers import RunResult
from tfsm.evolution.state import LazyTable
from tfsm.runs import checkpoints as module
from tfsm.runs.checkpoints import CheckpointFiles, PackedCheckpoint, estimate_disk, warn_of_small_disk

ABOUT = {"experiment": "this one", "versions": {"tfsm": "1", "numpy": "2"}}


def make_checkpoint(first: int, count: int, evaluations: int, ended: tuple[int, ...] = ()) -> Checkpoint:
    """Return a checkpoint of a group whose only table has the evaluations of each run."""
    active = [run for run in range(first, first + count) if run not in ended]
    numbers = np.array([[run, evaluations] for run in active], np.int32).reshape(len(active), 2)
    results = tuple(RunResult(run, 7, True, evaluations - 1, 1.0, 1.0, np.ones(2, np.float32)) for run in ended)
    return Checkpoint(
        first, count, evaluations, results, {}, {"table": LazyTable(numbers.dtype, numbers.shape, lambda i: numbers[i])}
    )


def open_files(
    directory: Path, messages: list[str] | None = None, about: dict[str, Any] | None = None, **more: Any
) -> Any:
    return CheckpointFiles(
        directory,
        about or ABOUT,
        CheckpointInterval(evaluations=10),
        (messages if messages is not None else []).append,
        **more,
    )


def list_names(directory: Path) -> list[str]:
    return sorted(path.name for path in (directory / "checkpoints").iterdir())


def read_progress(found: list[Checkpoint]) -> dict[int, int]:
    """Return the evaluations of each active run according to the tables, which must agree with the header."""
    progress = {}
    for group in found:
        for run, row in zip(group.active_runs, group.tables["table"], strict=True):
            assert list(row) == [run, group.evaluations_used]
            progress[run] = group.evaluations_used
    return progress


def test_two_checkpoints_are_kept_and_one_at_the_end(tmp_path: Path) -> None:
    files = open_files(tmp_path)
    for evaluations in (10, 20, 30):
        files.save(make_checkpoint(0, 2, evaluations))
    assert list_names(tmp_path) == ["run-000-001-at-000000020.checkpoint", "run-000-001-at-000000030.checkpoint"]
    files.save(make_checkpoint(0, 2, 40), last=True)
    assert list_names(tmp_path) == ["run-000-001-at-000000040.checkpoint"]
    assert read_progress(open_files(tmp_path).find(range(2))) == {0: 40, 1: 40}


def test_a_checkpoint_from_a_worker_is_written_unchanged(tmp_path: Path) -> None:
    packed = PackedCheckpoint.pack(make_checkpoint(0, 3, 30, ended=(1,)), ABOUT)
    open_files(tmp_path).save(packed)
    (name,) = list_names(tmp_path)
    assert name == "run-000-002-at-000000030.checkpoint"
    assert (tmp_path / "checkpoints" / name).read_bytes() == packed.content
    assert read_progress(open_files(tmp_path).find(range(3))) == {0: 30, 2: 30}


@pytest.mark.parametrize("damage", [lambda content: content[:-1], lambda content: content[:40] + b"?" + content[41:]])
def test_a_damaged_checkpoint_from_a_worker_is_not_written(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    packed = PackedCheckpoint.pack(make_checkpoint(0, 3, 30), ABOUT)
    with pytest.raises(DamagedCheckpoint, match="the checkpoint that was sent is damaged"):
        open_files(tmp_path).save(replace(packed, content=damage(packed.content)))
    assert list_names(tmp_path) == []


def test_the_newest_checkpoint_of_each_run_is_found_in_any_grouping(tmp_path: Path) -> None:
    files = open_files(tmp_path)
    for group in (
        make_checkpoint(0, 4, 30),
        make_checkpoint(0, 2, 50),
        make_checkpoint(3, 1, 40),
        make_checkpoint(5, 1, 60),
    ):
        files.save(group)
    assert read_progress(open_files(tmp_path).find(range(5))) == {0: 50, 1: 50, 2: 30, 3: 40}


def test_finished_runs_are_found_too(tmp_path: Path) -> None:
    open_files(tmp_path).save(make_checkpoint(0, 3, 30, ended=(1,)))
    (group, *others) = open_files(tmp_path).find(range(3))
    assert not others
    assert group.active_runs == [0, 2]
    assert [result.run for result in group.results] == [1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda file: file.write_bytes(file.read_bytes()[:-1]), "damaged or cut off"),
        (lambda file: file.write_bytes(b""), "empty"),
        (lambda file: file.write_bytes(b"x" * 500), "not a checkpoint of tfsm"),
    ],
)
def test_a_damaged_checkpoint_is_reported_skipped_and_kept(
    tmp_path: Path, change: Callable[[Path], object], message: str
) -> None:
    files = open_files(tmp_path)
    files.save(make_checkpoint(0, 2, 10))
    files.save(make_checkpoint(0, 2, 20))
    newest = tmp_path / "checkpoints" / list_names(tmp_path)[-1]
    change(newest)
    damaged, messages = newest.read_bytes(), []
    reopened = open_files(tmp_path, messages)
    assert read_progress(reopened.find(range(2))) == {0: 10, 1: 10}
    (line,) = messages
    assert message in line
    assert newest.name in line
    for evaluations in (20, 30, 40):
        reopened.save(make_checkpoint(0, 2, evaluations))
    reopened.save(make_checkpoint(0, 2, 50), last=True)
    assert newest.with_name(f"{newest.name}.damaged-1").read_bytes() == damaged
    assert list_names(tmp_path) == [
        "run-000-001-at-000000020.checkpoint.damaged-1",
        "run-000-001-at-000000050.checkpoint",
    ]


def test_a_renamed_checkpoint_or_one_of_another_experiment_is_not_used(tmp_path: Path) -> None:
    open_files(tmp_path, about={**ABOUT, "experiment": "another"}).save(make_checkpoint(0, 2, 30))
    open_files(tmp_path).save(make_checkpoint(2, 2, 20))
    file = tmp_path / "checkpoints" / "run-002-003-at-000000020.checkpoint"
    file.rename(file.with_name("run-000-003-at-000000040.checkpoint"))
    messages: list[str] = []
    assert open_files(tmp_path, messages).find(range(4)) == []
    assert ["renamed" in messages[0], "of another experiment" in messages[1]] == [True, True]
    assert len(list_names(tmp_path)) == 2


def test_checkpoints_of_other_versions_are_reported_and_used(tmp_path: Path) -> None:
    open_files(tmp_path, about={**ABOUT, "versions": {"tfsm": "1", "numpy": "1"}}).save(make_checkpoint(0, 1, 10))
    messages: list[str] = []
    assert read_progress(open_files(tmp_path, messages).find(range(1))) == {0: 10}
    assert "numpy 1 then, 2 now" in messages[0]


def test_a_checkpoint_that_cannot_be_written_is_reported_once_and_the_run_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages: list[str] = []
    files = open_files(tmp_path, messages)
    files.save(make_checkpoint(0, 1, 10))

    def fail(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(module, "write_checkpoint", fail)
        files.save(make_checkpoint(0, 1, 20))
        files.save(make_checkpoint(0, 1, 30))
    assert len(messages) == 1
    assert "cannot write a checkpoint (No space left on device); the run continues" in messages[0]
    assert read_progress(open_files(tmp_path).find(range(1))) == {0: 10}
    files.save(make_checkpoint(0, 1, 40))
    assert read_progress(open_files(tmp_path).find(range(1))) == {0: 40}


def test_results_are_synced_before_the_checkpoint_that_follows_them(tmp_path: Path) -> None:
    before: list[list[str]] = []
    files = open_files(tmp_path, sync=lambda: before.append(list_names(tmp_path)))
    files.save(make_checkpoint(0, 1, 10))
    files.save(make_checkpoint(0, 1, 20))
    assert before == [[], ["run-000-000-at-000000010.checkpoint"]]

    def fail() -> None:
        raise OSError(errno.EIO, "Input/output error")

    open_files(tmp_path, sync=fail).save(make_checkpoint(0, 1, 30))
    assert read_progress(open_files(tmp_path).find(range(1))) == {0: 20}


def test_a_run_with_an_incomplete_log_resumes_from_an_earlier_checkpoint(tmp_path: Path) -> None:
    files = open_files(tmp_path)
    files.save(make_checkpoint(0, 3, 20))
    files.save(make_checkpoint(0, 3, 30, ended=(2,)))
    messages: list[str] = []
    queries: list[tuple[int, int, bool]] = []

    def is_complete(run: int, evaluations: int, ended: bool) -> bool:
        queries.append((run, evaluations, ended))
        return run != 1 or evaluations <= 20

    found = open_files(tmp_path, messages, is_complete=is_complete).find(range(3))
    assert read_progress(found) == {0: 30, 1: 20}
    assert queries[:3] == [(0, 30, False), (1, 30, False), (2, 29, True)]
    assert [result.run for group in found for result in group.results] == [2]
    assert "not used for run 1" in messages[0]


def test_only_temporary_files_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    open_files(tmp_path).save(make_checkpoint(0, 1, 10))
    for name in (".run-000-000-at-000000013.checkpoint.part.checkpoint", ".mine", "notes.txt"):
        (tmp_path / "checkpoints" / name).touch()
    open_files(tmp_path)
    assert list_names(tmp_path) == [".mine", "notes.txt", "run-000-000-at-000000010.checkpoint"]


def test_without_an_interval_no_checkpoint_is_written(tmp_path: Path) -> None:
    CheckpointFiles(tmp_path, ABOUT, CheckpointInterval()).save(make_checkpoint(0, 1, 10), last=True)
    assert list(tmp_path.iterdir()) == []


def test_a_replacing_checkpoint_supersedes_all_others_whatever_their_numbers(tmp_path: Path) -> None:
    open_files(tmp_path).save(make_checkpoint(7, 1, 90))
    files = open_files(tmp_path)
    files.save(make_checkpoint(0, 2, 30))
    files.save(make_checkpoint(0, 3, 0), replace_others=True)
    assert list_names(tmp_path) == ["run-000-002-at-000000000.checkpoint", "run-007-007-at-000000090.checkpoint"]
    assert read_progress(open_files(tmp_path).find(range(3))) == {0: 0, 1: 0, 2: 0}


def test_new_checkpoints_of_a_restarted_run_replace_the_unusable_ones(tmp_path: Path) -> None:
    files = open_files(tmp_path)
    for evaluations in (80, 90):
        files.save(make_checkpoint(0, 1, evaluations))
    messages: list[str] = []
    reopened = open_files(tmp_path, messages, is_complete=lambda run, evaluations, ended: False)
    assert reopened.find(range(1)) == []
    assert reopened.has_files
    assert len(messages) == 2
    for evaluations in (10, 20, 30):
        reopened.save(make_checkpoint(0, 1, evaluations))
    assert list_names(tmp_path) == ["run-000-000-at-000000020.checkpoint", "run-000-000-at-000000030.checkpoint"]


def test_asynchronous_runs_are_checked_by_their_own_evaluations(tmp_path: Path) -> None:
    numbers = np.array([7, 30], np.int32)
    table = {"evaluations": LazyTable(numbers.dtype, numbers.shape, lambda place: numbers[place])}
    open_files(tmp_path).save(
        Checkpoint(0, 2, 30, (), {}, table, {0: AsyncRunState(), 1: AsyncRunState()}, event_count=99)
    )
    assert list_names(tmp_path) == ["run-000-001-at-000000099.checkpoint"]
    queries: list[tuple[int, int, bool]] = []
    open_files(tmp_path, is_complete=lambda *about: queries.append(about) or True).find(range(2))
    assert queries == [(0, 7, False), (1, 30, False)]


def fill_disk(monkeypatch: pytest.MonkeyPatch, used: int, total: int = 100 * 2**30) -> None:
    monkeypatch.setattr(module.shutil, "disk_usage", lambda path: SimpleNamespace(total=total, free=total - used))


def test_on_a_nearly_full_disk_one_checkpoint_is_kept_after_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages: list[str] = []
    files = open_files(tmp_path, messages)
    fill_disk(monkeypatch, 89 * 2**30)
    for evaluations in (10, 20):
        files.save(make_checkpoint(0, 1, evaluations))
    assert (len(list_names(tmp_path)), messages) == (2, [])
    fill_disk(monkeypatch, 91 * 2**30)
    for evaluations in (30, 40):
        files.save(make_checkpoint(0, 1, evaluations))
    assert list_names(tmp_path) == ["run-000-000-at-000000040.checkpoint"]
    (message,) = messages
    assert message.endswith("the disk is 91% full, 9.00 GiB are free; one checkpoint is kept instead of two")


def test_checkpoints_that_may_not_fit_the_disk_are_announced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan(jit=True, runs=4, least_width=2, why="", bytes_each=2**30)
    assert estimate_disk(plan, 20, side_by_side=False) == 12 * 2**30
    assert estimate_disk(plan, 20, side_by_side=True) == 60 * 2**30
    messages: list[str] = []
    fill_disk(monkeypatch, 88 * 2**30)
    warn_of_small_disk(tmp_path, 12 * 2**30, messages.append)
    assert messages == []
    warn_of_small_disk(tmp_path, 60 * 2**30, messages.append)
    assert messages[0].endswith(
        "checkpoints take up to 60.00 GiB, and 12.00 GiB are free: choose another --out, or --checkpoint-every never"
    )
