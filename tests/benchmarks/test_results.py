"""Tables are printed and saved."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.measure import (
    Quartiles,
)
from benchmarks.results import BenchmarkTable, format_cell, format_significant, print_table, write_results


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        (None, "-"),
        (True, "yes"),
        (False, "NO"),
        ("text", "text"),
        (12345.6, "12,300"),
        (12345, "12,345"),
        (0.012345, "0.0123"),
        (0, "0"),
        (Quartiles(2.0, 1.0, 3.0, 5), "2 [1, 3]"),
    ],
)
def test_cells_are_shown_with_three_digits_or_as_counts(cell: object, shown: str) -> None:
    assert format_cell(cell) == shown


def test_a_number_that_is_not_finite_is_shown_as_such() -> None:
    assert format_significant(float("inf")) == "inf"


def test_a_table_shows_every_column_that_any_row_has() -> None:
    console = Console(width=80, record=True, file=io.StringIO())
    print_table(
        BenchmarkTable("name", "a title", [{"x": 1}, {"x": 2, "y": Quartiles(3.0, 2.0, 4.0, 5)}], ["a note"]), console
    )
    printed = console.export_text()
    assert all(part in printed for part in ("a title", "3 [2, 4]", "a note"))


def test_results_are_written_as_json(tmp_path: Path) -> None:
    rows = [{"rate": Quartiles(3.0, 2.0, 4.0, 5), "held": True, "worst": float("nan")}]
    write_results(tmp_path / "benchmarks.json", {"command": "x"}, {"a": [BenchmarkTable("name", "title", rows)]})
    results = json.loads((tmp_path / "benchmarks.json").read_text())
    assert results["parts"]["a"][0]["rows"] == [
        {"rate": {"median": 3.0, "low": 2.0, "high": 4.0, "samples": 5}, "held": True, "worst": None}
    ]
    assert list(tmp_path.iterdir()) == [tmp_path / "benchmarks.json"]
