"""Damaged files are told of, kept, and made good."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults import damage
from tests.faults.bench import Bench
from tests.faults.trial import assert_nothing_lost


@pytest.mark.parametrize("places", [1, pytest.param(40, marks=pytest.mark.slow)])
def test_a_damaged_checkpoint(bench: Bench, left: Path, places: int) -> None:
    assert_nothing_lost(damage.damaged_checkpoints(bench, left, places))


def test_no_checkpoint_that_is_whole(bench: Bench, left: Path) -> None:
    assert_nothing_lost([damage.all_damaged(bench, left)])


@pytest.mark.parametrize("places", [1, pytest.param(30, marks=pytest.mark.slow)])
def test_a_damaged_log(bench: Bench, left: Path, places: int) -> None:
    assert_nothing_lost(damage.damaged_logs(bench, left, places))


@pytest.mark.parametrize("places", [1, pytest.param(30, marks=pytest.mark.slow)])
def test_damaged_snapshots(bench: Bench, left: Path, places: int) -> None:
    assert_nothing_lost(damage.damaged_snapshots(bench, left, places))


def test_drafts_that_were_left_behind(bench: Bench, left: Path) -> None:
    assert_nothing_lost(damage.left_drafts(bench, left))


def test_a_directory_whose_owner_was_killed_before_its_record_was_written(bench: Bench) -> None:
    out = bench.out()
    out.mkdir()
    (out / ".lock").touch()
    (out / ".run.json.part.json").write_text("{")
    assert bench.expected.lost(bench.final(out)) == []
