"""Statistics of runs: curves, summaries, comparisons and robustness.

Importing this imports no TensorFlow.
"""

from __future__ import annotations

from tfsm.experiments.statistics.comparisons import Comparison, compare
from tfsm.experiments.statistics.curves import SolvedCurve, solved_curve
from tfsm.experiments.statistics.family import compare_all, holm, significant
from tfsm.experiments.statistics.fitness import FitnessCurve, fitness_curve, mean_best
from tfsm.experiments.statistics.proportions import Difference, newcombe, wilson
from tfsm.experiments.statistics.retained import compare_retained, retained
from tfsm.experiments.statistics.summary import Summary, summarize
from tfsm.experiments.statistics.verdicts import Verdict, mann_whitney

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
