"""Results as Markdown, from synthetic numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.__main__ import make_parser
from benchmarks.markdown import collect_targets, format_markdown_cell, main, pivot_rows, render_grid, render_markdown
from benchmarks.measure import Quartiles
from benchmarks.results import BenchmarkTable, write_results

META = {
    "command": "python -m benchmarks",
    "date": "2001-02-03T04:05:06+00:00",
    "processor": "Abacus",
    "cores_used": 1,
    "cores_in_machine": 2,
    "system": "Linux",
    "python": "3.11.0",
    "versions": {"tfsm": "0.1.0", "pygad": None},
    "seconds": {"b": 10.0, "c": 20.0},
}


def about(median: float) -> dict[str, Any]:
    """Return quartiles as they are in JSON."""
    return {"median": median, "low": median - 1, "high": median + 1, "samples": 5}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    speeds = [
        {"domain": "parity", "operator": "control", "runs": runs, "evaluations/s": Quartiles(rate, rate, rate, 5)}
        for runs, rate in ((20, 2000.0), (1, 100.0))
    ]
    others = [{"algorithm": "evosax", "tfsm, 20 runs: x": Quartiles(0.5, 0.4, 0.6, 5), "tfsm, 20 runs: held": False}]
    parts = {
        "b": [BenchmarkTable("whole_loop", "(b) rates", speeds, ["a note"])],
        "c": [BenchmarkTable("other_libraries", "(c) others", others)],
    }
    write_results(tmp_path / "benchmarks.json", META, parts)
    return tmp_path / "benchmarks.json"


@pytest.mark.parametrize(
    ("value", "written"), [(None, ""), (True, "yes"), (False, "**no**"), (1302, "1,302"), (about(3.0), "3 [2, 4]")]
)
def test_cells_are_formatted_as_on_the_terminal_except_none_and_false(value: object, written: str) -> None:
    assert format_markdown_cell(value) == written


def test_a_grid_omits_empty_columns_and_aligns_numbers_right() -> None:
    rows: list[dict[str, Any]] = [
        {"name": "x", "rate": about(3.0), "never": None},
        {"name": "y", "rate": None, "late": 1},
    ]
    assert render_grid(rows).splitlines() == [
        "| name | rate | late |",
        "| --- | ---: | ---: |",
        "| x | 3 [2, 4] |  |",
        "| y |  | 1 |",
    ]


def test_a_pivot_puts_numbers_in_order_and_names_as_they_come() -> None:
    rows = [{"of": "a", "n": 20, "v": 2}, {"of": "a", "n": 5, "v": 1}, {"of": "b", "n": 20, "v": 3}]
    across = pivot_rows(rows, ("of",), "n", lambda row: row["v"])
    assert [list(row.items()) for row in across] == [
        [("of", "a"), ("5", 1), ("20", 2)],
        [("of", "b"), ("5", None), ("20", 3)],
    ]
    assert list(pivot_rows(rows[::-1], ("n",), "of", lambda row: row["v"])[0]) == ["n", "b", "a"]


def test_a_page_names_the_machine_and_contains_all_tables_with_notes(results: Path) -> None:
    lines = render_markdown(results).splitlines()
    assert lines[0] == (
        "`python -m benchmarks`, 30 s, 2001-02-03: Abacus, 1 core of 2, Linux; Python 3.11.0, tfsm 0.1.0."
    )
    assert "| domain | operator | runs = 1 | runs = 20 |" in lines
    assert "| parity | control | 100 [100, 100] | 2,000 [2,000, 2,000] |" in lines
    assert lines[lines.index("- a note") - 1] == ""
    assert [line for line in lines if line.startswith("## ")] == ["## Targets", "## (b) rates", "## (c) others"]


def test_a_target_that_is_missed_is_not_hidden(results: Path) -> None:
    assert "| tfsm, 20 runs vs. evosax | not slower | 0.5 [0.4, 0.6] | **no** |" in render_markdown(results)


def test_a_limit_is_met_if_every_network_meets_it() -> None:
    rows = [
        {"network": network, "operator": "sm-g-sum", "forward passes": about(cost), "limit": "6", "held": cost <= 6}
        for network, cost in (("dense", 3.0), ("deep", 7.0))
    ]
    (row,) = collect_targets({"operator_cost": rows}).rows
    assert row == {
        "what": "cost of `sm-g-sum`",
        "target": "at most 6 forward passes",
        "measured": "dense 3; deep 7",
        "held": False,
    }


def test_ratios_to_the_plain_loops_are_separate_targets() -> None:
    row = {
        "domain": "parity",
        "operator": "control",
        "runs": 20,
        "evaluations/s": about(9.0),
        "target": 5,
        "held": True,
    }
    row |= {"x eager": about(120.0), ">= 100": True, "x tf.function": about(4.0), ">= 5": False}
    rows = collect_targets({"whole_loop": [row]}).rows
    assert [(row["target"], row["held"]) for row in rows] == [
        ("at least 5 evaluations/s", True),
        ("at least 100 times as fast", True),
        ("at least 5 times as fast", False),
    ]


def test_the_command_prints_or_writes(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["markdown", str(results)])
    main()
    assert capsys.readouterr().out == render_markdown(results)
    monkeypatch.setattr("sys.argv", ["markdown", str(results), str(results.with_name("tables.md"))])
    main()
    assert results.with_name("tables.md").read_text(encoding="utf-8") == render_markdown(results)


def test_a_part_that_could_not_be_measured_leaves_a_page(results: Path) -> None:
    content = json.loads(results.read_text(encoding="utf-8"))
    failed = [{"network": "dense", "operator": "sm-r", "forward passes": "OpError: no"}]
    content["parts"] = {"a": [{"name": "operator_cost", "title": "(a) costs", "rows": failed, "notes": []}]}
    results.write_text(json.dumps(content), encoding="utf-8")
    assert "| dense | OpError: no |" in render_markdown(results)


def test_tables_are_written_on_request() -> None:
    assert make_parser().parse_args(["--markdown", "tables.md"]).markdown == Path("tables.md")
    assert make_parser().parse_args([]).markdown is None


def test_targets_of_offspring_and_truncation_are_listed() -> None:
    rate = {"domain": "parity", "operator": "control", "offspring": 64, "target": 15_000, "held": True}
    share = {"domain": "hard-maze", "operator": "sm-g-so", "offspring": 20, "target": 0.8, "held": False}
    measured = {"offspring: evaluations/s": about(20_000.0), "x 20 runs": about(0.7)}
    libraries = [
        {"algorithm": "evosax", "tfsm, truncation: x": about(1.1), "tfsm, 20 runs: x": about(1.1)},
        {"algorithm": "PyGAD, compiled model", "tfsm, truncation: x": about(1.1)},
    ]
    rows = collect_targets({"offspring": [rate | measured, share | measured], "other_libraries": libraries}).rows
    assert [(row["what"], row["target"], row["held"]) for row in rows] == [
        ("tfsm, truncation vs. evosax", "at least 1.2 times as fast", False),
        ("tfsm, 20 runs vs. evosax", "not slower", True),
        ("parity, one run, `control`, offspring 64", "at least 15,000 evaluations/s", True),
        ("hard-maze, one run, `sm-g-so`, offspring 20", "at least 0.8 x 20 runs", False),
    ]
    assert rows[-1]["measured"] == about(0.7)
