"""The paper's results by name: what to run, and what the paper says came of it."""

from __future__ import annotations

from tfsm.experiments.reproduce.catalog import FIGURES, Figure
from tfsm.experiments.reproduce.claims import Claim, Evidence, Finding

__all__ = ["FIGURES", "Claim", "Evidence", "Figure", "Finding"]
