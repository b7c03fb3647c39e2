"""Statistics on the results of runs: summaries, curves, intervals and significance tests.

Importing this package does not import TensorFlow.
"""

from __future__ import annotations

from tfsm.analysis.significance import (
    Comparison,
    Verdict,
    compare,
    compare_all,
    compare_retention,
    holm,
    is_significant,
    mann_whitney,
    retention,
)
from tfsm.analysis.statistics import (
    Difference,
    FitnessCurve,
    MethodSummary,
    SolvedCurve,
    fitness_curve,
    mean_best_fitness,
    newcombe_interval,
    solved_curve,
    summarize,
    wilson_interval,
)

__all__ = [
    "Comparison",
    "Difference",
    "FitnessCurve",
    "MethodSummary",
    "SolvedCurve",
    "Verdict",
    "compare",
    "compare_all",
    "compare_retention",
    "fitness_curve",
    "holm",
    "is_significant",
    "mann_whitney",
    "mean_best_fitness",
    "newcombe_interval",
    "retention",
    "solved_curve",
    "summarize",
    "wilson_interval",
]
