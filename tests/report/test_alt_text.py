"""The descriptions of figures contain the numbers that the figures show."""

from __future__ import annotations

from tests.report.cases import method, study
from tfsm.report.alt_text import describe_figure, explain_missing_figures, list_drawable_figures
from tfsm.report.findings import analyze_study


def test_solved_runs_are_described() -> None:
    description = describe_figure("solved", analyze_study(study(), at=350))
    assert "350" in description.explanation
    control, other = description.lines
    assert control.startswith("control: 2 of 4 runs solved; 50% by 1,000 evaluations (95% interval ")
    assert control.endswith("; the first at 900, half of the runs by 950, the last at 950; 0% within 350.")
    assert other.endswith("; the first at 100, half of the runs by 250, the last at 400; 75% within 350.")


def test_without_a_solution_none_is_mentioned() -> None:
    (line,) = describe_figure("solved", analyze_study(study(method("control", [None] * 4)))).lines
    # Wilson's interval of none of four ends where that of four of four begins, seen from the other end.
    assert line == "control: 0 of 4 runs solved; 0% by 1,000 evaluations (95% interval 0% to 49%)."


def test_the_explanation_names_the_estimate() -> None:
    assert "Kaplan" in describe_figure("solved", analyze_study(study())).explanation
    assert "Wilson" in describe_figure("solved", analyze_study(study(), band="wilson")).explanation


def test_fitness_is_described() -> None:
    # The middle half of 1, 1.1, 1.2 and 1.3.
    line = describe_figure("fitness", analyze_study(study())).lines[0]
    assert line.startswith("control: from 0.25 at 100 evaluations to 1.15 at 1,000 (95% interval ")
    assert line.endswith("; 4 runs).")
    (line,) = describe_figure("fitness", analyze_study(study(method("control", [None])))).lines
    assert line.endswith(" to 1 at 1,000 (one run, so no interval).")


def test_diagnostics_are_described() -> None:
    lines = describe_figure("diagnostics", analyze_study(study())).lines
    assert lines[0] == "Children better than their parent: control from 25% to 25%; sm-r from 25% to 25%."
    assert lines[2] == "Broken children: control from 90% to 0%; sm-r from 90% to 0%."
    assert lines[3] == (
        "Divergence of children: control from 0.5 to 0.5; "
        "sm-r from 0.04 to 0.04 (quartiles of the children at the end: 0.02 and 0.08)."
    )
    assert lines[4] == "Search steps: sm-r from 4.5 to 4.5."


def test_sensitivity_is_described() -> None:
    (line,) = describe_figure("sensitivity", analyze_study(study())).lines
    assert line == "sm-r: first 0.1 (0.01 to 1); second 0.25 (0 to 30)."


def test_figures_without_data_are_omitted_and_explained() -> None:
    full, old = analyze_study(study()), analyze_study(study(method("control", [None] * 2)))
    assert list_drawable_figures(full) == ["solved", "fitness", "diagnostics", "sensitivity"]
    assert explain_missing_figures(full) == {}
    assert list_drawable_figures(old) == ["solved", "fitness", "diagnostics"]
    assert list(explain_missing_figures(old)) == ["sensitivity"]
    bare = analyze_study(study(method("control", [10, None], metrics=[])))
    assert list_drawable_figures(bare) == ["solved"]
    assert list(explain_missing_figures(bare)) == ["fitness", "diagnostics", "sensitivity"]
