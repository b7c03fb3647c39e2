"""The paper's grid search: which intensity is best for each method, and how sure that is."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tfsm.analysis.results import Method

RESAMPLES: Final = 10_000


@dataclass(frozen=True)
class IntensityScore:
    """How well an intensity did."""

    intensity: float
    solved: int
    runs: int
    evaluations: float
    """Mean to the solution; a run without one counts with its whole budget."""
    fitness: float
    """Mean of each run's best."""
    sure: float
    """How often this intensity would be chosen if the same runs were drawn again, with replacement."""


@dataclass(frozen=True)
class IntensityChoice:
    """The intensity that was chosen for a method."""

    mutation: str
    scores: tuple[IntensityScore, ...]
    """Best first."""
    by: str
    """What decided: `evaluations`, or `fitness` where no run was solved at any intensity."""

    @property
    def best(self) -> IntensityScore:
        """The one that was chosen."""
        return self.scores[0]

    @property
    def at_the_edge(self) -> bool:
        """Whether it is the largest or smallest that was tried, so that a wider grid might have a better one."""
        tried = [score.intensity for score in self.scores]
        return len(tried) > 1 and self.best.intensity in (min(tried), max(tried))


def choose_intensity(mutation: str, tried: Mapping[float, Method], *, seed: int = 0) -> IntensityChoice:
    """Choose the intensity with the highest average performance.

    Performance is how soon runs are solved, as in the paper's own tuning; where nobody solves anything, it is the best
    fitness.

    Args:
        mutation: the operator's name.
        tried: the runs with each intensity.
        seed: of the resampling.
    """
    spent = {
        x: np.array([o.evaluations if o.solved else m.budget for o in m.outcomes], float) for x, m in tried.items()
    }
    fitness = {x: np.array([_number(o.best_fitness) for o in m.outcomes]) for x, m in tried.items()}
    by = "evaluations" if any(method.solved for method in tried.values()) else "fitness"
    # Where both are to be high.
    performance = {x: -spent[x] if by == "evaluations" else fitness[x] for x in tried}
    sure = _sure(list(performance.values()), [fitness[x] for x in tried], seed)
    scores = [
        IntensityScore(
            x, method.solved, len(method.outcomes), float(spent[x].mean()), float(fitness[x].mean()), float(share)
        )
        for (x, method), share in zip(tried.items(), sure, strict=True)
    ]
    # The fitness decides between those that are equal, and the smaller intensity between those equal in this, too.
    scores.sort(key=lambda score: (-performance[score.intensity].mean(), -score.fitness, score.intensity))
    return IntensityChoice(mutation, tuple(scores), by)


def _sure(performance: Sequence[np.ndarray], fitness: Sequence[np.ndarray], seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    means, ties = [], []
    for own, other in zip(performance, fitness, strict=True):
        drawn = rng.integers(0, len(own), (RESAMPLES, len(own)))
        means.append(own[drawn].mean(axis=1))
        ties.append(other[drawn].mean(axis=1))
    order = np.lexsort((np.array(ties), np.array(means)), axis=0)
    return np.bincount(order[-1], minlength=len(means)) / RESAMPLES


def _spent(method: Method) -> np.ndarray:
    return np.array([o.evaluations if o.solved else method.budget for o in method.outcomes], float)


def _number(fitness: float | None) -> float:
    return float("-inf") if fitness is None else fitness


def _key(name: str) -> str:
    """Return a name as TOML takes it for a key."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else f'"{name}"'


def format_toml(domain: str, choices: Sequence[IntensityChoice], command: Sequence[str]) -> str:
    """Return the part of a `tfsm.toml` that says what was chosen."""
    lines = [f"# Chosen by: {' '.join(command)}", f"[domains.{_key(domain)}.intensity]"]
    for choice in choices:
        best = choice.best
        lines.append(
            f"{_key(choice.mutation)} = {best.intensity:g}  # solved {best.solved} of {best.runs}, "
            f"{best.evaluations:,.0f} evaluations on average, {best.sure:.0%} sure"
        )
    return "\n".join(lines) + "\n"
