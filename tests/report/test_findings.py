"""Logged metrics are combined over runs, and missing or broken ones are left out."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.report.cases import BUDGET, RICH, make_log, method, study
from tfsm.analysis.results import Method
from tfsm.errors import TfsmError
from tfsm.report.alt_text import describe_figure, list_drawable_figures
from tfsm.report.findings import (
    EliteArchive,
    analyze_study,
    collect_diagnostics,
    collect_layer_sensitivity,
    load_fullest_archive,
)
from tfsm.runs.records import behavior_file


def test_the_usual_measures_come_before_those_of_operators() -> None:
    panels = collect_diagnostics(study())
    assert [panel.key for panel in panels] == ["better", "neutral", "broken", "divergence", "search_steps"]
    assert [list(panel.series) for panel in panels[3:]] == [["control", "sm-r"], ["sm-r"]]
    assert [panel.share for panel in panels] == [True, True, True, False, False]
    assert [panel.log for panel in panels] == [False, False, False, True, False]


def test_equal_values_of_all_runs_are_kept() -> None:
    broken = collect_diagnostics(study())[2].series["control"]
    np.testing.assert_allclose(broken.evaluations, range(100, BUDGET + 1, 100))
    np.testing.assert_allclose(broken.middle, [1 - i / 10 for i in range(1, 11)], atol=1e-12)
    np.testing.assert_allclose(broken.low, broken.middle)
    np.testing.assert_allclose(broken.high, broken.middle)


def test_runs_that_differ_give_their_quartiles() -> None:
    lines = [{"run": run, "evaluations": 50, "better": run / 8} for run in range(5)]
    (panel,) = collect_diagnostics(study(method("control", [None] * 5, metrics=lines)))
    curve = panel.series["control"]
    assert (curve.low[0], curve.middle[0], curve.high[0]) == (1 / 8, 2 / 8, 3 / 8)


def test_runs_that_logged_at_different_times_meet_in_bins() -> None:
    lines = [
        {"run": run, "evaluations": evaluations + run, "better": 0.5}
        for run in (0, 1)
        for evaluations in range(10, 1_000, 10)
    ]
    curve = collect_diagnostics(study(method("control", [None] * 2, metrics=lines)))[0].series["control"]
    assert curve.evaluations.size == 50
    assert (np.diff(curve.evaluations) > 0).all()
    assert (curve.middle == 0.5).all()


def test_quantiles_of_divergence_are_preferred_to_its_mean() -> None:
    divergence = collect_diagnostics(study())[3].series
    assert not divergence["control"].of_children
    assert set(divergence["control"].middle) == {0.5}
    assert divergence["sm-r"].of_children
    ends = [set(getattr(divergence["sm-r"], name)) for name in ("low", "middle", "high")]
    assert ends == [{0.02}, {0.04}, {0.08}]


def test_quartiles_are_known_where_the_greatest_divergence_is_not() -> None:
    lines = [{"run": 0, "evaluations": 5, "divergence": None, "divergence_quantiles": [1.0, 2.0, 3.0, 4.0, None]}]
    (panel,) = collect_diagnostics(study(method("control", [None], metrics=lines)))
    assert panel.series["control"].middle.tolist() == [3.0]


def test_no_divergence_at_all_has_no_logarithm() -> None:
    (panel,) = collect_diagnostics(
        study(method("control", [None], metrics=[{"run": 0, "evaluations": 5, "divergence": 0.0}]))
    )
    assert not panel.log


def test_sensitivities_are_those_of_the_end_and_medians_over_runs() -> None:
    def line(run: int, evaluations: int, middle: float) -> dict[str, object]:
        return {"run": run, "evaluations": evaluations, "sensitivity": {"dense": [0.0, middle, 2 * middle]}}

    lines = [line(0, 10, 99.0), line(0, 20, 1.0), line(1, 10, 3.0), line(2, 30, 5.0)]
    assert collect_layer_sensitivity(method("sm-r", [None] * 3, metrics=lines)) == {"dense": (0.0, 3.0, 6.0)}


def test_values_that_are_not_numbers_are_left_out() -> None:
    useless = [math.nan, math.inf, None, "much", True, [1.0, 2.0], {}]
    lines = [{"run": 0, "evaluations": 10, "odd": value, "divergence_quantiles": value} for value in useless]
    lines += [{"run": 0, "evaluations": None, "better": 0.5}, {"evaluations": 10, "better": 0.5}, {}]
    odd = method("control", [None], metrics=[*lines, {"run": 0, "sensitivity": {"dense": [1, None, 2], "x": 3}}])
    assert collect_diagnostics(study(odd)) == ()
    assert collect_layer_sensitivity(odd) == {}


def test_old_runs_without_the_new_keys_have_the_old_panels() -> None:
    old = method("control", [None], metrics=make_log(1))
    assert [panel.key for panel in collect_diagnostics(study(old))] == ["better", "neutral", "broken", "divergence"]
    assert collect_layer_sensitivity(old) == {}
    assert collect_layer_sensitivity(method("control", [None], metrics=make_log(1, **RICH)))


def test_whole_numbers_too_large_for_a_float_are_left_out() -> None:
    lines = [{"run": 0, "evaluations": 1, "best_fitness": 1.0, "own": value} for value in (10**400, 3)]
    (panel,) = collect_diagnostics(study(method("control", [None], metrics=lines)))
    assert panel.series["control"].middle.tolist() == [3.0]


CELLS = np.array([[0.5, 0.5], [0.5, 1.5], [1.5, 0.5], [1.5, 1.5], [np.inf, np.inf]])
EMPTY = -np.inf


def write_behavior(directory: Path, run: int, fitness: list[float], cells: np.ndarray = CELLS) -> None:
    file = behavior_file(directory, run)
    file.parent.mkdir(parents=True, exist_ok=True)
    last = np.array([[EMPTY] * len(fitness), fitness])
    np.savez_compressed(
        file, evaluations=[1, 2], behavior=np.zeros((2, 5, 2)), fitness=last, cells=cells, names=["x", "y"]
    )


def make_method(tmp_path: Path, *fitness: list[float]) -> Method:
    for run, cells in enumerate(fitness):
        write_behavior(tmp_path, run, cells)
    return replace(method("sm-g-so", [None] * len(fitness)), directory=tmp_path)


def test_the_fullest_archive_is_read_without_unused_cells(tmp_path: Path) -> None:
    archive = load_fullest_archive(
        make_method(tmp_path, [1.0, EMPTY, EMPTY, EMPTY, EMPTY], [1.0, 4.0, EMPTY, 3.0, EMPTY])
    )
    assert archive is not None
    assert (archive.run, archive.names) == (1, ("x", "y"))
    np.testing.assert_array_equal(archive.fitness, [1.0, 4.0, EMPTY, 3.0])
    np.testing.assert_array_equal(archive.filled, [True, True, False, True])


def test_a_raster_has_each_cell_at_its_position() -> None:
    archive = EliteArchive(0, CELLS[:4], np.array([1.0, 4.0, EMPTY, 3.0]), ("x", "y"))
    values, edges = archive.raster(4, 4)
    np.testing.assert_array_equal(values[:2, :2], np.ones((2, 2)))  # the first row is the lowest
    np.testing.assert_array_equal(values[2:, :2], np.full((2, 2), 4.0))
    assert np.isnan(values[:2, 2:]).all()
    np.testing.assert_array_equal(values[2:, 2:], np.full((2, 2), 3.0))
    assert edges == (0.0, 2.0, 0.0, 2.0)


def test_an_archive_is_described_and_drawn(tmp_path: Path) -> None:
    findings = analyze_study(study(make_method(tmp_path, [1.0, 4.0, EMPTY, 3.0, EMPTY])))
    assert "archive" in list_drawable_figures(findings)
    (line,) = describe_figure("archive", findings).lines
    assert line == "sm-g-so, run 0: 3 of 4 cells filled (75%), fitness 1 to 4, median 3."
    pytest.importorskip("matplotlib")
    from tfsm.report.plots import render_figure

    assert render_figure("archive", findings, format="png").startswith(b"\x89PNG")
    assert b"75%" in render_figure("archive", findings, format="svg")


def test_without_an_archive_there_is_nothing_to_draw_or_explain(tmp_path: Path) -> None:
    findings = analyze_study(study(method("control", [None])))
    assert "archive" not in list_drawable_figures(findings)
    write_behavior(tmp_path, 0, [1.0] * 5, np.zeros((5, 3)))  # three dimensions cannot be drawn
    assert load_fullest_archive(replace(method("control", [None]), directory=tmp_path)) is None


@pytest.mark.parametrize(
    "tables",
    [
        {"cells": np.zeros((5, 2))},
        {"cells": np.zeros((5, 2)), "fitness": np.zeros((2, 4)), "names": ["x", "y"]},
        {"cells": np.zeros((5, 2)), "fitness": np.zeros(5), "names": ["x", "y"]},
        {"cells": np.zeros((5, 2)), "fitness": np.zeros((2, 5)), "names": "x"},
        {"cells": np.array([["a", "b"]] * 5), "fitness": np.zeros((2, 5)), "names": ["x", "y"]},
        {"cells": np.zeros((5, 2)), "fitness": np.zeros((0, 5)), "names": ["x", "y"]},
    ],
    ids=["no fitness", "fewer fitnesses", "no intervals", "one name", "words", "no interval"],
)
def test_inconsistent_tables_are_an_error(tables: dict[str, Any], tmp_path: Path) -> None:
    file = behavior_file(tmp_path, 0)
    file.parent.mkdir()
    np.savez(file, **tables)
    with pytest.raises(TfsmError, match=r"run-000.npz: not a behavior log"):
        load_fullest_archive(replace(method("control", [None]), directory=tmp_path))


def test_a_damaged_file_is_an_error(tmp_path: Path) -> None:
    file = behavior_file(tmp_path, 0)
    file.parent.mkdir()
    file.write_bytes(b"PK\x03\x04 torn")
    with pytest.raises(TfsmError, match=r"run-000.npz: cannot be read"):
        load_fullest_archive(replace(method("control", [None]), directory=tmp_path))
    np.savez_compressed(file, cells=np.random.default_rng(0).normal(size=(50, 2)))
    torn = bytearray(file.read_bytes())
    torn[200:300] = bytes(100)  # within the compressed data, where zlib reports the error
    file.write_bytes(torn)
    with pytest.raises(TfsmError, match=r"run-000.npz: cells.npy: not an array"):
        load_fullest_archive(replace(method("control", [None]), directory=tmp_path))
