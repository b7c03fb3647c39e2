"""The study of tasks: its conditions, tables and figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import tasks


def make_rows(method: str, values: list[float], **more: Any) -> list[dict[str, Any]]:
    base = {"task": "A", "method": method, "layers": 2, "strength": 0.1, "solved": 0, "evaluations": 50, "seconds": 2.0}
    return [
        {**base, "run": run, "best_fitness": value, "champion_return": value, **more}
        for run, value in enumerate(values)
    ]


def test_the_table_compares_each_method_with_the_control_of_its_depth() -> None:
    low, high = [1.0, 2.0, 3.0, 4.0, 5.0], [11.0, 12.0, 13.0, 14.0, 15.0]
    runs = [*make_rows("control", low), *make_rows("sm-g-sum", high)]
    runs += [*make_rows("deep-control", high, layers=8), *make_rows("deep-sm-g-sum", high, layers=8)]
    lines = tasks.tabulate(runs)
    assert lines[0] == "### A"
    assert [line.count("|") for line in lines if line.startswith("|")] == [10] * 6
    _, sum_row, _, deep_row = lines[4:8]
    assert "13.0 (11.0 to 15.0)" in sum_row
    assert "p = 0.0" in sum_row
    assert "p = 1 " in deep_row


def test_the_best_fitness_stays_after_the_end_of_a_run() -> None:
    curve = [{"run": 0, "evaluations": n, "best_fitness": float(n)} for n in (10, 20)]
    ended = [{"run": 0, "evaluations": 25, "best_fitness": 30.0}]
    np.testing.assert_array_equal(tasks._best_so_far(curve, ended, 0, np.array([10, 15, 20, 40])), [10, 10, 20, 30])


def test_the_control_is_tuned_by_solved_runs_then_fitness_then_evaluations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {1.0: (0, 9.0, 50), 0.3: (2, 5.0, 40), 0.1: (2, 5.0, 30), 0.03: (2, 4.0, 10), 0.01: (1, 9.0, 10)}
    spent = []

    def run(task: tasks.Task, condition: tasks.Condition, folder: Path) -> Path:
        intensity = float(condition.strength.partition("=")[2])
        solved, fitness, evaluations = found[intensity]
        out = folder / condition.name
        out.mkdir()
        runs = [
            {"run": n, "solved": n < solved, "best_fitness": fitness, "evaluations": evaluations}
            for n in range(condition.runs)
        ]
        (out / "run.json").write_text(json.dumps({"runs": runs}))
        spent.append(condition.runs)
        return out

    monkeypatch.setattr(tasks, "run_condition", run)
    assert tasks.tune_control(tasks.TASKS["CartPole"], tmp_path, "sweep", None) == 0.1
    assert sum(spent) == tasks.TASKS["CartPole"].runs, "the sweep costs as much as the runs of a method"


def test_figures_are_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    runs = [*make_rows("control", [1.0, 2.0]), *make_rows("deep-sm-g-so", [3.0, 4.0])]
    curves = [
        {"task": "A", "method": row["method"], "run": row["run"], "evaluations": n, "best_fitness": n / 50}
        for row in runs
        for n in (10, 20, 50)
    ]
    for seconds in (False, True):
        tasks.draw_curves(tmp_path / "figure.png", curves, runs, seconds=seconds)
        assert (tmp_path / "figure.png").stat().st_size > 5_000


def test_tables_are_up_to_date_after_each_method(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[tuple[str, list[str]]] = []

    def run(task: tasks.Task, condition: tasks.Condition, folder: Path) -> Path:
        table = tmp_path / "runs.csv"
        known = [line.split(",")[1] for line in table.read_text().splitlines()[1:]] if table.is_file() else []
        written.append((condition.name, list(dict.fromkeys(known))))
        if condition.name == "deep-sm-g-abs":
            raise SystemExit("stopped; the same command continues")
        out = folder / condition.name
        out.mkdir()
        entry = {"solved": False, "best_fitness": 1.0, "evaluations": 30}
        settings = {"intensity": 0.1, "domain_options": {"layers": 2}}
        runs = [{"run": number, **entry} for number in range(condition.runs)]
        (out / "run.json").write_text(json.dumps({"runs": runs, "settings": settings, "status": "finished"}))
        lines = [json.dumps({"run": number, "evaluations": 10, "best_fitness": 1.0}) for number in range(len(runs))]
        (out / "metrics.jsonl").write_text("\n".join(lines))
        (out / "seconds.txt").write_text("3.0\n")
        returns = [float("abs" in condition.name)] * len(runs)
        (out / "champions.json").write_text(json.dumps(returns))
        return out

    monkeypatch.setattr(tasks, "run_condition", run)
    with pytest.raises(SystemExit, match="continues"):
        tasks.run_task("Hopper", tmp_path, quick=True)
    methods = [(name, known) for name, known in written if "sweep" not in name]
    expected = ["control", *tasks.OPERATORS, "deep-control", "deep-sm-g-abs"]
    assert methods == [(name, expected[:index]) for index, name in enumerate(expected)]
    assert "### Hopper" in (tmp_path / "tables.md").read_text()
    assert len((tmp_path / "curves.csv").read_text().splitlines()) == 1 + 2 * 5


def test_recorded_rows_of_other_tasks_stay(tmp_path: Path) -> None:
    rows = [{"task": "Acrobot", "run": 0, "strength": "10%", "best_fitness": -80.5}, {"task": "Hopper", "run": 1}]
    rows[1] |= {"strength": 0.1, "best_fitness": 3.0}
    file = tmp_path / "runs.csv"
    tasks.write_csv(file, rows)
    assert tasks.read_csv(file) == rows
    new = [{"task": "Hopper", "run": 7, "strength": 0.3, "best_fitness": 9.0}]
    assert tasks.add_recorded(new, file) == [rows[0], *new]
    assert tasks.add_recorded([], tmp_path / "missing.csv") == []
    with pytest.raises(SystemExit, match="no method is finished"):
        tasks.report(tmp_path / "nothing", tmp_path / "empty", films=False)


def test_every_task_is_shortened_for_a_trial() -> None:
    assert len(tasks.TASKS) >= 8
    for task in tasks.TASKS.values():
        short = task.shortened()
        assert short.evaluations < task.evaluations
        assert {**task.options, "steps": 20, "episodes": 1, "confirm": 0} == short.options
