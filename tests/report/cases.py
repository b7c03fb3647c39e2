"""Handmade studies whose numbers can be worked out mentally, and run directories of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tfsm.analysis.results import Method, RunOutcome, Study

EVIL = "<script>alert('x')</script> & \"$co$\""
"""A name that is a script in a careless page, and a formula in careless figures."""

BUDGET = 1_000


def method(
    name: str,
    solutions: Sequence[int | None],
    *,
    metrics: Sequence[Mapping[str, Any]] | None = None,
    status: str = "finished",
    runs: int | None = None,
    **record: Any,
) -> Method:
    """Return a method whose runs were solved after these evaluations, or never."""
    outcomes = tuple(
        RunOutcome(run, when is not None, BUDGET if when is None else when, 1 + run / 10)
        for run, when in enumerate(solutions)
    )
    settings = {
        "domain": "parity",
        "mutation": name,
        "runs": len(solutions) if runs is None else runs,
        "evaluations": BUDGET,
        "mutation_options": {"floor": 0.01} if name != "control" else {},
    }
    full_record = {
        "status": status,
        "seed": 7,
        "started": "2025-01-02T03:04:05+00:00",
        "ended": "2025-01-02T03:05:06+00:00",
        "command": ["tfsm", "run", "parity", "--mutation", name],
        "versions": {"tfsm": "1.2.3", "python": "3.13.0"},
        "settings": settings,
        **record,
    }
    lines = make_log(len(solutions)) if metrics is None else metrics
    return Method(name, outcomes, BUDGET, tuple(lines), settings, full_record, Path("runs") / "made-by-hand")


def make_log(runs: int, **more: Any) -> list[dict[str, Any]]:
    """Return the log of runs: fitness grows steadily, by a tenth higher per run, and shares are constant."""
    return [
        {
            "run": run,
            "evaluations": evaluations,
            "best_fitness": evaluations / BUDGET + run / 10,
            "mean_fitness": 0.0,
            "divergence": 0.5,
            "better": 0.25,
            "neutral": 0.125,
            "broken": 1 - evaluations / BUDGET,
            **more,
        }
        for evaluations in range(100, BUDGET + 1, 100)
        for run in range(runs)
    ]


RICH = {
    "divergence_quantiles": [0.001, 0.02, 0.04, 0.08, 9.0],
    "search_steps": 4.5,
    "sensitivity": {"first": [0.01, 0.1, 1.0], "second": [0.0, 0.25, 30.0]},
}
"""What newer runs log in addition."""


def study(*methods: Method) -> Study:
    """Return a study of two methods: one solves two of four runs late, the other all four early."""
    pair = (
        method("control", [900, 950, None, None]),
        method("sm-r", [100, 200, 300, 400], metrics=make_log(4, **RICH)),
    )
    return Study("parity", methods or pair)


def write_runs(folder: Path, methods: Sequence[Method]) -> list[Path]:
    """Write run directories that `load_studies` reads as these methods."""
    written = []
    for number, written_method in enumerate(methods):
        directory = folder / f"run-{number}"
        directory.mkdir(parents=True)
        runs = [
            {"run": o.run, "solved": o.solved, "evaluations": o.evaluations, "best_fitness": o.best_fitness}
            for o in written_method.outcomes
        ]
        (directory / "run.json").write_text(json.dumps({**written_method.record, "runs": runs}), encoding="utf-8")
        lines = (json.dumps(line) + "\n" for line in written_method.metrics)
        (directory / "metrics.jsonl").write_text("".join(lines), encoding="utf-8")
        written.append(directory)
    return written
