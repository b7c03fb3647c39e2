"""The paper's experiments."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import product
from pathlib import Path
from typing import Any, Final

from tfsm.analysis import summarize
from tfsm.analysis.claims import (
    Claim,
    Evidence,
    Finding,
    ahead,
    faster,
    more_robust,
    not_faster,
    solves_all,
    solves_fewest,
    solves_more,
)
from tfsm.analysis.results import Method
from tfsm.analysis.robustness import Robustness
from tfsm.runs.records import write_json, write_text

ALL: Final = ("control", "sm-r", "sm-g-sum", "sm-g-abs", "sm-g-so")
SAFE: Final = ALL[1:]
GRADIENT: Final = ALL[2:]
PIXELS: Final = ("control", "sm-g-sum", "sm-g-so")
LARGE: Final = ("hard-maze-32", "hard-maze-64", "hard-maze-101")


@dataclass(frozen=True)
class Figure:
    """One of the paper's results."""

    title: str
    domains: tuple[str, ...]
    mutations: tuple[str, ...]
    claims: tuple[Claim, ...]
    runs: int = 20
    at: int | None = None
    """A number of evaluations at which the paper compares as well."""
    perturbed: bool = False
    """Whether the solutions are perturbed afterwards."""


FIGURES: Final[dict[str, Figure]] = {
    "simple": Figure(
        "the simple, poorly conditioned model (supplement, figure 1)",
        ("simple-easy", "simple-medium", "simple-washout"),
        ALL,
        (
            *(ahead("simple-easy", name, "control", 0.05) for name in SAFE),
            *(ahead("simple-medium", name, other, 0.05) for name, other in product(GRADIENT, ("sm-r", "control"))),
            solves_all("simple-medium", *GRADIENT),
            *(
                ahead("simple-washout", name, other, 0.05)
                for name, other in product(("sm-g-abs", "sm-g-so"), ("sm-g-sum", "control"))
            ),
            solves_all("simple-washout", "sm-g-abs", "sm-g-so"),
        ),
    ),
    "parity": Figure(
        "recurrent parity (figure 1)",
        ("parity",),
        ALL,
        (
            *(faster("parity", name, "control", 0.001) for name in GRADIENT),
            faster("parity", "sm-r", "control", 0.05),
            not_faster("parity", "sm-r", "control", 0.05, failed=False),
            solves_all("parity", *GRADIENT),
        ),
    ),
    "robustness": Figure(
        "robustness of solutions of recurrent parity (supplement, figure 2)",
        ("parity",),
        ALL,
        tuple(more_robust(name, "control", 0.001) for name in GRADIENT),
        perturbed=True,
    ),
    "hard-maze": Figure(
        "the breadcrumb hard maze (figure 3)",
        ("hard-maze",),
        ALL,
        (
            faster("hard-maze", "sm-g-so", "control", 0.005),
            solves_all("hard-maze", "sm-g-abs"),
            solves_more("hard-maze", "sm-g-abs", "control", 0.05, at=60_000),
            solves_more("hard-maze", "sm-g-abs", "sm-r", 0.05, at=60_000),
            not_faster("hard-maze", "sm-g-sum", "control", 0.05),
            solves_fewest("hard-maze", "sm-r"),
        ),
        at=60_000,
    ),
    "large-scale": Figure(
        "large networks in the breadcrumb hard maze (figure 4)",
        LARGE,
        PIXELS,
        tuple(solves_more(domain, "sm-g-sum", name, 0.05) for domain, name in product(LARGE, ("sm-g-so", "control"))),
    ),
    "topdown": Figure(
        "the topdown maze (figure 6)",
        ("topdown-maze",),
        PIXELS,
        (
            solves_all("topdown-maze", "sm-g-sum", "sm-g-so"),
            *(faster("topdown-maze", name, "control", 0.001) for name in ("sm-g-sum", "sm-g-so")),
        ),
    ),
    "first-person": Figure(
        "the first-person 3D maze (figure 8)",
        ("first-person-maze",),
        PIXELS,
        tuple(solves_more("first-person-maze", name, "control", 0.05) for name in ("sm-g-sum", "sm-g-so")),
        runs=30,
    ),
}


