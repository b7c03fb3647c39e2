"""Part (a): the cost of each operator as a multiple of one forward pass over the same experiences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from benchmarks.cases import (
    OPERATORS,
    NetworkCase,
    make_convolutional_case,
    make_million_case,
    make_parity_case,
    make_selu_case,
)
from benchmarks.measure import Effort, Failure, Timing, compute_quartiles, compute_ratio, interleave, require_timing
from benchmarks.results import BenchmarkTable

Results: TypeAlias = dict[str, Timing | Failure]

NOTES = [
    "A cost is the time of one compiled call that makes a child of every genome, divided by that of one compiled "
    "forward pass of the same genomes over the same experiences. The time of an empty call is subtracted from both, so "
    "that no limit profits from it ('with the call': not subtracted).",
    "Limits: SM-G-SUM 2K+2 forward passes for K outputs, SM-G-SO 8; SM-G-ABS 1.5 x SM-G-SUM on dense networks and "
    "6 x on recurrent ones.",
]
DIVERGENCE = 0.01
DIVERGENCE_NOTES = [
    "The same costs at a divergence of 1 % of the variance of the outputs, with the relative guard. 'more' is what the "
    "divergence adds to an intensity: the outputs of the parent, and one forward pass per trial. 'trials' is the mean "
    "per child; a batch takes as many as its slowest child.",
]
FORWARD_NOTE = "'empty call' returns the first weights of its argument: the overhead of calling TensorFlow."


def run(effort: Effort) -> list[BenchmarkTable]:
    forward = BenchmarkTable("forward", "(a) one forward pass", notes=[FORWARD_NOTE])
    cost = BenchmarkTable("operator_cost", "(a) cost of an operator in forward passes", notes=NOTES)
    divergence = BenchmarkTable("divergence_cost", "(a) cost of a divergence in forward passes", notes=DIVERGENCE_NOTES)
    cases = (
        [make_parity_case]
        if effort.quick
        else [make_selu_case, make_parity_case, make_convolutional_case, make_million_case]
    )
    operators = ("control", "sm-g-sum", "sm-g-abs") if effort.quick else OPERATORS
    for make in cases:
        case = make()
        candidates = {"forward": case.forward(), "empty": case.empty()}
        results = interleave(candidates | {name: case.mutate(name) for name in operators}, effort)
        forward.rows.append(make_forward_row(case, results))
        cost.rows += [make_cost_row(case, name, results) for name in operators]
        reached = interleave(candidates | {name: case.reach(name, DIVERGENCE) for name in operators}, effort)
        divergence.rows += [make_divergence_row(case, name, results, reached) for name in operators]
    return [forward, cost, divergence]


def make_forward_row(case: NetworkCase, results: Results) -> dict[str, object]:
    return {
        "network": case.name,
        "weights": case.network.size,
        "outputs": case.outputs,
        "genomes": case.genomes,
        "experiences": len(case.experience),
        "compile": "XLA" if case.jit else "graph",
        "forward ms": compute_quartiles([1e3 * s for s in require_timing(results, "forward").seconds]),
        "empty call ms": compute_quartiles([1e3 * s for s in require_timing(results, "empty").seconds]),
        "first call s": require_timing(results, "forward").first,
    }


def make_divergence_row(case: NetworkCase, name: str, by_intensity: Results, reached: Results) -> dict[str, object]:
    row: dict[str, object] = {"network": case.name, "operator": name}
    costs = []
    for results in (by_intensity, reached):
        timing = results[name]
        if isinstance(timing, Failure):
            return row | {"forward passes": timing.reason}
        forward, empty = (require_timing(results, what).seconds for what in ("forward", "empty"))
        overhead = compute_quartiles(empty).median
        costs.append(
            compute_ratio(subtract_empty_call(timing.seconds, overhead), subtract_empty_call(forward, overhead))
        )
    return row | {
        "with an intensity": costs[0],
        "with a divergence": costs[1],
        "more": costs[1].median - costs[0].median,
        "trials": case.count_trials(name, DIVERGENCE),
    }


def make_cost_row(case: NetworkCase, name: str, results: Results) -> dict[str, object]:
    timing = results[name]
    if isinstance(timing, Failure):
        return {"network": case.name, "operator": name, "forward passes": timing.reason}
    forward, empty = (
        require_timing(results, "forward").seconds,
        compute_quartiles(require_timing(results, "empty").seconds).median,
    )
    cost = compute_ratio(subtract_empty_call(timing.seconds, empty), subtract_empty_call(forward, empty))
    row: dict[str, object] = {"network": case.name, "operator": name, "forward passes": cost}
    row |= {"with the call": compute_ratio(timing.seconds, forward), "x sum": None, "limit": None, "held": None}
    sum_timing = results.get("sm-g-sum")
    if name in ("sm-g-sum", "sm-g-so"):
        limit = 2 * case.outputs + 2 if name == "sm-g-sum" else 8
        row |= {"limit": str(limit), "held": cost.median <= limit}
    elif name == "sm-g-abs" and isinstance(sum_timing, Timing):
        share, most = (
            compute_ratio(subtract_empty_call(timing.seconds, empty), subtract_empty_call(sum_timing.seconds, empty)),
            1.5 if case.kind == "dense" else 6.0,
        )
        row |= {"x sum": share, "limit": f"{most:g} x sum", "held": share.median <= most}
    return row | {"first call s": timing.first}


def subtract_empty_call(seconds: Sequence[float], empty: float) -> list[float]:
    """Subtract the time of an empty call from some times, leaving at least a hundredth of each."""
    return [max(s - empty, 0.01 * s) for s in seconds]
