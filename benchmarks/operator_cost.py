"""Part (a): what each operator costs, as a multiple of one forward pass over the same experiences."""

from __future__ import annotations

import tensorflow as tf

from benchmarks.arithmetic import ratio, spread
from benchmarks.cases import OPERATORS, Case, convolutional_case, million_case, parity_case, selu_case
from benchmarks.measure import Effort, Failure, Timing, interleave, needed
from benchmarks.results import Table

NOTES = [
    "Each cost is the time of one compiled call that makes a child of every genome, over that of one compiled forward "
    "pass of the same genomes over the same experiences. 'forward' and 'empty' are milliseconds.",
    "'empty' is a compiled call that returns its argument's first weight: what TensorFlow takes to call anything.",
    "Limits: SM-G-SUM 2K+2 forward passes for K outputs, SM-G-SO 8; SM-G-ABS 1.5 x SM-G-SUM on dense networks and "
    "6 x on recurrent ones.",
]


def run(effort: Effort) -> list[Table]:
    table = Table("operator_cost", "(a) cost of an operator in forward passes", notes=NOTES)
    cases = [parity_case] if effort.quick else [selu_case, parity_case, convolutional_case, million_case]
    operators = ("control", "sm-g-sum", "sm-g-abs") if effort.quick else OPERATORS
    for make in cases:
        table.rows += rows(make(), operators, effort)
    return [table]


def rows(case: Case, operators: tuple[str, ...], effort: Effort) -> list[dict[str, object]]:
    sides = {"forward": case.forward(), "empty": case.compiled(lambda parents: tf.identity(parents[:, 0]))}
    found = interleave(sides | {name: case.child(name) for name in operators}, effort)
    common = {
        "network": case.name,
        "weights": case.network.size,
        "genomes": case.genomes,
        "experiences": len(case.experience),
        "compile": "XLA" if case.jit else "graph",
    }
    forward, empty = needed(found, "forward"), needed(found, "empty")
    common |= {
        "forward": spread([1e3 * s for s in forward.seconds]),
        "empty": 1e3 * spread(empty.seconds).median,
    }
    return [common | row(case, name, found, forward) for name in operators]


def row(case: Case, name: str, found: dict[str, Timing | Failure], forward: Timing) -> dict[str, object]:
    mine = found[name]
    if isinstance(mine, Failure):
        return {"operator": name, "forward passes": mine.reason}
    cost = ratio(mine.seconds, forward.seconds)
    filled: dict[str, object] = {"operator": name, "forward passes": cost, "limit": None, "held": None}
    if name in ("sm-g-sum", "sm-g-so"):
        limit = 2 * case.outputs + 2 if name == "sm-g-sum" else 8
        filled |= {"limit": str(limit), "held": cost.median <= limit}
    total = found.get("sm-g-sum")
    if name == "sm-g-abs" and isinstance(total, Timing):
        share, limit = ratio(mine.seconds, total.seconds), 1.5 if case.kind == "dense" else 6.0
        filled |= {"limit": f"{limit:g} x sum", "held": share.median <= limit, "x sum": share}
    return filled | {"first call s": mine.first}