SUMMARY_FOLDER: Final = "summary"
ANSWERS: Final[Mapping[bool | None, str]] = {True: "yes", False: "no", None: "cannot be said"}


@dataclass(frozen=True)
class Checked:
    """A claim, and what was found."""

    claim: str
    statistic: str
    holds: bool | None


@dataclass(frozen=True)
class Reproduction:
    """One of the paper's results, and how it came out."""

    name: str
    figure: Figure
    scale: float
    evidence: Evidence
    command: Sequence[str]

    def checked(self) -> list[Checked]:
        """Return all claims with what was found about each."""
        found: list[tuple[str, Finding]] = [(claim.text, claim.check(self.evidence)) for claim in self.figure.claims]
        return [Checked(text, finding.statistic, finding.holds) for text, finding in found]

    @property
    def methods(self) -> list[tuple[str, Method]]:
        """All methods with their domains."""
        return [(domain, method) for domain, study in self.evidence.studies.items() for method in study.methods]

    @property
    def scaled(self) -> str:
        """What must be said wherever a result is shown that is not at full scale."""
        if self.scale == 1.0:
            return ""
        return f"scaled down to {self.scale:g} of the paper's runs and evaluations: a first look, not a result"

    def save(self, folder: Path) -> None:
        """Write the claims and how each run ended."""
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "claims.json", self.as_dict())
        write_text(folder / "claims.md", self.markdown())
        write_text(folder / "runs.csv", self._runs())
        if self.evidence.robustness is not None:
            write_text(folder / "robustness.csv", _solutions(self.evidence.robustness))

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "name": self.name,
            "title": self.figure.title,
            "scale": self.scale,
            "command": list(self.command),
            "claims": [asdict(checked) for checked in self.checked()],
            "seconds": {f"{domain} {method.name}": seconds_of(method) for domain, method in self.methods},
        }

    def markdown(self) -> str:
        """Return the claims as a page."""
        lines = [f"# {self.figure.title[0].upper()}{self.figure.title[1:]}", ""]
        if self.scaled:
            lines += [f"**{self.scaled[0].upper()}{self.scaled[1:]}.**", ""]
        lines += ["```console", f"$ {' '.join(self.command)}", "```", "", "| claim | here | holds |", "|---|---|---|"]
        lines += [f"| {item.claim} | {item.statistic} | {ANSWERS[item.holds]} |" for item in self.checked()]
        lines += ["", "| domain | method | solved | median evaluations | seconds |", "|---|---|---|---|---|"]
        for domain, method in self.methods:
            told, seconds = summarize(method), seconds_of(method)
            middle = "-" if told.median_evaluations is None else f"{told.median_evaluations:,.0f}"
            took = "-" if seconds is None else f"{seconds:,.0f}"
            lines.append(f"| {domain} | {method.name} | {told.solved} of {told.runs} | {middle} | {took} |")
        lines += ["", "*Medians count runs that were not solved as later than all others.*"]
        return "\n".join(lines) + "\n"

    def _runs(self) -> str:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["domain", "method", "intensity", "run", "solved", "evaluations", "best_fitness"])
        for domain, method in self.methods:
            for o in method.outcomes:
                intensity = method.settings["intensity"]
                writer.writerow([domain, method.name, intensity, o.run, int(o.solved), o.evaluations, o.best_fitness])
        return text.getvalue()


def _solutions(found: Robustness) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["evolved_by", "run", "perturbed_by", "intensity", "mean_fraction_retained"])
    for entry in found.entries:
        writer.writerow([entry.method, entry.run, entry.operator, entry.intensity, f"{entry.mean:.4f}"])
    return text.getvalue()


def seconds_of(method: Method) -> float | None:
    """Return the wall time of a method's runs."""
    started, ended = method.record.get("started"), method.record.get("ended")
    if not started or not ended:
        return None
    return (datetime.fromisoformat(ended) - datetime.fromisoformat(started)).total_seconds()
