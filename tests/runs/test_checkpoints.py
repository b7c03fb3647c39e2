"""The checkpoints of a directory: written so that one is always whole, and found again by what they say."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfsm.evolution.checkpoint import AsyncRunState, Checkpoint, DamagedCheckpoint
from tfsm.evolution.checkpoint_schedule import CheckpointInterval
from tfsm.evolution.observers import RunResult
from tfsm.evolution.state import LazyTable
from tfsm.runs import checkpoints as module
from tfsm.runs.checkpoints import CheckpointFiles, PackedCheckpoint

ABOUT = {"experiment": "this one", "versions": {"tfsm": "1", "numpy": "2"}}


def saved(first: int, count: int, spent: int, ended: tuple[int, ...] = ()) -> Checkpoint:
    """A group whose only table says of each run how far it is."""
    going = [run for run in range(first, first + count) if run not in ended]
    numbers = np.array([[run, spent] for run in going], np.int32).reshape(len(going), 2)
    results = tuple(RunResult(run, 7, True, spent - 1, 1.0, 1.0, np.ones(2, np.float32)) for run in ended)
    return Checkpoint(
        first, count, spent, results, {}, {"table": LazyTable(numbers.dtype, numbers.shape, lambda i: numbers[i])}
    )


def files(directory: Path, told: list[str] | None = None, about: dict[str, Any] | None = None, **more: Any) -> Any:
    return CheckpointFiles(
        directory, about or ABOUT, CheckpointInterval(evaluations=10), (told if told is not None else []).append, **more
    )


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in (directory / "checkpoints").iterdir())


def standing(found: list[Checkpoint]) -> dict[int, int]:
    """Return how far each run is that goes on, by the tables, which must agree with the header."""
    told = {}
    for group in found:
        for run, row in zip(group.active_runs, group.tables["table"], strict=True):
            assert list(row) == [run, group.evaluations_used]
            told[run] = group.evaluations_used
    return told


def test_two_are_kept_and_one_at_the_end(tmp_path: Path) -> None:
    own = files(tmp_path)
    for spent in (10, 20, 30):
        own.save(saved(0, 2, spent))
    assert names(tmp_path) == ["run-000-001-at-000000020.checkpoint", "run-000-001-at-000000030.checkpoint"]
    own.save(saved(0, 2, 40), last=True)
    assert names(tmp_path) == ["run-000-001-at-000000040.checkpoint"]
    assert standing(files(tmp_path).find(range(2))) == {0: 40, 1: 40}


def test_a_checkpoint_of_a_worker_is_written_as_it_arrived(tmp_path: Path) -> None:
    packed = PackedCheckpoint.pack(saved(0, 3, 30, ended=(1,)), ABOUT)
    files(tmp_path).save(packed)
    (name,) = names(tmp_path)
    assert name == "run-000-002-at-000000030.checkpoint"
    assert (tmp_path / "checkpoints" / name).read_bytes() == packed.content
    assert standing(files(tmp_path).find(range(3))) == {0: 30, 2: 30}


@pytest.mark.parametrize("damage", [lambda content: content[:-1], lambda content: content[:40] + b"?" + content[41:]])
def test_a_checkpoint_of_a_worker_that_is_damaged_is_not_written(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    packed = PackedCheckpoint.pack(saved(0, 3, 30), ABOUT)
    with pytest.raises(DamagedCheckpoint, match="the checkpoint that was sent is damaged"):
        files(tmp_path).save(replace(packed, content=damage(packed.content)))
    assert names(tmp_path) == []


def test_the_newest_of_each_run_is_found_however_they_were_grouped(tmp_path: Path) -> None:
    own = files(tmp_path)
    for group in (saved(0, 4, 30), saved(0, 2, 50), saved(3, 1, 40), saved(5, 1, 60)):
        own.save(group)
    assert standing(files(tmp_path).find(range(5))) == {0: 50, 1: 50, 2: 30, 3: 40}


def test_runs_that_have_ended_are_found_as_well(tmp_path: Path) -> None:
    files(tmp_path).save(saved(0, 3, 30, ended=(1,)))
    (group, *others) = files(tmp_path).find(range(3))
    assert not others
    assert group.active_runs == [0, 2]
    assert [result.run for result in group.results] == [1]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda file: file.write_bytes(file.read_bytes()[:-1]), "damaged or cut off"),
        (lambda file: file.write_bytes(b""), "empty"),
        (lambda file: file.write_bytes(b"x" * 500), "not a checkpoint of tfsm"),
    ],
)
def test_a_damaged_one_is_told_of_passed_over_and_never_deleted(
    tmp_path: Path, change: Callable[[Path], object], words: str
) -> None:
    own = files(tmp_path)
    own.save(saved(0, 2, 10))
    own.save(saved(0, 2, 20))
    newest = tmp_path / "checkpoints" / names(tmp_path)[-1]
    change(newest)
    damaged, told = newest.read_bytes(), []
    again = files(tmp_path, told)
    assert standing(again.find(range(2))) == {0: 10, 1: 10}
    (line,) = told
    assert words in line
    assert newest.name in line
    for spent in (20, 30, 40):
        again.save(saved(0, 2, spent))
    again.save(saved(0, 2, 50), last=True)
    assert newest.with_name(f"{newest.name}.damaged-1").read_bytes() == damaged
    assert names(tmp_path) == ["run-000-001-at-000000020.checkpoint.damaged-1", "run-000-001-at-000000050.checkpoint"]


def test_one_of_another_experiment_or_renamed_is_not_used(tmp_path: Path) -> None:
    files(tmp_path, about={**ABOUT, "experiment": "another"}).save(saved(0, 2, 30))
    files(tmp_path).save(saved(2, 2, 20))
    file = tmp_path / "checkpoints" / "run-002-003-at-000000020.checkpoint"
    file.rename(file.with_name("run-000-003-at-000000040.checkpoint"))
    told: list[str] = []
    assert files(tmp_path, told).find(range(4)) == []
    assert ["renamed" in told[0], "of another experiment" in told[1]] == [True, True]
    assert len(names(tmp_path)) == 2


def test_other_versions_are_told_of_and_used(tmp_path: Path) -> None:
    files(tmp_path, about={**ABOUT, "versions": {"tfsm": "1", "numpy": "1"}}).save(saved(0, 1, 10))
    told: list[str] = []
    assert standing(files(tmp_path, told).find(range(1))) == {0: 10}
    assert "numpy 1 then, 2 now" in told[0]


def test_one_that_cannot_be_written_costs_nothing_and_is_told_of_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    own = files(tmp_path, told)
    own.save(saved(0, 1, 10))

    def fail(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(module, "write_checkpoint", fail)
        own.save(saved(0, 1, 20))
        own.save(saved(0, 1, 30))
    assert len(told) == 1
    assert "cannot write a checkpoint (No space left on device); the run continues" in told[0]
    assert standing(files(tmp_path).find(range(1))) == {0: 10}
    own.save(saved(0, 1, 40))
    assert standing(files(tmp_path).find(range(1))) == {0: 40}


def test_what_was_told_is_on_the_disk_before_the_checkpoint_that_follows_it(tmp_path: Path) -> None:
    before: list[list[str]] = []
    own = files(tmp_path, sync=lambda: before.append(names(tmp_path)))
    own.save(saved(0, 1, 10))
    own.save(saved(0, 1, 20))
    assert before == [[], ["run-000-000-at-000000010.checkpoint"]]

    def fail() -> None:
        raise OSError(errno.EIO, "Input/output error")

    files(tmp_path, sync=fail).save(saved(0, 1, 30))
    assert standing(files(tmp_path).find(range(1))) == {0: 20}


def test_a_run_whose_log_is_not_whole_goes_on_from_where_it_is(tmp_path: Path) -> None:
    own = files(tmp_path)
    own.save(saved(0, 3, 20))
    own.save(saved(0, 3, 30, ended=(2,)))
    told: list[str] = []
    asked: list[tuple[int, int, bool]] = []

    def is_complete(run: int, evaluations: int, ended: bool) -> bool:
        asked.append((run, evaluations, ended))
        return run != 1 or evaluations <= 20

    found = files(tmp_path, told, is_complete=is_complete).find(range(3))
    assert standing(found) == {0: 30, 1: 20}
    assert asked[:3] == [(0, 30, False), (1, 30, False), (2, 29, True)]
    assert [result.run for group in found for result in group.results] == [2]
    assert "not used for run 1" in told[0]


def test_a_draft_of_somebody_who_was_killed_is_removed_and_nothing_else(tmp_path: Path) -> None:
    files(tmp_path).save(saved(0, 1, 10))
    for name in (".run-000-000-at-000000013.checkpoint.part.checkpoint", ".mine", "notes.txt"):
        (tmp_path / "checkpoints" / name).touch()
    files(tmp_path)
    assert names(tmp_path) == [".mine", "notes.txt", "run-000-000-at-000000010.checkpoint"]


def test_never_writes_nothing(tmp_path: Path) -> None:
    CheckpointFiles(tmp_path, ABOUT, CheckpointInterval()).save(saved(0, 1, 10), last=True)
    assert list(tmp_path.iterdir()) == []


def test_one_that_takes_the_place_of_all_others_is_the_only_one_whatever_their_numbers(tmp_path: Path) -> None:
    files(tmp_path).save(saved(7, 1, 90))
    own = files(tmp_path)
    own.save(saved(0, 2, 30))
    own.save(saved(0, 3, 0), replace_others=True)
    assert names(tmp_path) == ["run-000-002-at-000000000.checkpoint", "run-007-007-at-000000090.checkpoint"]
    assert standing(files(tmp_path).find(range(3))) == {0: 0, 1: 0, 2: 0}


def test_new_ones_of_a_run_that_is_evolved_again_are_kept_and_the_useless_go(tmp_path: Path) -> None:
    own = files(tmp_path)
    for spent in (80, 90):
        own.save(saved(0, 1, spent))
    told: list[str] = []
    again = files(tmp_path, told, is_complete=lambda run, evaluations, ended: False)
    assert again.find(range(1)) == []
    assert again.has_files
    assert len(told) == 2
    for spent in (10, 20, 30):
        again.save(saved(0, 1, spent))
    assert names(tmp_path) == ["run-000-000-at-000000020.checkpoint", "run-000-000-at-000000030.checkpoint"]


def test_out_of_step_each_run_is_asked_for_by_its_own_number(tmp_path: Path) -> None:
    numbers = np.array([7, 30], np.int32)
    table = {"evaluations": LazyTable(numbers.dtype, numbers.shape, lambda place: numbers[place])}
    files(tmp_path).save(Checkpoint(0, 2, 30, (), {}, table, {0: AsyncRunState(), 1: AsyncRunState()}, event_count=99))
    assert names(tmp_path) == ["run-000-001-at-000000099.checkpoint"]
    asked: list[tuple[int, int, bool]] = []
    files(tmp_path, is_complete=lambda *about: asked.append(about) or True).find(range(2))
    assert asked == [(0, 7, False), (1, 30, False)]
