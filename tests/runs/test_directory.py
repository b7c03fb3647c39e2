"""The log: every line once, whatever happened before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tfsm.evolution.lockstep_loop import LogIntervals
from tfsm.runs.directory import MetricsFile


def line(run: int, evaluations: int, **more: Any) -> dict[str, Any]:
    return {"run": run, "evaluations": evaluations, **more}


def written(directory: Path, lines: list[dict[str, Any]]) -> bytes:
    file = MetricsFile(directory)
    for entry in lines:
        file.add(entry)
    file.close()
    return (directory / "metrics.jsonl").read_bytes()


LINES = [line(run, evaluations) for evaluations in (20, 40) for run in (0, 1)]


def test_a_line_that_is_there_is_not_written_again(tmp_path: Path) -> None:
    before = written(tmp_path, LINES[:3])
    file = MetricsFile(tmp_path)
    assert file.known == {(0, 20), (1, 20), (0, 40)}
    for entry in [line(0, 40, other=True), line(1, 40)]:
        file.add(entry)
    file.close()
    assert (tmp_path / "metrics.jsonl").read_bytes() == before + json.dumps(line(1, 40)).encode() + b"\n"


def test_what_was_added_is_there_at_once(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path)
    for entry in LINES[:1]:
        file.add(entry)
    assert (tmp_path / "metrics.jsonl").read_bytes() == json.dumps(LINES[0]).encode() + b"\n"
    file.sync()
    file.close()


def test_a_last_line_that_was_never_finished_is_taken_off_wherever_it_was_cut(tmp_path: Path) -> None:
    whole = written(tmp_path, LINES)
    first = whole.index(b"\n") + 1
    for cut in range(first, len(whole)):
        (tmp_path / "metrics.jsonl").write_bytes(whole[:cut])
        told: list[str] = []
        file = MetricsFile(tmp_path, told.append)
        for entry in LINES:
            file.add(entry)
        file.close()
        assert (tmp_path / "metrics.jsonl").read_bytes() == whole
        assert told == []


@pytest.mark.parametrize(
    "rubbish",
    [b"\0" * 300 + b"\n", b"\xff\xfe\n", b"[1]\n", b'{"run": 1}\n', b'{"run": "x", "evaluations": 2}\n', b"\n"],
)
def test_a_damaged_line_is_left_out_told_of_and_kept_in_a_copy(tmp_path: Path, rubbish: bytes) -> None:
    first, *others = written(tmp_path, LINES).splitlines(keepends=True)
    damaged = first + rubbish + b"".join(others)
    (tmp_path / "metrics.jsonl").write_bytes(damaged)
    told: list[str] = []
    MetricsFile(tmp_path, told.append).close()
    assert (tmp_path / "metrics.jsonl").read_bytes() == first + b"".join(others)
    assert (tmp_path / "metrics.jsonl.damaged-1").read_bytes() == damaged
    assert len(told) == 1
    assert "1 damaged lines were removed" in told[0]


def test_a_line_that_is_there_twice_is_kept_once(tmp_path: Path) -> None:
    whole = written(tmp_path, LINES)
    (tmp_path / "metrics.jsonl").write_bytes(whole + whole)
    MetricsFile(tmp_path).close()
    assert (tmp_path / "metrics.jsonl").read_bytes() == whole


def test_in_the_end_the_order_is_that_of_an_uninterrupted_run(tmp_path: Path) -> None:
    wanted = [*LINES, line(0, 47)]
    whole = b"".join(json.dumps(entry).encode() + b"\n" for entry in wanted)
    file = MetricsFile(tmp_path)
    # Interrupted after 33 evaluations; run 0 came to its end at 47, run 1 at 40.
    for entry in (line(1, 20), line(0, 20), line(0, 33), line(1, 33), line(1, 40), line(0, 47), line(0, 40)):
        file.add(entry)
    file.sort(LogIntervals(20, 0))
    assert (tmp_path / "metrics.jsonl").read_bytes() == whole


def test_in_the_end_no_line_is_left_of_an_interruption_before_there_were_children(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path)
    for entry in [line(0, 0), line(0, 20), line(0, 40), line(0, 60), line(1, 20)]:
        file.add(entry)
    file.sort(LogIntervals(20, 40))
    found = [json.loads(text) for text in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert found == [line(1, 20), line(0, 60)], "but the last of a run is its own"


def test_what_is_taken_back_can_be_told_otherwise(tmp_path: Path) -> None:
    written(tmp_path, LINES)
    file = MetricsFile(tmp_path)
    file.rewind({0: 20, 7: 0})
    assert file.known == {(0, 20), (1, 20), (1, 40)}
    for entry in [line(0, 20, other=True), line(0, 40, other=True)]:
        file.add(entry)
    file.close()
    found = [json.loads(text) for text in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert found == [LINES[0], LINES[1], LINES[3], line(0, 40, other=True)]
