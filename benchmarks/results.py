"""Results as tables: kept as JSON, shown on the terminal."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as RichTable

from benchmarks.arithmetic import Spread


@dataclass
class Table:
    """Some rows with the same columns; a cell is a number, a text, a truth value, a spread or nothing."""

    name: str
    """What plots look it up by."""
    title: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def columns(self) -> list[str]:
        """Return the columns, in the order in which rows first have them."""
        return list(dict.fromkeys(column for row in self.rows for column in row))


def show(table: Table, console: Console) -> None:
    """Print a table and what there is to say about it."""
    shown = RichTable(title=table.title, title_justify="left", title_style="bold")
    for column in table.columns():
        texts = [text(row.get(column)) for row in table.rows]
        shown.add_column(column, justify="left" if any(c.isalpha() for c in "".join(texts)) else "right")
    for row in table.rows:
        shown.add_row(*(text(row.get(column)) for column in table.columns()))
    console.print(shown)
    for note in table.notes:
        console.print(f"  {note}", highlight=False)
    console.print()


def text(cell: Any) -> str:
    """Return a cell as it is printed: counts in full, measurements with three digits, a spread with its quartiles."""
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "NO"
    if isinstance(cell, Spread):
        return f"{number(cell.median)} [{number(cell.low)}, {number(cell.high)}]"
    if isinstance(cell, int):
        return f"{cell:,}"
    return number(cell) if isinstance(cell, float) else str(cell)


def number(value: float) -> str:
    """Return a number with three significant digits, and thousands set apart.

    >>> number(0.012345), number(12.345), number(12345.6), number(0)
    ('0.0123', '12.3', '12,300', '0')
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    rounded = round(value, 2 - math.floor(math.log10(abs(value))))
    if abs(rounded) >= 100:
        return f"{rounded:,.0f}"
    return f"{rounded:.3g}"


def as_json(meta: dict[str, Any], parts: dict[str, list[Table]]) -> dict[str, Any]:
    """Return everything as JSON's own types."""
    tables = {part: [dataclasses.asdict(table) for table in found] for part, found in parts.items()}
    plain: dict[str, Any] = _plain({"meta": meta, "parts": tables})
    return plain


def write(path: Path, meta: dict[str, Any], parts: dict[str, list[Table]]) -> None:
    """Write the results, whole or not at all."""
    draft = path.with_suffix(".part")
    draft.write_text(json.dumps(as_json(meta, parts), indent=1, allow_nan=False) + "\n", encoding="utf-8")
    draft.replace(path)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
