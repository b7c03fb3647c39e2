"""Tables contain the numbers worked out by hand, and warnings come first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.report.cases import BUDGET, make_log, method, study
from tfsm.analysis.results import Study
from tfsm.errors import TfsmError
from tfsm.report import tables
from tfsm.report.findings import analyze_study
from tfsm.report.tables import (
    collect_warnings,
    list_commands,
    list_versions,
    tabulate_runs,
    tabulate_setting_differences,
    tabulate_settings,
)


def test_results_hold_counts_intervals_medians_and_fitness() -> None:
    # Wilson's interval of 2 of 4: (1/2 +- 1.96 sqrt(1/16 + 0.96/16)) / 1.96 around one half, 0.15 to 0.85;
    # of 4 of 4: 1 / (1 + 3.84/4) = 0.51 to 1.
    control, other = tables.tabulate_results(analyze_study(study())).rows
    assert control == ("control", "2 of 4", "50% (15% to 85%)", "950 (interval unknown)", "1.15 (1 to 1.3)")
    assert other == ("sm-r", "4 of 4", "100% (51% to 100%)", "250 (interval unknown)", "1.15 (1 to 1.3)")


def test_a_median_that_fewer_than_half_of_the_runs_reach_is_not_reported() -> None:
    rows = tables.tabulate_results(analyze_study(study(method("control", [10, None, None])))).rows
    assert rows[0][3] == "not reached"


def test_effects_name_the_faster_method_and_the_one_that_solves_more() -> None:
    (row,) = tables.tabulate_effects(analyze_study(study())).rows
    assert row[:2] == ("control vs. sm-r", "0%")
    assert row[2].startswith("-50% (-85%")
    (row,) = tables.tabulate_effects(analyze_study(study(), baseline="control")).rows
    assert row[:2] == ("sm-r vs. control", "100%")
    assert row[2].startswith("+50% (")


def test_tests_report_raw_and_adjusted_p_values_with_their_meaning() -> None:
    # All of one side before all of the other is the most extreme of 70 deals, either way round.
    table = tables.tabulate_tests(analyze_study(study(), at=500))
    row = {row[1]: row for row in table.rows}
    assert row["faster, unsolved runs last?"][2:6] == ("Mann-Whitney U", "0.0286", "0.0286", "significant")
    assert row["more runs solved at the end?"][2] == "Barnard's exact"
    assert row["more runs solved at the end?"][5] == "not significant"
    assert row["more runs solved within 500?"][5] == "significant"
    # Two of two against four of four, all slower: 2 of 15 deals.
    assert row["faster, among solved runs?"][3:6] == ("0.133", "0.133", "not significant")
    assert len(table.rows) == 6


def test_holm_makes_three_pairs_of_one() -> None:
    three = study(
        method("a", [100, 200, 300, 400]), method("b", [500, 600, 700, 800]), method("c", [901, 902, 903, 904])
    )
    rows = [row for row in tables.tabulate_tests(analyze_study(three)).rows if row[1] == "faster, unsolved runs last?"]
    assert [row[0] for row in rows] == ["a vs. b", "a vs. c", "b vs. c"]
    assert [row[3:6] for row in rows] == [("0.0286", "0.0857", "not significant")] * 3


def test_one_run_per_method_is_never_significant() -> None:
    table = tables.tabulate_tests(analyze_study(study(method("a", [1]), method("b", [None])), at=500))
    assert {row[5] for row in table.rows} == {"not tested"}
    assert all("two" in row[6] for row in table.rows)


def test_settings_that_differ_have_their_own_table() -> None:
    assert tabulate_setting_differences(study()).rows == (
        ("mutation", "control", "sm-r"),
        ("mutation_options.floor", "-", "0.01"),
    )
    assert ("evaluations", "1000", "1000") in tabulate_settings(study()).rows


@pytest.mark.parametrize("at", [0, -3, BUDGET + 1])
def test_evaluations_that_no_run_had_are_refused(at: int) -> None:
    with pytest.raises(TfsmError, match=rf"--at {at}: expected 1 to 1000"):
        analyze_study(study(), at=at)


def test_an_unknown_baseline_is_refused_with_a_hint() -> None:
    with pytest.raises(TfsmError, match="no method named 'contrl', did you mean 'control'"):
        analyze_study(study(), baseline="contrl")


def test_a_single_method_has_no_comparisons() -> None:
    findings = analyze_study(Study("parity", (method("control", [10, 20]),)))
    assert findings.comparisons == ()
    assert tables.tabulate_tests(findings).rows == ()


def test_finished_runs_need_no_warning() -> None:
    assert collect_warnings(study()) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"status": "interrupted"}, "Unfinished: control (interrupted, 2 of 2 runs completed)"),
        ({"status": "running", "runs": 5}, "Unfinished: control (running, 2 of 5 runs completed)"),
        ({"scale": 0.1}, "Scaled down (scale 0.1): control"),
    ],
)
def test_unfinished_and_scaled_runs_cause_warnings(changes: dict[str, object], message: str) -> None:
    (warning,) = collect_warnings(study(method("control", [10, 20], **changes), method("sm-r", [10, 20])))
    assert warning.startswith(message)


def test_a_full_study_is_not_marked_as_scaled() -> None:
    assert collect_warnings(study(method("control", [10], scale=1.0))) == []


def test_different_budgets_cause_a_warning() -> None:
    (warning,) = collect_warnings(study(method("a", [10]), replace(method("b", [10]), budget=500)))
    assert "--at 500" in warning


def test_provenance_lists_runs_commands_and_versions() -> None:
    control, _ = tabulate_runs(study()).rows
    assert control[1:7] == ("4 of 4", "1,000", "7", "finished", "2025-01-02 03:04", "0:01:01")
    assert list_commands(study()) == ["tfsm run parity --mutation control", "tfsm run parity --mutation sm-r"]
    assert list_commands(study(method("it's", [1]))) == ["""tfsm run parity --mutation 'it'"'"'s'"""]
    mixed = study(method("a", [1]), method("b", [1], versions={"tfsm": "1.2.4"}))
    assert list_versions(mixed) == [("tfsm", "1.2.3 and 1.2.4"), ("python", "3.13.0")]


def test_a_record_without_times_or_versions_is_listed_without_them() -> None:
    bare = method("a", [1], metrics=make_log(1), started=None, ended=None, versions=None, command=None)
    assert tabulate_runs(study(bare)).rows[0][5:7] == ("-", "-")
    assert list_versions(study(bare)) == []
    assert list_commands(study(bare)) == []
    assert bare.budget == BUDGET
