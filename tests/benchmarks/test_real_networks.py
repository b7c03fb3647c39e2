from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.real_networks import COLUMNS, append_rows, draw_mutants, read_rows, summarize_mutants, summarize_runs

MUTANTS = [
    ("cnn", 1000, "control", "none", "1%", 0, 0.01, 1.0, 1.5, 0.9, 0.8, 2.0),
    ("cnn", 1000, "sm-g-sum", "paper", "1%", 0, 0.01, 1.0, 1.4, 0.9, 0.81, 2.0),
    ("cnn", 1000, "sm-g-sum", "relative", "1%", 0, 0.01, 1.0, 1.2, 0.9, 0.88, 6.0),
]


def test_rows_are_appended_below_one_header(tmp_path: Path) -> None:
    file = tmp_path / "new" / "mutants.csv"
    assert read_rows(file) == []
    for row in MUTANTS:
        append_rows(file, [row])
    rows = read_rows(file)
    assert len(rows) == len(MUTANTS)
    assert list(rows[0]) == list(COLUMNS)
    assert float(rows[2]["length"]) == 6.0


def test_mutants_are_compared_with_plain_noise(tmp_path: Path) -> None:
    append_rows(tmp_path / "m.csv", MUTANTS)
    rows = read_rows(tmp_path / "m.csv")
    _, _, paper, relative = summarize_mutants(rows)
    assert "| `sm-g-sum` | paper | 1% | 0.810 (0.900) | 0.800 | 1.40 | 1.50 | 1.00 |" in paper
    assert relative.endswith("| 3.00 |")
    assert len(summarize_mutants(rows[1:])) == 2, "without plain noise there is nothing to compare with"
    draw_mutants(rows, tmp_path / "m.png")
    assert (tmp_path / "m.png").stat().st_size > 1_000


def test_runs_are_compared_with_the_tuned_control() -> None:
    rows = [
        {"task": "scratch", "method": method, "strength": "0.01", "fitness": str(fitness + i / 100)}
        | {"test_accuracy": "0.5"}
        for method, fitness in (("control-tuned", -2.0), ("sm-g-sum-1%", -1.0), ("sweep-0.1", -9.0))
        for i in range(10)
    ]
    _, _, control, safe = summarize_runs(rows)
    assert control.startswith("| scratch | control-tuned (0.01) | 10 | -1.955 | 50.0% |")
    p = float(safe.split("p = ")[1].split(" ")[0])
    assert p == pytest.approx(0.00018), "all ten runs are better than all others"
