"""The JSON document of a report."""

from __future__ import annotations

import json

import pytest

from tests.report.cases import study
from tfsm.report.findings import analyze_study
from tfsm.report.tables import build_document


def test_the_document_is_json_and_contains_everything() -> None:
    document = json.loads(json.dumps(build_document([analyze_study(study(), at=500, baseline="control")])))
    (parity,) = document["studies"]
    assert (parity["domain"], parity["at"], parity["baseline"], parity["band"]) == (
        "parity",
        500,
        "control",
        "kaplan-meier",
    )
    control, other = parity["methods"]
    assert control["summary"]["share"] == 0.5
    assert control["runs"][0] == {"run": 0, "solved": True, "evaluations": 900, "best_fitness": 1.0}
    assert control["solved_curve"]["evaluations"] == [0, 900, 950, 1000]
    assert control["solved_curve"]["share"] == [0, 0.25, 0.5, 0.5]
    assert control["sensitivity"] is None
    assert other["sensitivity"]["second"] == [0.0, 0.25, 30.0]
    assert other["diagnostics"]["search_steps"]["middle"] == [4.5] * 10
    assert other["settings"]["mutation_options"] == {"floor": 0.01}
    (comparison,) = parity["comparisons"]
    assert comparison["superiority"] == 1.0
    assert set(comparison["verdicts"]) == {
        "mann-whitney-all",
        "mann-whitney-solved",
        "barnard-end",
        "barnard-at",
        "log-rank",
        "mann-whitney-fitness",
    }
    assert comparison["verdicts"]["mann-whitney-all"]["p"] == pytest.approx(2 / 70)
