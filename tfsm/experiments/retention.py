"""What is left of performance after mutations: the numbers, their tests, and the file they are kept in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import numpy as np

from tfsm.errors import TfsmError
from tfsm.experiments.record import read_json, write_json
from tfsm.experiments.statistics import Verdict, compare_retained, holm

FILE: Final = "robustness.json"


@dataclass(frozen=True)
class Retained:
    """Mutants of one solution by one operator."""

    method: str
    """What evolved the solution."""
    run: int
    operator: str
    intensity: float
    before: float
    """The solution's performance."""
    performance: np.ndarray
    """`[n]`, of its mutants."""
    fraction: np.ndarray
    """`[n]`, of the solution's performance that they retain."""

    @property
    def mean(self) -> float:
        """The solution's robustness to this operator."""
        return float(self.fraction.mean())


@dataclass(frozen=True)
class Pair:
    """Two operators, on the solutions of one method."""

    method: str
    first: str
    second: str
    verdict: Verdict


@dataclass(frozen=True)
class Robustness:
    """All of it."""

    domain: str
    measure: str
    """What performance is."""
    perturbations: int
    nothing: float
    """The performance of somebody who has achieved nothing."""
    entries: tuple[Retained, ...]
    samples: tuple[Retained, ...]
    """Many mutants of one solution of each method, by its own operator."""

    @property
    def methods(self) -> list[str]:
        """What evolved solutions."""
        return list(dict.fromkeys(entry.method for entry in self.entries))

    @property
    def operators(self) -> list[str]:
        """What perturbed them."""
        return list(dict.fromkeys(entry.operator for entry in self.entries))

    def means(self, method: str, operator: str) -> np.ndarray:
        """Return the robustness `[n]` of each solution of a method to an operator."""
        return np.array([e.mean for e in self.entries if (e.method, e.operator) == (method, operator)])

    def pairs(self) -> list[Pair]:
        """Compare all operators on the solutions of each method; adjusted over all of it by Holm's method."""
        found = [
            Pair(method, first, second, compare_retained(self.means(method, first), self.means(method, second)))
            for method in self.methods
            for first, second in combinations(self.operators, 2)
        ]
        adjusted = holm([pair.verdict.p for pair in found])
        return [
            replace(pair, verdict=replace(pair.verdict, adjusted=p)) for pair, p in zip(found, adjusted, strict=True)
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        plain = asdict(replace(self, entries=(), samples=()))
        return plain | {"entries": _plain(self.entries), "samples": _plain(self.samples)}


def _plain(entries: Sequence[Retained]) -> list[dict[str, Any]]:
    return [
        asdict(entry)
        | {
            # What is not finite has no place in JSON.
            "performance": [float(x) if np.isfinite(x) else None for x in entry.performance],
            "fraction": [round(float(x), 6) for x in entry.fraction],
        }
        for entry in entries
    ]


def save(robustness: Robustness, file: Path) -> None:
    """Write all of it to a file."""
    write_json(file, robustness.as_dict())


def load(file: Path) -> Robustness:
    """Read it again."""
    record = read_json(file)
    try:
        entries, samples = (tuple(map(_entry, record[key])) for key in ("entries", "samples"))
        rest = {key: record[key] for key in ("domain", "measure", "perturbations", "nothing")}
        return Robustness(entries=entries, samples=samples, **rest)
    except (KeyError, TypeError) as error:
        raise TfsmError(f"{file}: not the record of robustness: {type(error).__name__}: {error}") from None


def _entry(record: dict[str, Any]) -> Retained:
    arrays = {
        key: np.array([np.nan if x is None else x for x in record[key]], float) for key in ("performance", "fraction")
    }
    return Retained(**{**record, **arrays})
