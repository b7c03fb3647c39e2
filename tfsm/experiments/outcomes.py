"""What statistics and reports are made of: how each run of each method ended, and what was logged on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Outcome:
    """How one run ended."""

    run: int
    solved: bool
    evaluations: int
    """To the solution, or spent without one: then the solution would have come later, if ever."""
    best_fitness: float | None


@dataclass(frozen=True)
class Method:
    """Some runs with the same settings but for their number."""

    name: str
    """What the method is called in tables and figures; different for each method of a study."""
    outcomes: tuple[Outcome, ...]
    budget: int
    """The most evaluations of a run."""
    metrics: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    """What was logged, interval by interval: `run`, `evaluations`, `best_fitness` and so on."""
    settings: Mapping[str, Any] = field(default_factory=dict, repr=False)
    record: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """All that the run directory tells of itself."""
    directory: Path | None = None

    @property
    def solved(self) -> int:
        """How many runs were solved."""
        return sum(outcome.solved for outcome in self.outcomes)


@dataclass(frozen=True)
class Study:
    """Methods to be compared, on one domain."""

    domain: str
    methods: tuple[Method, ...]

    @property
    def budget(self) -> int:
        """The most evaluations of a run of any method."""
        return max(method.budget for method in self.methods)

    def method(self, name: str) -> Method | None:
        """Return the method of this name, if there is one."""
        return next((method for method in self.methods if method.name == name), None)


def names(methods: Sequence[Method]) -> list[str]:
    """Return what the methods are called."""
    return [method.name for method in methods]
