"""What counts the losses must see them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.faults.bench import Bench
from tests.faults.final import Final


@pytest.fixture
def copy(bench: Bench, tmp_path: Path) -> Path:
    assert bench.expected.pieces["status"] == "finished"
    return Path(shutil.copytree(bench.root / "run-1", tmp_path / "copy"))


def lost(bench: Bench, copy: Path) -> list[str]:
    return bench.expected.lost(Final.of(copy))


def test_a_copy_has_lost_nothing(bench: Bench, copy: Path) -> None:
    assert lost(bench, copy) == []
    kinds = {name.split()[0] for name in bench.expected.pieces}
    assert {"status", "run", "line", "champion", "snapshot", "what"} == kinds


def test_a_missing_line_and_a_changed_digit_are_seen(bench: Bench, copy: Path) -> None:
    log = copy / "metrics.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join([lines[0].replace("0.", "1.", 1), *lines[1:]]))
    assert lost(bench, copy) == ["line 0 of the log"]
    log.write_text("".join(lines[:-1]))
    assert lost(bench, copy) == [f"line {len(lines) - 1} of the log", f"line {len(lines)} of the log"]


def test_another_result_is_seen(bench: Bench, copy: Path) -> None:
    record = json.loads((copy / "run.json").read_text())
    record["runs"][1]["best_fitness"] *= 1 + 1e-7
    (copy / "run.json").write_text(json.dumps(record | {"status": "interrupted"}))
    assert lost(bench, copy) == ["run 1", "status"]


def test_another_champion_is_seen(bench: Bench, copy: Path) -> None:
    shutil.copy(copy / "champions" / "run-000.keras", copy / "champions" / "run-002.keras")
    assert lost(bench, copy) == ["champion run-002"]


def test_a_changed_snapshot_and_a_draft_are_seen(bench: Bench, copy: Path) -> None:
    file = copy / "behavior" / "run-000.npz"
    with np.load(file) as kept:
        tables = {name: kept[name] for name in kept.files}
    tables["behavior"][1, 0, 0] = np.nextafter(tables["behavior"][1, 0, 0], np.float32(9))
    np.savez(file, **tables)
    (copy / ".run.json.part.json").touch()
    assert lost(bench, copy) == ["left behind: .run.json.part.json", "snapshot at 50 of run-000"]
