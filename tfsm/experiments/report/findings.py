"""All that a report tells of a study, computed once for tables, figures and page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from tfsm.errors import TfsmError, UnknownNameError
from tfsm.experiments.outcomes import Study, names
from tfsm.experiments.report.archives import Archive, archive_of
from tfsm.experiments.report.series import Panel, Spread, panels_of, spread_of
from tfsm.experiments.statistics import (
    Comparison,
    FitnessCurve,
    SolvedCurve,
    Summary,
    compare_all,
    fitness_curve,
    solved_curve,
    summarize,
)

Band: TypeAlias = Literal["kaplan-meier", "wilson"]


@dataclass(frozen=True, eq=False)
class Findings:
    """What came of a study; mappings go by the methods' names, and leave out methods without such data."""

    study: Study
    at: int | None
    baseline: str | None
    band: Band
    summaries: tuple[Summary, ...]
    comparisons: tuple[Comparison, ...]
    solved: Mapping[str, SolvedCurve]
    fitness: Mapping[str, FitnessCurve]
    panels: tuple[Panel, ...]
    """The diagnostics of mutations, in the order in which they are shown."""
    spreads: Mapping[str, Spread]
    """How sensitive each layer's weights were at the end."""
    archives: Mapping[str, Archive]
    """What the best run had found of each kind of behavior, where a scheme divides it into cells."""


def examine(
    study: Study, *, at: int | None = None, baseline: str | None = None, band: Band = "kaplan-meier"
) -> Findings:
    """Compute all that a report tells of a study.

    Args:
        study: the methods.
        at: evaluations within which to compare how many runs were solved, too.
        baseline: whom to compare the others with; without one all pairs are compared.
        band: how the share of runs solved is estimated.
    """
    if at is not None and not 1 <= at <= study.budget:
        raise TfsmError(f"--at {at}: expected 1 to {study.budget}, the most evaluations of a run of {study.domain}")
    if baseline is not None and study.method(baseline) is None:
        raise UnknownNameError("method", baseline, names(study.methods), f" (in the runs of {study.domain})")
    return Findings(
        study=study,
        at=at,
        baseline=baseline,
        band=band,
        summaries=tuple(summarize(method) for method in study.methods),
        comparisons=tuple(compare_all(study, baseline=baseline, at=at)),
        solved={method.name: solved_curve(method, budget=method.budget, kind=band) for method in study.methods},
        fitness=_fitness(study),
        panels=panels_of(study),
        spreads={method.name: spread for method in study.methods if (spread := spread_of(method))},
        archives={method.name: found for method in study.methods if (found := archive_of(method)) is not None},
    )


def _fitness(study: Study) -> dict[str, FitnessCurve]:
    curves = {}
    for method in study.methods:
        # Old or broken runs may have logged no finite fitness at all; the others are drawn without them.
        try:
            curves[method.name] = fitness_curve(method, budget=method.budget)
        except TfsmError:
            continue
    return curves
