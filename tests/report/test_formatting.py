"""Figures in words hold the numbers, and what must be known first is said first."""

from __future__ import annotations

import pytest

from tests.report.cases import BUDGET, logged, method, study
from tfsm.report.alt_text import describe_figure, explain_missing_figures, list_drawable_figures
from tfsm.report.findings import analyze_study
from tfsm.report.tables import collect_warnings, list_commands, list_versions, tabulate_runs


def test_solved_runs_in_words() -> None:
    words = describe_figure("solved", analyze_study(study(), at=350))
    assert "350" in words.explanation
    control, other = words.lines
    assert control.startswith("control: 2 of 4 runs solved; 50% by 1,000 evaluations (95% interval ")
    assert control.endswith("; the first at 900, half of the runs by 950, the last at 950; 0% within 350.")
    assert other.endswith("; the first at 100, half of the runs by 250, the last at 400; 75% within 350.")


def test_without_a_solution_none_is_told() -> None:
    (line,) = describe_figure("solved", analyze_study(study(method("control", [None] * 4)))).lines
    # Wilson's interval of none of four ends where that of four of four begins, seen from the other end.
    assert line == "control: 0 of 4 runs solved; 0% by 1,000 evaluations (95% interval 0% to 49%)."


def test_the_band_says_how_it_is_made() -> None:
    assert "Kaplan" in describe_figure("solved", analyze_study(study())).explanation
    assert "Wilson" in describe_figure("solved", analyze_study(study(), band="wilson")).explanation


def test_fitness_in_words() -> None:
    # The middle half of 1, 1.1, 1.2 and 1.3.
    line = describe_figure("fitness", analyze_study(study())).lines[0]
    assert line.startswith("control: from 0.25 at 100 evaluations to 1.15 at 1,000 (95% interval ")
    assert line.endswith("; 4 runs).")
    (line,) = describe_figure("fitness", analyze_study(study(method("control", [None])))).lines
    assert line.endswith(" to 1 at 1,000 (one run, so no interval).")


def test_diagnostics_in_words() -> None:
    lines = describe_figure("diagnostics", analyze_study(study())).lines
    assert lines[0] == "Children better than their parent: control from 25% to 25%; sm-r from 25% to 25%."
    assert lines[2] == "Broken children: control from 90% to 0%; sm-r from 90% to 0%."
    assert lines[3] == (
        "Divergence of children: control from 0.5 to 0.5; "
        "sm-r from 0.04 to 0.04 (quartiles of the children at the end: 0.02 and 0.08)."
    )
    assert lines[4] == "Search steps: sm-r from 4.5 to 4.5."


def test_sensitivity_in_words() -> None:
    (line,) = describe_figure("sensitivity", analyze_study(study())).lines
    assert line == "sm-r: first 0.1 (0.01 to 1); second 0.25 (0 to 30)."


def test_figures_without_data_are_left_out_and_named() -> None:
    full, old = analyze_study(study()), analyze_study(study(method("control", [None] * 2)))
    assert list_drawable_figures(full) == ["solved", "fitness", "diagnostics", "sensitivity"]
    assert explain_missing_figures(full) == {}
    assert list_drawable_figures(old) == ["solved", "fitness", "diagnostics"]
    assert list(explain_missing_figures(old)) == ["sensitivity"]
    bare = analyze_study(study(method("control", [10, None], metrics=[])))
    assert list_drawable_figures(bare) == ["solved"]
    assert list(explain_missing_figures(bare)) == ["fitness", "diagnostics", "sensitivity"]


def test_finished_runs_need_no_warning() -> None:
    assert collect_warnings(study()) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"status": "interrupted"}, "Unfinished: control (interrupted, 2 of 2 runs completed)"),
        ({"status": "running", "runs": 5}, "Unfinished: control (running, 2 of 5 runs completed)"),
        ({"scale": 0.1}, "Scaled down (scale 0.1): control"),
    ],
)
def test_what_must_be_known_first_is_said(changes: dict[str, object], said: str) -> None:
    (warning,) = collect_warnings(study(method("control", [10, 20], **changes), method("sm-r", [10, 20])))
    assert warning.startswith(said)


def test_a_study_in_full_is_not_called_scaled() -> None:
    assert collect_warnings(study(method("control", [10], scale=1.0))) == []


def test_different_budgets_are_said() -> None:
    from dataclasses import replace

    (warning,) = collect_warnings(study(method("a", [10]), replace(method("b", [10]), budget=500)))
    assert "--at 500" in warning


def test_where_the_numbers_come_from() -> None:
    control, _ = tabulate_runs(study()).rows
    assert control[1:7] == ("4 of 4", "1,000", "7", "finished", "2025-01-02 03:04", "0:01:01")
    assert list_commands(study()) == ["tfsm run parity --mutation control", "tfsm run parity --mutation sm-r"]
    assert list_commands(study(method("it's", [1]))) == ["""tfsm run parity --mutation 'it'"'"'s'"""]
    mixed = study(method("a", [1]), method("b", [1], versions={"tfsm": "1.2.4"}))
    assert list_versions(mixed) == [("tfsm", "1.2.3 and 1.2.4"), ("python", "3.13.0")]


def test_a_record_without_times_or_versions_is_told_without_them() -> None:
    bare = method("a", [1], metrics=logged(1), started=None, ended=None, versions=None, command=None)
    assert tabulate_runs(study(bare)).rows[0][5:7] == ("-", "-")
    assert list_versions(study(bare)) == []
    assert list_commands(study(bare)) == []
    assert bare.budget == BUDGET
