"""Print the table of all claims, for results/README.md: python results/table.py."""

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


def format_table() -> str:
    """Return a Markdown table with one row per claim of the paper."""
    lines = ["| experiment | the paper | " + " | ".join(f"`{name}` | holds" for name in PROFILES) + " | why not |"]
    lines.append("|---" * (3 + 2 * len(PROFILES)) + "|")
    for name, figure in FIGURES.items():
        found = [read_findings(profile, name) for profile in PROFILES]
        for claim in figure.claims:
            cells = []
            for findings in found:
                one = findings.get(claim.text, {"statistic": "not run", "holds": None})
                answer = "" if one["statistic"] == "not run" else ANSWERS[one["holds"]]
                cells += [one["statistic"], answer]
            text, plain = claim.text, re.sub(r" \([^)]*\)$", "", claim.text)
            reason = REASONS.get(plain, "") if "no" in cells else ""
            lines.append(f"| {name} | {text} | {' | '.join(cells)} | {reason} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(format_table())
