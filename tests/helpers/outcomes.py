"""Made-up runs for statistics, studies and claims."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tfsm.analysis.results import Method, RunOutcome


def make_method(
    name: str, solved: Sequence[int], unsolved: int = 0, *, budget: int = 100, fitness: float = 0.0
) -> Method:
    """Return a method with runs that were solved after the given evaluations, and some unsolved runs."""
    ends = [(True, evaluations) for evaluations in solved] + [(False, budget)] * unsolved
    outcomes = tuple(RunOutcome(run, *end, fitness) for run, end in enumerate(ends))
    return Method(name, outcomes, budget, settings={"domain": "made-up", "mutation": name, "intensity": 0.1})


def write_run(directory: Path, *, status: str = "finished", **settings: Any) -> Path:
    """Write a run directory by hand, with two runs of which the first is solved."""
    directory.mkdir(parents=True)
    values = {"domain": "made-up", "mutation": "control", "intensity": 0.1, "runs": 2, "evaluations": 100} | settings
    runs = [
        {"run": 0, "seed": 0, "solved": True, "evaluations": 40, "best_fitness": 1.0},
        {"run": 1, "seed": 0, "solved": False, "evaluations": 100, "best_fitness": None},
    ]
    record = {"status": status, "command": ["tfsm", "run"], "started": "2026-01-01T00:00:00+00:00", "settings": values}
    (directory / "run.json").write_text(json.dumps(record | {"ended": "2026-01-01T00:01:00+00:00", "runs": runs}))
    lines = [{"run": 0, "evaluations": 40, "best_fitness": 1.0}, {"run": 1, "evaluations": 100, "best_fitness": None}]
    (directory / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return directory
