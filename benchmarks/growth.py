"""Part (d): how the cost of a child grows with weights, outputs, experiences and runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from benchmarks.arithmetic import power_law, spread
from benchmarks.cases import OPERATORS, Case, data, dense
from benchmarks.measure import Effort, Timing, interleave
from benchmarks.results import Table

INPUTS = 10
NOTES = [
    "Milliseconds of one compiled call that makes a child of every run's parent, in a tanh network of two hidden layers. "
    "Unless it is what grows: about 4,000 weights, 2 outputs, 32 experiences, 4 runs.",
]
FIT_NOTE = (
    "Least squares in log-log coordinates. Below 1: there is a fixed cost, which more work shares; 'last' is the "
    "exponent between the two largest sizes alone, where a fixed cost counts least."
)


def case(weights: int = 4_000, outputs: int = 2, experiences: int = 32, runs: int = 4) -> Case:
    """Return a network of about so many weights."""
    # (INPUTS + 1) w + (w + 1) w + (w + 1) outputs = weights
    half = (INPUTS + 2 + outputs) / 2
    width = max(1, round(math.sqrt(half * half + weights - outputs) - half))
    return Case(
        f"{width} wide", dense(INPUTS, [width, width], outputs, "tanh", "linear"), data(experiences, INPUTS), runs
    )


SWEEPS: dict[str, tuple[Callable[[int], Case], Iterable[int]]] = {
    "weights": (lambda n: case(weights=n), (1_000, 10_000, 100_000, 1_000_000)),
    "outputs": (lambda n: case(outputs=n), (1, 4, 20, 100)),
    "experiences": (lambda n: case(experiences=n), (10, 100, 1_000)),
    "runs": (lambda n: case(runs=n), (1, 4, 16, 64)),
}
QUICK = {"runs": (4, 16)}


def run(effort: Effort) -> list[Table]:
    costs = Table("growth", "(d) cost of a child, ms", notes=NOTES)
    fits = Table("exponents", "(d) exponents of growth", notes=[FIT_NOTE])
    operators = ("control", "sm-g-sum") if effort.quick else OPERATORS
    for what, (make, sizes) in SWEEPS.items():
        if effort.quick and what not in QUICK:
            continue
        found = [(size, measured(make(size), operators, effort)) for size in (QUICK[what] if effort.quick else sizes)]
        for size, times in found:
            costs.rows.append({"grows": what, "size": size, **{o: spread(t) for o, t in times.items()}})
        fits.rows += [exponents(what, operator, found) for operator in operators]
    return [costs, fits]


def measured(grown: Case, operators: Iterable[str], effort: Effort) -> dict[str, list[float]]:
    found = interleave({name: grown.child(name) for name in operators}, effort)
    return {name: [1e3 * s for s in timing.seconds] for name, timing in found.items() if isinstance(timing, Timing)}


def exponents(what: str, operator: str, found: list[tuple[int, dict[str, list[float]]]]) -> dict[str, object]:
    points = [(size, spread(times[operator]).median) for size, times in found if operator in times]
    x, y = [size for size, _ in points], [cost for _, cost in points]
    row: dict[str, object] = {"grows": what, "operator": operator}
    if len(points) < 2:
        return row
    fit = power_law(x, y)
    return row | {"exponent": fit.exponent, "explained": fit.explained, "last": power_law(x[-2:], y[-2:]).exponent}
