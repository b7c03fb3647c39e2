"""The results as Markdown tables, with targets: `python -m benchmarks.markdown benchmarks.json [FILE]`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.measure import Quartiles
from benchmarks.other_libraries import find_min_ratio
from benchmarks.results import BenchmarkTable, format_cell, format_significant

Row = dict[str, Any]
Rows = list[Row]


def render_markdown(path: Path) -> str:
    """Return a file of results as a Markdown page: the machine, the targets, and all tables with their notes."""
    results = json.loads(path.read_text(encoding="utf-8"))
    tables = [table for part in results["parts"].values() for table in part]
    targets = collect_targets({table["name"]: table["rows"] for table in tables})
    blocks = [describe_machine(results["meta"])]
    if targets.rows:
        blocks += [f"## {targets.title}", render_grid(targets.rows)]
    for table in tables:
        blocks.append(f"## {table['title']}")
        views = VIEWS.get(table["name"], lambda rows: [rows])(table["rows"]) if table["rows"] else []
        blocks += [render_grid(view) for view in views if view]
        blocks += ["\n".join(f"- {note}" for note in table["notes"])] if table["notes"] else []
    return "\n\n".join(blocks) + "\n"


def describe_machine(meta: Row) -> str:
    """Return the command, the time, the machine and the software of the measurement."""
    versions = ", ".join(f"{name} {version}" for name, version in meta["versions"].items() if version)
    where = f"{meta['processor']}, {meta['cores_used']} core of {meta['cores_in_machine']}, {meta['system']}"
    command = f"`{meta['command']}`, {sum(meta['seconds'].values()):.0f} s, {meta['date'][:10]}"
    return f"{command}: {where}; Python {meta['python']}, {versions}."


def render_grid(rows: Rows) -> str:
    """Return rows as a Markdown table, without empty columns."""
    columns = [c for c in dict.fromkeys(c for row in rows for c in row) if any(row.get(c) is not None for row in rows)]
    numeric = {c for c in columns if all(_is_number(row.get(c)) for row in rows)}
    lines = [columns, ["---:" if c in numeric else "---" for c in columns]]
    lines += [[format_markdown_cell(row.get(c)) for c in columns] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def format_markdown_cell(value: Any) -> str:
    """Format a cell: quartiles as the median with the other two around it, and None as nothing."""
    if value is None:
        return ""
    if value is False:
        return "**no**"
    return format_cell(Quartiles(**value) if isinstance(value, dict) else value)


def pivot_rows(rows: Rows, down: tuple[str, ...], across: str, value: Callable[[Row], Any], head: str = "{}") -> Rows:
    """Return a row per combination of the columns `down`, with a column per value of `across`."""
    values = dict.fromkeys(row[across] for row in rows)
    heads = [head.format(item) for item in (sorted(values) if all(map(_is_number, values)) else values)]
    pivoted: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        line = pivoted.setdefault(tuple(row[c] for c in down), {c: row[c] for c in down} | dict.fromkeys(heads))
        line[head.format(row[across])] = value(row)
    return list(pivoted.values())


def select_columns(*columns: str) -> Callable[[Rows], list[Rows]]:
    """Return a view of some columns."""
    return lambda rows: [[{c: row.get(c) for c in columns} for row in rows]]


def _view_whole_loop(rows: Rows) -> list[Rows]:
    rates = pivot_rows(rows, ("domain", "operator"), "runs", lambda row: row["evaluations/s"], "runs = {}")
    widest = max(row["runs"] for row in rows)
    compared = [row for row in rows if row["runs"] == widest and row.get("eager") is not None]
    columns = ("domain", "operator", "eager", "x eager", "tf.function", "x tf.function")
    return [rates, *(select_columns(*columns)(compared) if compared else [])]


def _view_exponents(rows: Rows) -> list[Rows]:
    fitted = [row for row in rows if row.get("exponent") is not None]
    # The exponent over all sizes, and that over the last two.
    return [
        pivot_rows(
            fitted, ("operator",), "grows", lambda row: f"{row['exponent']:.2f}, {row['last']:.2f}", "{}: fit, last"
        )
    ]


VIEWS: dict[str, Callable[[Rows], list[Rows]]] = {
    "forward": select_columns("network", "weights", "outputs", "genomes", "experiences", "compile", "forward ms"),
    "operator_cost": lambda rows: [pivot_rows(rows, ("network",), "operator", lambda row: row["forward passes"])],
    "whole_loop": _view_whole_loop,
    "other_libraries": lambda rows: [[{c: row[c] for c in row if not c.endswith(": held")} for row in rows]],
    "growth": lambda rows: [[{c: row[c] for c in row if c != "empty call"} for row in rows]],
    "exponents": _view_exponents,
    "flop_rate": select_columns("network", "what", "tfsm", "the other way", "products", "of products", "large product"),
}
"""How tables that are too wide for a page are shown. All others are shown as they are."""


BASELINES = {"eager": "an eager Keras loop", "tf.function": "a `tf.function` loop"}


def collect_targets(tables: dict[str, Rows]) -> BenchmarkTable:
    """Return the targets that these results cover, with what was measured."""
    rows = _cost_targets(tables.get("operator_cost", []))
    rows += _rate_targets(tables.get("whole_loop", []))
    rows += _library_targets(tables.get("other_libraries", []))
    rows += _offspring_targets(tables.get("offspring", []))
    return BenchmarkTable("targets", "Targets", rows)


def _cost_targets(rows: Rows) -> Rows:
    limits = dict.fromkeys((row["operator"], row["limit"]) for row in rows if row.get("limit"))
    targets = []
    for operator, limit in limits:
        selected = [row for row in rows if (row["operator"], row.get("limit")) == (operator, limit)]
        times, _, of_sum = limit.partition(" x ")
        column, unit = ("x sum", "x `sm-g-sum`") if of_sum else ("forward passes", "forward passes")
        measured = _join_medians({row["network"]: row[column] for row in selected})
        targets.append(_make_target(f"cost of `{operator}`", f"at most {times} {unit}", measured, selected, "held"))
    return targets


def _rate_targets(rows: Rows) -> Rows:
    with_target = [row for row in rows if row.get("target")]
    targets = [
        _make_target(
            f"{row['domain']}, {row['runs']} runs, `{row['operator']}`",
            f"at least {row['target']:,} evaluations/s",
            row["evaluations/s"],
            [row],
            "held",
        )
        for row in with_target
    ]
    for held in dict.fromkeys(column for row in with_target for column in row if column.startswith(">= ")):
        base = "eager" if held == ">= 100" else "tf.function"
        selected = [row for row in with_target if row.get(held) is not None]
        measured = _join_medians({f"`{row['operator']}`": row[f"x {base}"] for row in selected})
        what = f"{selected[0]['domain']}, {selected[0]['runs']} runs, vs. {BASELINES[base]}"
        targets.append(_make_target(what, f"at least {held[3:]} times as fast", measured, selected, held))
    return targets


def _library_targets(rows: Rows) -> Rows:
    targets = []
    for column in dict.fromkeys(column for row in rows for column in row if column.endswith(": x")):
        variant = column.removesuffix(": x")
        for row in rows:
            minimum = find_min_ratio(variant, row["algorithm"])
            if minimum is None or row.get(column) is None:
                continue
            target = "not slower" if minimum == 1.0 else f"at least {minimum:,g} times as fast"
            what = f"{variant} vs. {row['algorithm']}"
            # Also for variants without a verdict of their own: a reader should see how they compare.
            held = row[column]["median"] >= minimum
            targets.append({"what": what, "target": target, "measured": row[column], "held": held})
    return targets


def _offspring_targets(rows: Rows) -> Rows:
    targets = []
    for row in rows:
        shared = next(column for column in row if column.startswith("x ") and column.endswith(" runs"))
        is_rate = isinstance(row["target"], int)
        target = f"at least {row['target']:,} evaluations/s" if is_rate else f"at least {row['target']} {shared}"
        measured = row["offspring: evaluations/s" if is_rate else shared]
        what = f"{row['domain']}, one run, `{row['operator']}`, offspring {row['offspring']}"
        targets.append(_make_target(what, target, measured, [row], "held"))
    return targets


def _make_target(what: str, target: str, measured: object, rows: Rows, held: str) -> dict[str, Any]:
    return {"what": what, "target": target, "measured": measured, "held": all(row[held] for row in rows)}


def _join_medians(cells: dict[str, dict[str, float]]) -> str:
    return "; ".join(f"{name} {format_significant(cell['median'])}" for name, cell in cells.items())


def _is_number(value: Any) -> bool:
    return value is None or isinstance(value, dict | float) or (isinstance(value, int) and not isinstance(value, bool))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.markdown", description=__doc__)
    parser.add_argument("results", type=Path, help="a benchmarks.json")
    parser.add_argument("file", type=Path, nargs="?", help="the file to write; printed if not given")
    arguments = parser.parse_args()
    if arguments.file is None:
        print(render_markdown(arguments.results), end="")
    else:
        arguments.file.write_text(render_markdown(arguments.results), encoding="utf-8")


if __name__ == "__main__":
    main()
