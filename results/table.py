"""Print the tables of all claims, for results/README.md: python results/table.py."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

from tfsm.analysis.reproduce import ANSWERS, FIGURES

RESULTS: Final = Path(__file__).parent
PROFILES: Final = ("published", "described")

REASONS: Final = {
    "parity: sm-r is not faster than control, among solved runs": "our line search ends within 1 % of the target "
    "divergence, the paper's within 10 % in three of four cases",
    "hard-maze: sm-g-so is faster than control": "sm-g-so is faster at first, and then gets stuck as often; with "
    "another seed p = 0.04",
    "hard-maze: every run is solved by sm-g-abs": "biases start at zero; with the code's initial weights and removal "
    "all 20 are solved",
    "hard-maze: sm-g-abs solves more runs than control within 60,000 evaluations": "as above",
}
"""Why a claim does not hold, by its text without the level."""


def read_findings(profile: str, figure: str) -> dict[str, dict[str, Any]]:
    """Return the findings of an experiment by claim; none if it has not been run."""
    file = RESULTS / profile / figure / "claims.json"
    return {one["claim"]: one for one in json.loads(file.read_text())["claims"]} if file.is_file() else {}


def format_claims() -> str:
    """Return a section per experiment with a row per claim, and a column per profile that was run, in Markdown."""
    sections = []
    for name, figure in FIGURES.items():
        found = {profile: findings for profile in PROFILES if (findings := read_findings(profile, name))}
        if not found:
            claims = "\n".join(f"- {claim.text}" for claim in figure.claims)
            sections.append(f"### {name}\n\nNot run yet:\n\n{claims}")
            continue
        rows = [_format_row(claim.text, list(found.values())) for claim in figure.claims]
        head = ["the paper", *(f"`{profile}`" for profile in found)]
        if any(row[-1] for row in rows):
            head.append("why not")
        else:
            rows = [row[:-1] for row in rows]
        lines = [head, ["---"] * len(head), *rows]
        table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
        sections.append(f"### {name}\n\n{table}")
    return "\n\n".join(sections)


def _format_row(claim: str, found: list[dict[str, dict[str, Any]]]) -> list[str]:
    """Return the cells of a claim: its text, what each profile found, and why it does not hold."""
    cells = []
    for one in (findings.get(claim) for findings in found):
        cells.append("not run" if one is None else f"**{ANSWERS[one['holds']]}**: {one['statistic']}")
    plain = re.sub(r" \([^)]*\)$", "", claim)
    reason = REASONS.get(plain, "") if any(cell.startswith("**no**") for cell in cells) else ""
    return [claim, *cells, reason]


if __name__ == "__main__":
    print(format_claims())
