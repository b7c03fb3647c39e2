"""Many comparisons at once, and what is left of their p-values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from tfsm.errors import TfsmError
from tfsm.experiments.outcomes import Study, names
from tfsm.experiments.statistics.comparisons import Comparison, compare
from tfsm.experiments.statistics.verdicts import Verdict


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjust the p-values of a family of tests by Holm's step-down method.

    A test that could not be made has no p-value and does not belong to the family.

    >>> holm([0.5, None, 0.125])
    [0.5, None, 0.25]
    """
    made = sorted((p, i) for i, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, i) in enumerate(made):
        largest = max(largest, min(1.0, (len(made) - rank) * p))
        adjusted[i] = largest
    return adjusted


def compare_all(study: Study, *, baseline: str | None = None, at: int | None = None) -> list[Comparison]:
    """Compare all pairs of a study's methods, or every other method with the baseline.

    The p-values of each test are adjusted over all pairs.

    Args:
        study: The methods.
        baseline: The second of every comparison; without one all pairs are compared, in the study's order.
        at: Evaluations within which to compare how many were solved.
    """
    if baseline is None:
        pairs = list(combinations(study.methods, 2))
    else:
        base = study.method(baseline)
        if base is None:
            raise TfsmError(
                f"no method named {baseline!r} to compare with; there are {', '.join(names(study.methods))}"
            )
        pairs = [(method, base) for method in study.methods if method is not base]
    return _adjusted([compare(first, second, at=at) for first, second in pairs])


def significant(verdict: Verdict, level: float = 0.05) -> bool:
    """Return whether a difference is significant among all that were looked for; never so without adjusting."""
    return verdict.adjusted is not None and verdict.adjusted < level


def _adjusted(comparisons: list[Comparison]) -> list[Comparison]:
    verdicts: list[dict[str, Verdict]] = [dict(comparison.verdicts) for comparison in comparisons]
    for key in verdicts[0] if verdicts else ():
        for of_pair, adjusted in zip(verdicts, holm([of_pair[key].p for of_pair in verdicts]), strict=True):
            of_pair[key] = replace(of_pair[key], adjusted=adjusted)
    return [replace(comparison, verdicts=of_pair) for comparison, of_pair in zip(comparisons, verdicts, strict=True)]
