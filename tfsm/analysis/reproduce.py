"""The paper's experiments: their settings, their claims, and the summary of a reproduction."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

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
from tfsm.utils.files import write_json, write_text

if TYPE_CHECKING:
    from tfsm.analysis.robustness import Robustness

PAPER_OPERATORS: Final = ("control", "sm-r", "sm-g-sum", "sm-g-abs", "sm-g-so")
SAFE: Final = PAPER_OPERATORS[1:]
GRADIENT: Final = PAPER_OPERATORS[2:]
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
    """A number of evaluations at which the paper also compares success rates."""
    perturbed: bool = False
    """Whether the robustness of the solutions is measured afterwards."""
    quick: float = 0.05
    """The scale of a first look that takes a minute or two."""
    quick_domains: int | None = None
    """The number of domains of a first look; None: all."""


FIGURES: Final[dict[str, Figure]] = {
    "simple": Figure(
        "the simple, poorly conditioned model (supplement, figure 1)",
        ("simple-easy", "simple-medium", "simple-washout"),
        PAPER_OPERATORS,
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
        quick=0.1,
    ),
    "parity": Figure(
        "recurrent parity (figure 1)",
        ("parity",),
        PAPER_OPERATORS,
        (
            *(faster("parity", name, "control", 0.001) for name in GRADIENT),
            faster("parity", "sm-r", "control", 0.05),
            not_faster("parity", "sm-r", "control", 0.05, include_unsolved=False),
            solves_all("parity", *GRADIENT),
        ),
    ),
    "robustness": Figure(
        "robustness of solutions of recurrent parity (supplement, figure 2)",
        ("parity",),
        PAPER_OPERATORS,
        tuple(more_robust(name, "control", 0.001) for name in GRADIENT),
        perturbed=True,
    ),
    "hard-maze": Figure(
        "the breadcrumb hard maze (figure 3)",
        ("hard-maze",),
        PAPER_OPERATORS,
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
        quick=0.005,
        quick_domains=1,
    ),
    "topdown": Figure(
        "the topdown maze (figure 6)",
        ("topdown-maze",),
        PIXELS,
        (
            solves_all("topdown-maze", "sm-g-sum", "sm-g-so"),
            *(faster("topdown-maze", name, "control", 0.001) for name in ("sm-g-sum", "sm-g-so")),
        ),
        quick=0.02,
    ),
    "first-person": Figure(
        "the first-person 3D maze (figure 8)",
        ("first-person-maze",),
        PIXELS,
        tuple(solves_more("first-person-maze", name, "control", 0.05) for name in ("sm-g-sum", "sm-g-so")),
        runs=30,
        quick=0.006,
    ),
}


SUMMARY_FOLDER: Final = "summary"
SHARED_RUNS: Final[Mapping[str, str]] = {"robustness": "parity"}
"""Results that look at the runs of another one."""
ANSWERS: Final[Mapping[bool | None, str]] = {True: "yes", False: "no", None: "undecided"}


@dataclass(frozen=True)
class Reproduction:
    """One of the paper's results, and the evidence for it."""

    name: str
    figure: Figure
    scale: float
    evidence: Evidence
    command: Sequence[str]
    profile: str = "published"

    def check_claims(self) -> list[tuple[Claim, Finding]]:
        """Return each claim with its finding."""
        return [(claim, claim.check(self.evidence)) for claim in self.figure.claims]

    @property
    def methods(self) -> list[tuple[str, Method]]:
        """All methods with their domains."""
        return [(domain, method) for domain, study in self.evidence.studies.items() for method in study.methods]

    @property
    def scale_note(self) -> str:
        """A note to show with every result that is not at full scale; empty at full scale."""
        if self.scale != 1.0:
            return f"scaled down to {self.scale:g} of the paper's runs and evaluations: a first look, not a result"
        runs = min((len(method.outcomes) for _, method in self.methods), default=self.figure.runs)
        return f"with {runs} runs per method instead of {self.figure.runs}" if runs < self.figure.runs else ""

    def save(self, folder: Path) -> None:
        """Write the claims and the outcome of each run."""
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "claims.json", self.as_dict())
        write_text(folder / "claims.md", self.markdown())
        write_text(folder / "runs.csv", self._runs_csv())
        if self.evidence.robustness is not None:
            write_text(folder / "robustness.csv", _robustness_csv(self.evidence.robustness))

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "name": self.name,
            "title": self.figure.title,
            "scale": self.scale,
            "profile": self.profile,
            "command": list(self.command),
            "claims": [{"claim": claim.text, **asdict(finding)} for claim, finding in self.check_claims()],
            "seconds": {f"{domain} {method.name}": _wall_time(method) for domain, method in self.methods},
        }

    def markdown(self) -> str:
        """Return the claims and a summary of the runs as Markdown."""
        lines = [f"# {self.figure.title[0].upper()}{self.figure.title[1:]}", ""]
        if self.scale_note:
            lines += [f"**{self.scale_note[0].upper()}{self.scale_note[1:]}.**", ""]
        lines += ["```console", f"$ {' '.join(self.command)}", "```", "", "| claim | result | holds |", "|---|---|---|"]
        for claim, finding in self.check_claims():
            lines.append(f"| {claim.text} | {finding.statistic} | {ANSWERS[finding.holds]} |")
        lines += ["", "| domain | method | solved | median evaluations | seconds |", "|---|---|---|---|---|"]
        for domain, method in self.methods:
            summary, seconds = summarize(method), _wall_time(method)
            median = "-" if summary.median_evaluations is None else f"{summary.median_evaluations:,.0f}"
            duration = "-" if seconds is None else f"{seconds:,.0f}"
            solved = f"{summary.solved} of {summary.runs}"
            lines.append(f"| {domain} | {method.name} | {solved} | {median} | {duration} |")
        lines += ["", "*Medians count unsolved runs as later than all others.*"]
        return "\n".join(lines) + "\n"

    def _runs_csv(self) -> str:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["domain", "method", "intensity", "run", "solved", "evaluations", "best_fitness"])
        for domain, method in self.methods:
            intensity = method.settings.get("divergence") or method.settings["intensity"]
            for o in method.outcomes:
                writer.writerow([domain, method.name, intensity, o.run, int(o.solved), o.evaluations, o.best_fitness])
        return text.getvalue()


def summarize_claims(reproductions: Sequence[Reproduction]) -> str:
    """Return the claims of several results as one Markdown table."""
    notes = [f"{one.name}: {one.scale_note}" for one in reproductions if one.scale_note]
    lines = ["# The paper's claims", "", *(f"- {note}" for note in notes), *([""] if notes else [])]
    lines += ["| experiment | claim | result | holds |", "|---|---|---|---|"]
    for one in reproductions:
        for claim, finding in one.check_claims():
            lines.append(f"| {one.name} | {claim.text} | {finding.statistic} | {ANSWERS[finding.holds]} |")
    return "\n".join(lines) + "\n"


def _robustness_csv(robustness: Robustness) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["evolved_by", "run", "perturbed_by", "intensity", "mean_fraction_retained"])
    for entry in robustness.entries:
        writer.writerow([entry.method, entry.run, entry.operator, entry.intensity, f"{entry.mean:.4f}"])
    return text.getvalue()


def _wall_time(method: Method) -> float | None:
    """Return the seconds that a method's runs took."""
    started, ended = method.record.get("started"), method.record.get("ended")
    if not started or not ended:
        return None
    return (datetime.fromisoformat(ended) - datetime.fromisoformat(started)).total_seconds()
