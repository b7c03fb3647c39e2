"""Part (a): what each operator costs, as a multiple of one forward pass over the same experiences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from benchmarks.arithmetic import ratio, spread
from benchmarks.cases import OPERATORS, Case, convolutional_case, million_case, parity_case, selu_case
from benchmarks.measure import Effort, Failure, Timing, interleave, needed
from benchmarks.results import Table

Found: TypeAlias = dict[str, Timing | Failure]

NOTES = [
    "A cost is the time of one compiled call that makes a child of every genome, over that of one compiled forward "
    "pass of the same genomes over the same experiences; from both the time of an empty call is taken off, which no "
    "limit should profit from ('with the call': not taken off).",
    "Limits: SM-G-SUM 2K+2 forward passes for K outputs, SM-G-SO 8; SM-G-ABS 1.5 x SM-G-SUM on dense networks and "
    "6 x on recurrent ones.",
]
FORWARD_NOTE = "'empty call' returns its argument's first weights: what TensorFlow takes to call anything."


def run(effort: Effort) -> list[Table]:
    forward = Table("forward", "(a) one forward pass", notes=[FORWARD_NOTE])
    cost = Table("operator_cost", "(a) cost of an operator in forward passes", notes=NOTES)
    cases = [parity_case] if effort.quick else [selu_case, parity_case, convolutional_case, million_case]
    operators = ("control", "sm-g-sum", "sm-g-abs") if effort.quick else OPERATORS
    for make in cases:
        case = make()
        sides = {"forward": case.forward(), "empty": case.empty()}
        found = interleave(sides | {name: case.child(name) for name in operators}, effort)
        forward.rows.append(forward_row(case, found))
        cost.rows += [cost_row(case, name, found) for name in operators]
    return [forward, cost]


def forward_row(case: Case, found: Found) -> dict[str, object]:
    return {
        "network": case.name,
        "weights": case.network.size,
        "outputs": case.outputs,
        "genomes": case.genomes,
        "experiences": len(case.experience),
        "compile": "XLA" if case.jit else "graph",
        "forward ms": spread([1e3 * s for s in needed(found, "forward").seconds]),
        "empty call ms": spread([1e3 * s for s in needed(found, "empty").seconds]),
        "first call s": needed(found, "forward").first,
    }


def cost_row(case: Case, name: str, found: Found) -> dict[str, object]:
    mine = found[name]
    if isinstance(mine, Failure):
        return {"network": case.name, "operator": name, "forward passes": mine.reason}
    forward, empty = needed(found, "forward").seconds, spread(needed(found, "empty").seconds).median
    cost = ratio(net(mine.seconds, empty), net(forward, empty))
    row: dict[str, object] = {"network": case.name, "operator": name, "forward passes": cost}
    row |= {"with the call": ratio(mine.seconds, forward), "x sum": None, "limit": None, "held": None}
    total = found.get("sm-g-sum")
    if name in ("sm-g-sum", "sm-g-so"):
        limit = 2 * case.outputs + 2 if name == "sm-g-sum" else 8
        row |= {"limit": str(limit), "held": cost.median <= limit}
    elif name == "sm-g-abs" and isinstance(total, Timing):
        share, most = ratio(net(mine.seconds, empty), net(total.seconds, empty)), 1.5 if case.kind == "dense" else 6.0
        row |= {"x sum": share, "limit": f"{most:g} x sum", "held": share.median <= most}
    return row | {"first call s": mine.first}


def net(seconds: Sequence[float], empty: float) -> list[float]:
    """Return what is left of some times without that of an empty call, which is at least a hundredth of them."""
    return [max(s - empty, 0.01 * s) for s in seconds]
