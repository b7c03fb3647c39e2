"""Tables of results, saved as JSON and printed to the terminal."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as RichTable

from benchmarks.measure import Quartiles
from tfsm.utils.files import to_json


@dataclass
class BenchmarkTable:
    """Rows with the same columns. A cell is a number, a string, a boolean, quartiles or None."""

    name: str
    """The name by which plots and Markdown tables find it."""
    title: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def columns(self) -> list[str]:
        """Return the columns in order of first appearance."""
        return list(dict.fromkeys(column for row in self.rows for column in row))


def print_table(table: BenchmarkTable, console: Console) -> None:
    """Print a table and its notes."""
    grid = RichTable(title=table.title, title_justify="left", title_style="bold")
    for column in table.columns():
        texts = [format_cell(row.get(column)) for row in table.rows]
        grid.add_column(column, justify="left" if any(c.isalpha() for c in "".join(texts)) else "right")
    for row in table.rows:
        grid.add_row(*(format_cell(row.get(column)) for column in table.columns()))
    console.print(grid)
    for note in table.notes:
        console.print(f"  {note}", highlight=False)
    console.print()


def format_cell(cell: Any) -> str:
    """Format a cell: counts in full, measurements with three digits, medians with their quartiles."""
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "NO"
    if isinstance(cell, Quartiles):
        return f"{format_significant(cell.median)} [{format_significant(cell.low)}, {format_significant(cell.high)}]"
    if isinstance(cell, int):
        return f"{cell:,}"
    return format_significant(cell) if isinstance(cell, float) else str(cell)


def format_significant(value: float) -> str:
    """Format a number with three significant digits and thousands separators.

    >>> format_significant(0.012345), format_significant(12.345), format_significant(12345.6), format_significant(0)
    ('0.0123', '12.3', '12,300', '0')
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    rounded = round(value, 2 - math.floor(math.log10(abs(value))))
    if abs(rounded) >= 100:
        return f"{rounded:,.0f}"
    return f"{rounded:.3g}"


def build_document(meta: dict[str, Any], parts: dict[str, list[BenchmarkTable]]) -> dict[str, Any]:
    """Return everything as JSON data."""
    tables = {part: [dataclasses.asdict(table) for table in part_tables] for part, part_tables in parts.items()}
    document: dict[str, Any] = to_json({"meta": meta, "parts": tables})
    return document


def write_results(path: Path, meta: dict[str, Any], parts: dict[str, list[BenchmarkTable]]) -> None:
    """Write the results atomically."""
    temporary = path.with_suffix(".part")
    temporary.write_text(json.dumps(build_document(meta, parts), indent=1, allow_nan=False) + "\n", encoding="utf-8")
    temporary.replace(path)
