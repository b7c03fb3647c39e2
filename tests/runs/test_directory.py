"""The metrics log has every line exactly once, also after interruptions and damage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tfsm.evolution.batches import Batches, LogIntervals
from tfsm.runs.directory import MetricsFile


def make_line(run: int, evaluations: int, **more: Any) -> dict[str, Any]:
    return {"run": run, "evaluations": evaluations, **more}


def write(directory: Path, lines: list[dict[str, Any]]) -> bytes:
    file = MetricsFile(directory)
    for entry in lines:
        file.add(entry)
    file.close()
    return (directory / "metrics.jsonl").read_bytes()


LINES = [make_line(run, evaluations) for evaluations in (20, 40) for run in (0, 1)]


def test_an_existing_line_is_not_written_again(tmp_path: Path) -> None:
    before = write(tmp_path, LINES[:3])
    file = MetricsFile(tmp_path)
    assert file.known == {(0, 20), (1, 20), (0, 40)}
    for entry in [make_line(0, 40, other=True), make_line(1, 40)]:
        file.add(entry)
    file.close()
    assert (tmp_path / "metrics.jsonl").read_bytes() == before + json.dumps(make_line(1, 40)).encode() + b"\n"


def test_added_lines_are_written_immediately(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path)
    for entry in LINES[:1]:
        file.add(entry)
    assert (tmp_path / "metrics.jsonl").read_bytes() == json.dumps(LINES[0]).encode() + b"\n"
    file.sync()
    file.close()


def test_an_incomplete_last_line_is_removed_wherever_it_was_cut(tmp_path: Path) -> None:
    whole = write(tmp_path, LINES)
    first = whole.index(b"\n") + 1
    for cut in range(first, len(whole)):
        (tmp_path / "metrics.jsonl").write_bytes(whole[:cut])
        messages: list[str] = []
        file = MetricsFile(tmp_path, messages.append)
        for entry in LINES:
            file.add(entry)
        file.close()
        assert (tmp_path / "metrics.jsonl").read_bytes() == whole
        assert messages == []


@pytest.mark.parametrize(
    "rubbish",
    [b"\0" * 300 + b"\n", b"\xff\xfe\n", b"[1]\n", b'{"run": 1}\n', b'{"run": "x", "evaluations": 2}\n', b"\n"],
)
def test_a_damaged_line_is_removed_reported_and_kept_in_a_copy(tmp_path: Path, rubbish: bytes) -> None:
    first, *others = write(tmp_path, LINES).splitlines(keepends=True)
    damaged = first + rubbish + b"".join(others)
    (tmp_path / "metrics.jsonl").write_bytes(damaged)
    messages: list[str] = []
    MetricsFile(tmp_path, messages.append).close()
    assert (tmp_path / "metrics.jsonl").read_bytes() == first + b"".join(others)
    assert (tmp_path / "metrics.jsonl.damaged-1").read_bytes() == damaged
    assert len(messages) == 1
    assert "1 damaged lines were removed" in messages[0]


def test_a_duplicate_line_is_kept_once(tmp_path: Path) -> None:
    whole = write(tmp_path, LINES)
    (tmp_path / "metrics.jsonl").write_bytes(whole + whole)
    MetricsFile(tmp_path).close()
    assert (tmp_path / "metrics.jsonl").read_bytes() == whole


def test_the_final_order_is_that_of_an_uninterrupted_run(tmp_path: Path) -> None:
    expected = [*LINES, make_line(0, 47)]
    whole = b"".join(json.dumps(entry).encode() + b"\n" for entry in expected)
    file = MetricsFile(tmp_path)
    # Interrupted after 33 evaluations; run 0 ended at 47, run 1 at 40.
    for entry in (
        make_line(1, 20),
        make_line(0, 20),
        make_line(0, 33),
        make_line(1, 33),
        make_line(1, 40),
        make_line(0, 47),
        make_line(0, 40),
    ):
        file.add(entry)
    file.sort(LogIntervals(20, Batches(initial_population=0)))
    assert (tmp_path / "metrics.jsonl").read_bytes() == whole


def test_sorting_removes_lines_of_an_interruption_before_the_first_child(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path)
    for entry in [make_line(0, 0), make_line(0, 20), make_line(0, 40), make_line(0, 60), make_line(1, 20)]:
        file.add(entry)
    file.sort(LogIntervals(20, Batches(initial_population=40)))
    found = [json.loads(text) for text in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert found == [make_line(1, 20), make_line(0, 60)], "but the last line of a run is kept"


def test_lines_after_a_rewind_can_be_replaced(tmp_path: Path) -> None:
    write(tmp_path, LINES)
    file = MetricsFile(tmp_path)
    file.rewind({0: 20, 7: 0})
    assert file.known == {(0, 20), (1, 20), (1, 40)}
    for entry in [make_line(0, 20, other=True), make_line(0, 40, other=True)]:
        file.add(entry)
    file.close()
    found = [json.loads(text) for text in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert found == [LINES[0], LINES[1], LINES[3], make_line(0, 40, other=True)]
