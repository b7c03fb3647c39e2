"""Part (d): how the cost of a child grows with weights, outputs, experiences and runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace

from benchmarks.cases import NetworkCase, build_dense_model, make_inputs
from benchmarks.measure import Effort, Timing, compute_quartiles, fit_power_law, interleave
from benchmarks.results import BenchmarkTable

INPUTS = 10
OPERATORS = ("control", "sm-g-sum", "sm-g-abs", "sm-g-so")
"""Without SM-R, which consists of forward passes, and is among the slowest to compile."""
NOTES = [
    "Milliseconds of one compiled call that makes a child of every run's parent, in a tanh network with two hidden "
    "layers. The defaults, of which one grows: about 4,000 weights, 2 outputs, 32 experiences, 8 runs.",
    "All sizes of one dimension are measured in turns.",
]
FIT_NOTE = (
    "Least squares in log-log coordinates. 'net' is fitted to the time without that of an empty call; 'last' is the "
    "exponent between the two largest sizes."
)
EMPTY = "empty call"


def make_case(weights: int = 4_000, outputs: int = 2, experiences: int = 32, runs: int = 8) -> NetworkCase:
    """Return a case with about this many weights."""
    # (INPUTS + 1) w + (w + 1) w + (w + 1) outputs = weights
    half = (INPUTS + 2 + outputs) / 2
    width = max(1, round(math.sqrt(half * half + weights - outputs) - half))
    return NetworkCase(
        f"{width} wide",
        build_dense_model(INPUTS, [width, width], outputs, "tanh", "linear"),
        make_inputs(experiences, INPUTS),
        runs,
    )


SWEEPS: dict[str, tuple[Callable[[int], NetworkCase], Iterable[int]]] = {
    "weights": (lambda n: make_case(weights=n), (1_000, 10_000, 100_000, 1_000_000)),
    "outputs": (lambda n: make_case(outputs=n), (1, 10, 100)),
    "experiences": (lambda n: make_case(experiences=n), (10, 100, 1_000)),
    "runs": (lambda n: make_case(runs=n), (1, 8, 64)),
}
QUICK = {"runs": (8, 64)}


def run(effort: Effort) -> list[BenchmarkTable]:
    costs = BenchmarkTable("growth", "(d) cost of a child, ms", notes=NOTES)
    fits = BenchmarkTable("exponents", "(d) exponents of growth", notes=[FIT_NOTE])
    operators = ("control", "sm-g-sum") if effort.quick else OPERATORS
    # There are many sizes, and only their orders of magnitude matter.
    effort = replace(effort, seconds=effort.seconds / 2)
    for dimension, (make, sizes) in SWEEPS.items():
        if effort.quick and dimension not in QUICK:
            continue
        milliseconds = measure_sizes(
            {size: make(size) for size in (QUICK[dimension] if effort.quick else sizes)}, operators, effort
        )
        for size, times in milliseconds.items():
            costs.rows.append(
                {"grows": dimension, "size": size, **{name: compute_quartiles(t) for name, t in times.items()}}
            )
        fits.rows += [fit_exponents(dimension, operator, milliseconds) for operator in operators]
    return [costs, fits]


def measure_sizes(
    cases: dict[int, NetworkCase], operators: Iterable[str], effort: Effort
) -> dict[int, dict[str, list[float]]]:
    """Return milliseconds by size and operator, all measured in turns."""
    candidates: dict[tuple[int, str], Callable[[], object]] = {}
    for size, case in cases.items():
        candidates[size, EMPTY] = case.empty()
        candidates |= {(size, name): case.mutate(name) for name in operators}
    results = interleave(candidates, effort)
    return {
        size: {
            name: [1e3 * s for s in timing.seconds]
            for (own_size, name), timing in results.items()
            if own_size == size and isinstance(timing, Timing)
        }
        for size in cases
    }


def fit_exponents(dimension: str, operator: str, milliseconds: dict[int, dict[str, list[float]]]) -> dict[str, object]:
    """Return a row with the exponents of the power law, or without if too few sizes could be measured."""
    times = {size: sample for size, sample in milliseconds.items() if operator in sample}
    costs = {size: compute_quartiles(sample[operator]).median for size, sample in times.items()}
    net = {size: costs[size] - compute_quartiles(sample[EMPTY]).median for size, sample in times.items()}
    row: dict[str, object] = {"grows": dimension, "operator": operator}
    if len(costs) < 2:
        return row
    sizes = list(costs)
    fit = fit_power_law(sizes, list(costs.values()))
    return row | {
        "exponent": fit.exponent,
        "explained": fit.explained,
        "net": fit_power_law(sizes, list(net.values())).exponent if min(net.values()) > 0 else None,
        "last": fit_power_law(sizes[-2:], [costs[size] for size in sizes[-2:]]).exponent,
    }
