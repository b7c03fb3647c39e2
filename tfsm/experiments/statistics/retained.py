"""How much of a parent's performance its children keep."""

from __future__ import annotations

from math import isfinite

import numpy as np
import numpy.typing as npt

from tfsm.errors import TfsmError
from tfsm.experiments.statistics.verdicts import Verdict, mann_whitney


def retained(fitness_of_parent: float, fitness_of_children: npt.ArrayLike, worst: float) -> npt.NDArray[np.float64]:
    """Return the fraction of the parent's performance that each child retains, from 0 to 1.

    That is `(child - worst) / (parent - worst)`, clipped; a child whose fitness is not finite is broken and retains
    nothing. Of a parent that is no better than the worst, a child that is no worse than the parent retains all, any
    other one nothing.
    """
    if not (isfinite(fitness_of_parent) and isfinite(worst)):
        raise TfsmError(
            f"the parent's fitness and the worst one must be finite numbers, not {fitness_of_parent} and {worst}"
        )
    children = np.asarray(fitness_of_children, np.float64)
    whole = np.isfinite(children)
    # Halves, because the difference of two numbers may be larger than the largest one.
    gap = fitness_of_parent / 2 - worst / 2
    if gap <= 0:
        return np.where(whole & (children >= fitness_of_parent), 1.0, 0.0)
    kept = np.clip(np.where(whole, children, worst), worst, fitness_of_parent)
    return np.asarray((kept / 2 - worst / 2) / gap)


def compare_retained(a: npt.ArrayLike, b: npt.ArrayLike) -> Verdict:
    """Compare what was retained under two operators, by the Mann-Whitney U test: say, the means of each solution."""
    first, second = np.ravel(np.asarray(a, np.float64)), np.ravel(np.asarray(b, np.float64))
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise TfsmError("fractions of performance retained must be finite numbers")
    return mann_whitney(first.tolist(), second.tolist(), what="values")
