"""What the benchmarks shall show, beside what they did show: one row a target."""

from __future__ import annotations

from typing import Any

from benchmarks.other_libraries import AT_LEAST
from benchmarks.results import Table, number

Rows = list[dict[str, Any]]
TITLE = "Targets"
BASES = {"eager": "an eager Keras loop", "tf.function": "a `tf.function` loop"}


def targets(tables: dict[str, Rows]) -> Table:
    """Return every target that these results say something about."""
    rows = _costs(tables.get("operator_cost", []))
    rows += _rates(tables.get("whole_loop", []))
    rows += _rivals(tables.get("other_libraries", []))
    return Table("targets", TITLE, rows)


def _costs(rows: Rows) -> Rows:
    limits = dict.fromkeys((row["operator"], row["limit"]) for row in rows if row.get("limit"))
    found = []
    for operator, limit in limits:
        mine = [row for row in rows if (row["operator"], row.get("limit")) == (operator, limit)]
        times, _, of_sum = limit.partition(" x ")
        column, unit = ("x sum", "x `sm-g-sum`") if of_sum else ("forward passes", "forward passes")
        measured = _listed({row["network"]: row[column] for row in mine})
        found.append(_row(f"cost of `{operator}`", f"at most {times} {unit}", measured, mine, "held"))
    return found


def _rates(rows: Rows) -> Rows:
    aimed = [row for row in rows if row.get("target")]
    found = [
        _row(
            f"{row['domain']}, {row['runs']} runs, `{row['operator']}`",
            f"at least {row['target']:,} evaluations/s",
            row["evaluations/s"],
            [row],
            "held",
        )
        for row in aimed
    ]
    for held in dict.fromkeys(column for row in aimed for column in row if column.startswith(">= ")):
        base = "eager" if held == ">= 100" else "tf.function"
        mine = [row for row in aimed if row.get(held) is not None]
        measured = _listed({f"`{row['operator']}`": row[f"x {base}"] for row in mine})
        what = f"{mine[0]['domain']}, {mine[0]['runs']} runs, beside {BASES[base]}"
        found.append(_row(what, f"at least {held[3:]} times as fast", measured, mine, held))
    return found


def _rivals(rows: Rows) -> Rows:
    found = []
    for column in dict.fromkeys(column for row in rows for column in row if column.endswith(": x")):
        for row in (row for row in rows if row["algorithm"] in AT_LEAST and row.get(column) is not None):
            least = AT_LEAST[row["algorithm"]]
            target = "not slower" if least == 1.0 else f"at least {least:,.0f} times as fast"
            what = f"{column.removesuffix(': x')}, beside {row['algorithm']}"
            # Also of ways that have no verdict of their own: a reader should see where they stand.
            held = row[column]["median"] >= least
            found.append({"what": what, "target": target, "measured": row[column], "held": held})
    return found


def _row(what: str, target: str, measured: object, rows: Rows, held: str) -> dict[str, Any]:
    return {"what": what, "target": target, "measured": measured, "held": all(row[held] for row in rows)}


def _listed(cells: dict[str, dict[str, float]]) -> str:
    return "; ".join(f"{name} {number(cell['median'])}" for name, cell in cells.items())
