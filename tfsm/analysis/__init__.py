"""Public statistics.

Nothing in here imports TensorFlow; what draws imports matplotlib, and is imported when it is needed.

Importing this imports no TensorFlow.
"""

from __future__ import annotations

from tfsm.analysis.significance import (
    Comparison,
    Verdict,
    compare,
    compare_all,
    compare_retained,
    holm,
    mann_whitney,
    retained,
    significant,
)
from tfsm.analysis.statistics import (
    Difference,
    FitnessCurve,
    SolvedCurve,
    Summary,
    fitness_curve,
    mean_best,
    newcombe,
    solved_curve,
    summarize,
    wilson,
)

__all__ = [
    "Comparison",
    "Difference",
    "FitnessCurve",
    "SolvedCurve",
    "Summary",
    "Verdict",
    "compare",
    "compare_all",
    "compare_retained",
    "fitness_curve",
    "holm",
    "mann_whitney",
    "mean_best",
    "newcombe",
    "retained",
    "significant",
    "solved_curve",
    "summarize",
    "wilson",
]
