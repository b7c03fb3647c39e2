from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import comb, erfc, sqrt

import numpy as np
from hypothesis import strategies as st

from tfsm.analysis.results import Method, RunOutcome

Z = 1.959963984540054
"""95% of a normal distribution lie within this many standard deviations."""


def make_method(
    name: str = "sm-r", *, solved: Sequence[int] = (), failed: int = 0, stopped: Sequence[int] = (), budget: int = 100
) -> Method:
    """Return a method with runs solved after these evaluations, failed at the budget, or stopped earlier."""
    ends = [(True, at) for at in solved] + [(False, budget)] * failed + [(False, at) for at in stopped]
    return Method(name, tuple(RunOutcome(run, done, at, 0.5) for run, (done, at) in enumerate(ends)), budget)


def make_logged_method(records: dict[int, dict[int, float | None]], budget: int = 100) -> Method:
    """Return a method whose runs logged this best fitness after these evaluations."""
    metrics = [
        {"run": run, "evaluations": evaluations, "best_fitness": fitness}
        for run, known in records.items()
        for evaluations, fitness in known.items()
    ]
    return Method("sm-r", (), budget, tuple(metrics))


def two_sided(z: float) -> float:
    """Return the p-value of a standard normal statistic."""
    return erfc(abs(z) / sqrt(2))


def compute_barnard_slowly(first: tuple[int, int], second: tuple[int, int]) -> float:
    """Return Barnard's p-value from all outcomes that are as extreme, compared as fractions, at 2,001 common shares."""
    runs, others = first[1], second[1]

    def extremity(solved: int, other: int) -> Fraction:
        pooled = Fraction(solved + other, runs + others)
        if pooled in (0, 1):
            return Fraction(0)
        return (Fraction(solved, runs) - Fraction(other, others)) ** 2 / (pooled * (1 - pooled))

    observed = extremity(first[0], second[0])
    share = np.linspace(0, 1, 2_001)
    total = np.zeros_like(share)
    for solved in range(runs + 1):
        for other in range(others + 1):
            if extremity(solved, other) >= observed:
                count = solved + other
                ways = comb(runs, solved) * comb(others, other)
                total += ways * share**count * (1 - share) ** (runs + others - count)
    return float(total.max())


def draw_methods(name: str = "sm-r", *, min_size: int = 0, stop_early: bool = True) -> st.SearchStrategy[Method]:
    """Draw up to six runs of 20 evaluations, with many ties."""
    times = st.lists(st.integers(1, 20), max_size=6)
    stopped = st.lists(st.integers(1, 19), max_size=2) if stop_early else st.just([])
    return st.builds(
        lambda solved, failed, stopped: make_method(name, solved=solved, failed=failed, stopped=stopped, budget=20),
        times,
        st.integers(0, 3),
        stopped,
    ).filter(lambda drawn: len(drawn.outcomes) >= min_size)
