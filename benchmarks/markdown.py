"""Results as Markdown tables: `python -m benchmarks.markdown benchmarks.json [FILE]`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.arithmetic import Spread
from benchmarks.results import text
from benchmarks.targets import targets

Row = dict[str, Any]
Rows = list[Row]


def page(path: Path) -> str:
    """Return a file of results as a page: where it was measured, the targets, and every table with its notes."""
    results = json.loads(path.read_text(encoding="utf-8"))
    tables = [table for part in results["parts"].values() for table in part]
    aims = targets({table["name"]: table["rows"] for table in tables})
    blocks = [machine(results["meta"])]
    if aims.rows:
        blocks += [f"## {aims.title}", grid(aims.rows)]
    for table in tables:
        blocks.append(f"## {table['title']}")
        views = VIEWS.get(table["name"], _whole)(table["rows"]) if table["rows"] else []
        blocks += [grid(view) for view in views if view]
        blocks += ["\n".join(f"- {note}" for note in table["notes"])] if table["notes"] else []
    return "\n\n".join(blocks) + "\n"


def machine(meta: Row) -> str:
    """Say where, when and with what it was measured."""
    versions = ", ".join(f"{name} {version}" for name, version in meta["versions"].items() if version)
    where = f"{meta['processor']}, {meta['cores_used']} core of {meta['cores_in_machine']}, {meta['system']}"
    command = f"`{meta['command']}`, {sum(meta['seconds'].values()):.0f} s, {meta['date'][:10]}"
    return f"{command}: {where}; Python {meta['python']}, {versions}."


def grid(rows: Rows) -> str:
    """Return rows as a Markdown table, with every column that some row has something in."""
    columns = [c for c in dict.fromkeys(c for row in rows for c in row) if any(row.get(c) is not None for row in rows)]
    numeric = {c for c in columns if all(_is_number(row.get(c)) for row in rows)}
    lines = [columns, ["---:" if c in numeric else "---" for c in columns]]
    lines += [[cell(row.get(c)) for c in columns] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cell(value: Any) -> str:
    """Return a cell as it is written: a spread as its median with the quartiles around it."""
    if value is None:
        return ""
    if value is False:
        return "**no**"
    return text(Spread(**value) if isinstance(value, dict) else value)


def pivot(rows: Rows, down: tuple[str, ...], across: str, value: Callable[[Row], Any], head: str = "{}") -> Rows:
    """Return a row for every combination of the columns `down`, with a column for each content of `across`."""
    contents = dict.fromkeys(row[across] for row in rows)
    heads = [head.format(content) for content in (sorted(contents) if all(map(_is_number, contents)) else contents)]
    found: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        line = found.setdefault(tuple(row[c] for c in down), {c: row[c] for c in down} | dict.fromkeys(heads))
        line[head.format(row[across])] = value(row)
    return list(found.values())


def only(*columns: str) -> Callable[[Rows], list[Rows]]:
    """Return a view of some columns alone."""
    return lambda rows: [[{c: row.get(c) for c in columns} for row in rows]]


def _whole(rows: Rows) -> list[Rows]:
    return [rows]


def _whole_loop(rows: Rows) -> list[Rows]:
    rates = pivot(rows, ("domain", "operator"), "runs", lambda row: row["evaluations/s"], "runs = {}")
    widest = max(row["runs"] for row in rows)
    beside = [row for row in rows if row["runs"] == widest and row.get("eager") is not None]
    columns = ("domain", "operator", "eager", "x eager", "tf.function", "x tf.function")
    return [rates, *(only(*columns)(beside) if beside else [])]


def _exponents(rows: Rows) -> list[Rows]:
    fitted = [row for row in rows if row.get("exponent") is not None]
    # What a fit through all sizes says, and where it is heading.
    return [
        pivot(fitted, ("operator",), "grows", lambda row: f"{row['exponent']:.2f}, {row['last']:.2f}", "{}: fit, last")
    ]


VIEWS: dict[str, Callable[[Rows], list[Rows]]] = {
    "forward": only("network", "weights", "outputs", "genomes", "experiences", "compile", "forward ms"),
    "operator_cost": lambda rows: [pivot(rows, ("network",), "operator", lambda row: row["forward passes"])],
    "whole_loop": _whole_loop,
    "other_libraries": lambda rows: [[{c: row[c] for c in row if not c.endswith(": held")} for row in rows]],
    "growth": lambda rows: [[{c: row[c] for c in row if c != "empty call"} for row in rows]],
    "exponents": _exponents,
    "flop_rate": only("network", "what", "tfsm", "the other way", "products", "of products", "large product"),
}
"""How tables that are too wide for a page are shown; any other one is shown as it is."""


def _is_number(value: Any) -> bool:
    return value is None or isinstance(value, dict | float) or (isinstance(value, int) and not isinstance(value, bool))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.markdown", description=__doc__)
    parser.add_argument("results", type=Path, help="a benchmarks.json")
    parser.add_argument("file", type=Path, nargs="?", help="where the page goes; printed if not given")
    asked = parser.parse_args()
    if asked.file is None:
        print(page(asked.results), end="")
    else:
        asked.file.write_text(page(asked.results), encoding="utf-8")


if __name__ == "__main__":
    main()
