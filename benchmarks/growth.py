"""Part (d): how the cost of a child grows with weights, outputs, experiences and runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace

from benchmarks.arithmetic import power_law, spread
from benchmarks.cases import Case, data, dense
from benchmarks.measure import Effort, Timing, interleave
from benchmarks.results import Table

INPUTS = 10
OPERATORS = ("control", "sm-g-sum", "sm-g-abs", "sm-g-so")
"""Without SM-R, which is nothing but forward passes, and among the longest to compile."""
NOTES = [
    "Milliseconds of one compiled call that makes a child of every run's parent, in a tanh network of two hidden "
    "layers. Unless it is what grows: about 4,000 weights, 2 outputs, 32 experiences, 8 runs.",
    "All sizes of one thing that grows are measured in turns.",
]
FIT_NOTE = (
    "Least squares in log-log coordinates. 'net' is fitted to what is left without the cost of calling anything at "
    "all; 'last' is the exponent between the two largest sizes alone."
)
EMPTY = "empty call"


def case(weights: int = 4_000, outputs: int = 2, experiences: int = 32, runs: int = 8) -> Case:
    """Return a network of about so many weights."""
    # (INPUTS + 1) w + (w + 1) w + (w + 1) outputs = weights
    half = (INPUTS + 2 + outputs) / 2
    width = max(1, round(math.sqrt(half * half + weights - outputs) - half))
    return Case(
        f"{width} wide", dense(INPUTS, [width, width], outputs, "tanh", "linear"), data(experiences, INPUTS), runs
    )


SWEEPS: dict[str, tuple[Callable[[int], Case], Iterable[int]]] = {
    "weights": (lambda n: case(weights=n), (1_000, 10_000, 100_000, 1_000_000)),
    "outputs": (lambda n: case(outputs=n), (1, 10, 100)),
    "experiences": (lambda n: case(experiences=n), (10, 100, 1_000)),
    "runs": (lambda n: case(runs=n), (1, 8, 64)),
}
QUICK = {"runs": (8, 64)}


def run(effort: Effort) -> list[Table]:
    costs = Table("growth", "(d) cost of a child, ms", notes=NOTES)
    fits = Table("exponents", "(d) exponents of growth", notes=[FIT_NOTE])
    operators = ("control", "sm-g-sum") if effort.quick else OPERATORS
    # There are many sizes, and what counts is how they differ by powers of ten.
    effort = replace(effort, seconds=effort.seconds / 2)
    for what, (make, sizes) in SWEEPS.items():
        if effort.quick and what not in QUICK:
            continue
        found = measured({size: make(size) for size in (QUICK[what] if effort.quick else sizes)}, operators, effort)
        for size, times in found.items():
            costs.rows.append({"grows": what, "size": size, **{side: spread(t) for side, t in times.items()}})
        fits.rows += [exponents(what, operator, found) for operator in operators]
    return [costs, fits]


def measured(grown: dict[int, Case], operators: Iterable[str], effort: Effort) -> dict[int, dict[str, list[float]]]:
    """Return milliseconds by size and operator, all of them measured in turns."""
    sides: dict[tuple[int, str], Callable[[], object]] = {}
    for size, case_ in grown.items():
        sides[size, EMPTY] = case_.empty()
        sides |= {(size, name): case_.child(name) for name in operators}
    found = interleave(sides, effort)
    return {
        size: {
            name: [1e3 * s for s in timing.seconds]
            for (own, name), timing in found.items()
            if own == size and isinstance(timing, Timing)
        }
        for size in grown
    }


def exponents(what: str, operator: str, found: dict[int, dict[str, list[float]]]) -> dict[str, object]:
    """Return a row with the power law's exponents; without them where too few sizes could be measured."""
    times = {size: mine for size, mine in found.items() if operator in mine}
    costs = {size: spread(mine[operator]).median for size, mine in times.items()}
    net = {size: costs[size] - spread(mine[EMPTY]).median for size, mine in times.items()}
    row: dict[str, object] = {"grows": what, "operator": operator}
    if len(costs) < 2:
        return row
    sizes = list(costs)
    fit = power_law(sizes, list(costs.values()))
    return row | {
        "exponent": fit.exponent,
        "explained": fit.explained,
        "net": power_law(sizes, list(net.values())).exponent if min(net.values()) > 0 else None,
        "last": power_law(sizes[-2:], [costs[size] for size in sizes[-2:]]).exponent,
    }
