"""The paper's grid search: the best intensity or divergence per operator, and how certain the choice is."""

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
    """Results with one intensity or divergence."""

    intensity: float
    """The intensity; in a sweep of divergences, the divergence."""
    solved: int
    runs: int
    evaluations: float
    """Mean evaluations until the solution; an unsolved run counts with its whole budget."""
    fitness: float
    """Mean over runs of the best fitness."""
    sure: float
    """How often this intensity is chosen when the runs are resampled with replacement."""


@dataclass(frozen=True)
class IntensityChoice:
    """The intensity chosen for an operator."""

    mutation: str
    scores: tuple[IntensityScore, ...]
    """Best first."""
    by: str
    """The criterion: `evaluations`, or `fitness` if no run was solved with any intensity."""
    setting: str = "intensity"
    """What was tried: `intensity` or `divergence`."""
    unit: str = ""
    """`%` for divergences relative to the variance of the outputs, with `intensity` as the percentage."""

    def describe(self, score: IntensityScore) -> str:
        """Return what a score was measured with: `0.01` or `1%`."""
        return f"{score.intensity:g}{self.unit}"

    @property
    def best(self) -> IntensityScore:
        """The chosen intensity."""
        return self.scores[0]

    @property
    def at_the_edge(self) -> bool:
        """Whether it is the largest or smallest one tried, so that a wider grid may contain a better one."""
        tried = [score.intensity for score in self.scores]
        return len(tried) > 1 and self.best.intensity in (min(tried), max(tried))


def choose_intensity(
    mutation: str, tried: Mapping[float, Method], *, setting: str = "intensity", unit: str = "", seed: int = 0
) -> IntensityChoice:
    """Choose the intensity with the highest average performance.

    Performance is how soon runs are solved, as in the paper's own tuning. If no run is solved, it is the best fitness.

    Args:
        mutation: Name of the operator.
        tried: The runs with each intensity.
        setting: What was tried, `intensity` or `divergence`.
        unit: `%` for percentages.
        seed: Random seed of the resampling.
    """
    evaluations = {
        x: np.array([o.evaluations if o.solved else m.budget for o in m.outcomes], float) for x, m in tried.items()
    }
    fitness = {
        x: np.array([-np.inf if o.best_fitness is None else o.best_fitness for o in m.outcomes])
        for x, m in tried.items()
    }
    by = "evaluations" if any(method.solved for method in tried.values()) else "fitness"
    # Higher is better.
    performance = {x: -evaluations[x] if by == "evaluations" else fitness[x] for x in tried}
    certainty = _resample(list(performance.values()), [fitness[x] for x in tried], seed)
    scores = [
        IntensityScore(
            x, method.solved, len(method.outcomes), float(evaluations[x].mean()), float(fitness[x].mean()), float(share)
        )
        for (x, method), share in zip(tried.items(), certainty, strict=True)
    ]
    # Ties are broken by fitness, then by the smaller intensity.
    scores.sort(key=lambda score: (-performance[score.intensity].mean(), -score.fitness, score.intensity))
    return IntensityChoice(mutation, tuple(scores), by, setting, unit)


def _resample(performance: Sequence[np.ndarray], fitness: Sequence[np.ndarray], seed: int) -> np.ndarray:
    """Return how often each intensity is the best one over bootstrap samples of its runs."""
    rng = np.random.default_rng(seed)
    means, ties = [], []
    for values, tie_breakers in zip(performance, fitness, strict=True):
        indices = rng.integers(0, len(values), (RESAMPLES, len(values)))
        means.append(values[indices].mean(axis=1))
        ties.append(tie_breakers[indices].mean(axis=1))
    order = np.lexsort((np.array(ties), np.array(means)), axis=0)
    return np.bincount(order[-1], minlength=len(means)) / RESAMPLES


def format_toml(domain: str, choices: Sequence[IntensityChoice], command: Sequence[str]) -> str:
    """Format the choices as a section of a `tfsm.toml`."""
    setting = choices[0].setting if choices else "intensity"
    lines = [f"# Chosen by: {' '.join(command)}", f"[domains.{_toml_key(domain)}.{setting}]"]
    for choice in choices:
        best = choice.best
        lines.append(
            f"{_toml_key(choice.mutation)} = {_toml_value(choice.describe(best))}  # "
            f"solved {best.solved} of {best.runs}, {best.evaluations:,.0f} evaluations on average, "
            f"{best.sure:.0%} certain"
        )
    return "\n".join(lines) + "\n"


def _toml_value(text: str) -> str:
    return f'"{text}"' if text.endswith("%") else text


def _toml_key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else f'"{name}"'
