"""What is left of a reproduction when the runs themselves are thrown away: small files to keep and to show."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from tfsm.experiments.outcomes import Method
from tfsm.experiments.record import write_json, write_text
from tfsm.experiments.reproduce.catalog import Figure
from tfsm.experiments.reproduce.claims import Evidence, Finding
from tfsm.experiments.retention import Robustness
from tfsm.experiments.statistics import summarize

FOLDER: Final = "summary"
WORDS: Final[Mapping[bool | None, str]] = {True: "yes", False: "no", None: "cannot be said"}


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
        lines += [f"| {item.claim} | {item.statistic} | {WORDS[item.holds]} |" for item in self.checked()]
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
