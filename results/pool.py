"""Pool the runs of an experiment that was run in parts, by seed or on several machines.

    python results/pool.py add published/topdown DIR...     # add the runs that have ended in these run directories
    python results/pool.py check published/topdown 20       # check the claims on 20 runs per method

`parts.csv` has a row per run that has ended, with its seed. A run that is there already is not added again. `check`
takes the first runs of each method in the order of seeds, numbers them, and writes `claims.md`, `claims.json`,
`runs.csv` and a figure. It refuses if there are too few runs.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any, Final

from tfsm.analysis.claims import Evidence
from tfsm.analysis.reproduce import FIGURES, Reproduction
from tfsm.analysis.results import Method, RunOutcome, Study, load_studies
from tfsm.report.findings import analyze_study
from tfsm.report.plots import render_figure

RESULTS: Final = Path(__file__).parent
COLUMNS: Final = (
    *("domain", "method", "intensity", "seed", "run"),
    *("solved", "evaluations", "budget", "best_fitness"),
)
KEY: Final = ("domain", "method", "seed", "run")

Row = dict[str, str]


def read_parts(folder: Path) -> list[Row]:
    """Return the rows of `parts.csv`; none if there is no such file."""
    file = folder / "parts.csv"
    if not file.is_file():
        return []
    with file.open(encoding="utf-8", newline="") as opened:
        return list(csv.DictReader(opened))


def list_rows(directory: Path) -> list[Row]:
    """Return a row per run that has ended in a run directory, a study, or a folder of them."""
    return [
        {
            "domain": study.domain,
            "method": method.name,
            "intensity": str(method.settings["intensity"]),
            "seed": str(method.settings["seed"]),
            "run": str(outcome.run),
            "solved": str(int(outcome.solved)),
            "evaluations": str(outcome.evaluations),
            "budget": str(method.budget),
            "best_fitness": str(outcome.best_fitness),
        }
        for study in load_studies([directory], strict=False)
        for method in study.methods
        for outcome in method.outcomes
    ]


def add(folder: Path, directories: list[Path]) -> int:
    """Add the runs of directories to `parts.csv`, and return how many are new."""
    rows = {tuple(row[key] for key in KEY): row for row in read_parts(folder)}
    before = len(rows)
    for directory in directories:
        for row in list_rows(directory):
            rows.setdefault(tuple(row[key] for key in KEY), row)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "parts.csv").open("w", encoding="utf-8", newline="") as opened:
        writer = csv.DictWriter(opened, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted(rows.values(), key=lambda row: (*(row[key] for key in KEY[:2]), *_number(row))))
    return len(rows) - before


def check(folder: Path, runs: int) -> Reproduction:
    """Check the claims of an experiment on its first runs, and write the results next to `parts.csv`."""
    figure = FIGURES[folder.name]
    rows = read_parts(folder)
    studies = {}
    for domain in figure.domains:
        methods = []
        for name in figure.mutations:
            chosen = sorted((row for row in rows if (row["domain"], row["method"]) == (domain, name)), key=_number)
            if len(chosen) < runs:
                raise SystemExit(f"error: {len(chosen)} of {runs} runs of {name} on {domain} have ended")
            methods.append(_pool(name, chosen[:runs]))
        studies[domain] = Study(domain, tuple(methods))
    command = ["python", "results/pool.py", "check", "/".join(folder.parts[-2:]), str(runs)]
    reproduction = Reproduction(folder.name, figure, 1.0, Evidence(studies), command, folder.parent.name)
    reproduction.save(folder)
    for domain, study in studies.items():
        name = "solved.png" if len(studies) == 1 else f"{domain}-solved.png"
        (folder / name).write_bytes(render_figure("solved", analyze_study(study, at=figure.at), format="png"))
    return reproduction


def _pool(name: str, rows: list[Row]) -> Method:
    """Return rows as one method with as many runs."""
    outcomes = tuple(
        RunOutcome(i, row["solved"] == "1", int(row["evaluations"]), float(row["best_fitness"]))
        for i, row in enumerate(rows)
    )
    settings: dict[str, Any] = {"intensity": float(rows[0]["intensity"]), "mutation": name}
    return Method(name, outcomes, max(int(row["budget"]) for row in rows), settings=settings)


def _number(row: Row) -> tuple[int, int]:
    return int(row["seed"]), int(row["run"])


if __name__ == "__main__":
    task, name, *rest = sys.argv[1:]
    if task == "add":
        print(f"{add(RESULTS / name, [Path(one) for one in rest])} new runs")
    else:
        print(check(RESULTS / name, int(rest[0])).markdown())
