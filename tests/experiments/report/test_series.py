"""What was logged is put together run by run, and what is missing or broken is left out."""

from __future__ import annotations

import math

import numpy as np

from tests.experiments.report.cases import BUDGET, RICH, logged, method, study
from tfsm.report.findings import panels_of, spread_of


def test_the_usual_measures_come_first_then_operators_own() -> None:
    panels = panels_of(study())
    assert [panel.key for panel in panels] == ["better", "neutral", "broken", "divergence", "search_steps"]
    assert [list(panel.series) for panel in panels[3:]] == [["control", "sm-r"], ["sm-r"]]
    assert [panel.share for panel in panels] == [True, True, True, False, False]
    assert [panel.log for panel in panels] == [False, False, False, True, False]


def test_a_measure_that_all_runs_share_is_what_they_logged() -> None:
    broken = panels_of(study())[2].series["control"]
    np.testing.assert_allclose(broken.evaluations, range(100, BUDGET + 1, 100))
    np.testing.assert_allclose(broken.middle, [1 - i / 10 for i in range(1, 11)], atol=1e-12)
    np.testing.assert_allclose(broken.low, broken.middle)
    np.testing.assert_allclose(broken.high, broken.middle)


def test_runs_that_differ_give_their_quartiles() -> None:
    lines = [{"run": run, "evaluations": 50, "better": run / 8} for run in range(5)]
    (panel,) = panels_of(study(method("control", [None] * 5, metrics=lines)))
    curve = panel.series["control"]
    assert (curve.low[0], curve.middle[0], curve.high[0]) == (1 / 8, 2 / 8, 3 / 8)


def test_runs_that_logged_at_different_times_meet_in_bins() -> None:
    lines = [
        {"run": run, "evaluations": evaluations + run, "better": 0.5}
        for run in (0, 1)
        for evaluations in range(10, 1_000, 10)
    ]
    curve = panels_of(study(method("control", [None] * 2, metrics=lines)))[0].series["control"]
    assert curve.evaluations.size == 50
    assert (np.diff(curve.evaluations) > 0).all()
    assert (curve.middle == 0.5).all()


def test_quantiles_of_divergence_are_preferred_to_its_mean() -> None:
    divergence = panels_of(study())[3].series
    assert not divergence["control"].of_children
    assert set(divergence["control"].middle) == {0.5}
    assert divergence["sm-r"].of_children
    ends = [set(getattr(divergence["sm-r"], name)) for name in ("low", "middle", "high")]
    assert ends == [{0.02}, {0.04}, {0.08}]


def test_quartiles_are_known_where_the_greatest_divergence_is_not() -> None:
    lines = [{"run": 0, "evaluations": 5, "divergence": None, "divergence_quantiles": [1.0, 2.0, 3.0, 4.0, None]}]
    (panel,) = panels_of(study(method("control", [None], metrics=lines)))
    assert panel.series["control"].middle.tolist() == [3.0]


def test_no_divergence_at_all_has_no_logarithm() -> None:
    (panel,) = panels_of(study(method("control", [None], metrics=[{"run": 0, "evaluations": 5, "divergence": 0.0}])))
    assert not panel.log


def test_sensitivities_are_those_of_the_end_and_medians_over_runs() -> None:
    def line(run: int, evaluations: int, middle: float) -> dict[str, object]:
        return {"run": run, "evaluations": evaluations, "sensitivity": {"dense": [0.0, middle, 2 * middle]}}

    lines = [line(0, 10, 99.0), line(0, 20, 1.0), line(1, 10, 3.0), line(2, 30, 5.0)]
    assert spread_of(method("sm-r", [None] * 3, metrics=lines)) == {"dense": (0.0, 3.0, 6.0)}


def test_what_is_no_number_is_left_out() -> None:
    useless = [math.nan, math.inf, None, "much", True, [1.0, 2.0], {}]
    lines = [{"run": 0, "evaluations": 10, "odd": value, "divergence_quantiles": value} for value in useless]
    lines += [{"run": 0, "evaluations": None, "better": 0.5}, {"evaluations": 10, "better": 0.5}, {}]
    odd = method("control", [None], metrics=[*lines, {"run": 0, "sensitivity": {"dense": [1, None, 2], "x": 3}}])
    assert panels_of(study(odd)) == ()
    assert spread_of(odd) == {}


def test_old_runs_without_the_new_keys_have_the_old_panels() -> None:
    old = method("control", [None], metrics=logged(1))
    assert [panel.key for panel in panels_of(study(old))] == ["better", "neutral", "broken", "divergence"]
    assert spread_of(old) == {}
    assert spread_of(method("control", [None], metrics=logged(1, **RICH)))


def test_whole_numbers_too_large_for_a_float_are_left_out() -> None:
    lines = [{"run": 0, "evaluations": 1, "best_fitness": 1.0, "own": own} for own in (10**400, 3)]
    (panel,) = panels_of(study(method("control", [None], metrics=lines)))
    assert panel.series["control"].middle.tolist() == [3.0]
