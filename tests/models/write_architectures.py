"""The tables of docs/reference/architectures.md: `python -m tests.models.write_architectures` updates them."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from tests.models.architectures import FAMILIES, Case
from tfsm.models.network import Network

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "architectures.md"
COMMAND = "python -m tests.models.write_architectures"
BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"
COLUMNS = ("architecture", "weights", "native", "folded", "mapped", "`sm-g-abs`", "operators")


def make_tables() -> str:
    """Return a table for each family."""
    blocks = []
    for family, cases in FAMILIES.items():
        lines = [COLUMNS, tuple("---:" if column == "weights" else "---" for column in COLUMNS)]
        lines += [_row(name, case) for name, case in cases.items()]
        blocks += [f"### {family}", "\n".join(f"| {' | '.join(cells)} |" for cells in lines)]
    return "\n\n".join(blocks)


def _row(name: str, case: Case) -> tuple[str, ...]:
    network = Network(case.build())
    ways = {way: Counter[str]() for way in ("native", "folded", "mapped")}
    for plan in network.program.layers:
        # Keras numbers layers through the whole process.
        why = re.sub(r"_\d+ ", " ", plan.reason).removesuffix(f" for {plan.kind}")
        ways[plan.mode][f"{plan.kind} ({why})" if why else plan.kind] += 1
    each = "by products" if network.has_per_example_gradients else "by copies"
    works = "`control`, `sm-r`" if case.stairs else "all five"
    cells = (_counted(ways[way]) for way in ("native", "folded", "mapped"))
    return name, f"{network.size:,}", *cells, "none" if case.stairs else each, works


def _counted(kinds: Counter[str]) -> str:
    return ", ".join(kind if count == 1 else f"{count} {kind}" for kind, count in kinds.items())


def update_page(page: str) -> str:
    """Return the page with updated tables."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{make_tables()}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(update_page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
