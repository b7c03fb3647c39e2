"""Figures are drawn, distinguish methods without relying on color, and are reproducible."""

from __future__ import annotations

import re
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.image import imread

from tests.report.cases import EVIL, RICH, make_log, method, study
from tfsm.report.alt_text import list_drawable_figures
from tfsm.report.findings import Findings, analyze_study
from tfsm.report.html import STYLESHEET
from tfsm.report.plot_style import (
    COLORS,
    DASHES,
    GRID,
    INK,
    OPERATOR_COLORS,
    PAPER,
    assign_styles,
    find_evaluations_end,
    house_style,
)
from tfsm.report.plots import render_figure, save_figures

FIGURES = ["solved", "fitness", "diagnostics", "sensitivity"]


@pytest.fixture(scope="module")
def findings() -> Findings:
    return analyze_study(study(), at=500)


def pixels(png: bytes) -> np.ndarray:
    return imread(BytesIO(png), format="png")[..., :3]


def places(picture: np.ndarray, color: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows and columns of all pixels of a color."""
    rows, columns = np.nonzero(abs(picture - np.array(to_rgb(color))).max(axis=-1) < 0.02)
    return rows, columns


def luminance(color: str) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color)]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_not_blank_and_shows_every_method_that_has_data(findings: Findings, name: str) -> None:
    picture = pixels(render_figure(name, findings, format="png"))
    assert picture.shape[1] == 7.2 * 150
    assert picture.var() > 0.005
    assert picture[0, 0].tolist() == list(to_rgb(PAPER))
    for shown in ("control", "sm-r") if name != "sensitivity" else ("sm-r",):
        assert places(picture, OPERATOR_COLORS[shown])[0].size > 100


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("format", ["png", "svg"])
def test_the_same_findings_give_the_same_bytes(findings: Findings, name: str, format: str) -> None:
    assert render_figure(name, findings, format=format) == render_figure(name, findings, format=format)


@pytest.mark.parametrize("name", FIGURES)
def test_drawings_are_valid_and_contain_neither_dates_nor_fonts(findings: Findings, name: str) -> None:
    content = render_figure(name, findings, format="svg")
    drawing = ElementTree.fromstring(content)
    assert drawing.tag == "{http://www.w3.org/2000/svg}svg"
    assert not drawing.findall(".//{http://www.w3.org/2000/svg}text")
    assert b"<dc:date>" not in content
    assert b"parity: " in content


def test_the_share_of_solved_runs_is_drawn_at_its_position(findings: Findings) -> None:
    # The curve of sm-r rises to 100% at 400 of 1,000 evaluations, and control's ends at one half.
    picture = pixels(render_figure("solved", findings, format="png"))
    legend = picture.shape[0] * 0.14
    rows, columns = places(picture, OPERATOR_COLORS["sm-r"])
    rows, columns = rows[rows > legend], columns[rows > legend]
    left, right, top, bottom = columns.min(), columns.max(), rows.min(), rows.max()
    risen = columns[rows <= top + 2].min()
    assert (risen - left) / (right - left) == pytest.approx(0.4, abs=0.02)
    rows, columns = places(picture, OPERATOR_COLORS["control"])
    highest = rows[(rows > legend) & (columns > left + 0.96 * (right - left))].min()
    assert (bottom - highest) / (bottom - top) == pytest.approx(0.5, abs=0.02)


def test_the_axis_ends_with_the_data() -> None:
    assert find_evaluations_end(analyze_study(study(method("sm-r", [100, 200])))) == pytest.approx(220)
    assert find_evaluations_end(analyze_study(study(method("sm-r", [100, 990])))) == 1_000
    assert find_evaluations_end(analyze_study(study())) == 1_000
    assert find_evaluations_end(analyze_study(study(method("sm-r", [100, 200])), at=800)) == pytest.approx(840)


def test_a_run_that_stopped_early_is_marked() -> None:
    whole = method("control", [100, None, None])
    stopped = replace(whole, outcomes=(*whole.outcomes[:2], replace(whole.outcomes[2], evaluations=500)))
    marked, plain = (render_figure("solved", analyze_study(study(own)), format="png") for own in (stopped, whole))
    assert marked != plain


def test_every_method_has_its_own_style() -> None:
    names = ["other", *OPERATOR_COLORS, *(f"method {i}" for i in range(20))]
    chosen = assign_styles(names)
    assert list(chosen) == names
    assert len(set(chosen.values())) == len(names)
    assert {name: chosen[name].color for name in OPERATOR_COLORS} == OPERATOR_COLORS


@pytest.mark.parametrize(
    "names", [list(OPERATOR_COLORS), ["a", "b", "c", "d", "e"], ["x", "sm-g-sum", "y", "control", "z"]]
)
def test_up_to_five_methods_differ_in_dashes_alone(names: list[str]) -> None:
    assert len({style.dash for style in assign_styles(names).values()}) == len(names) == len(DASHES)


def css_colors(scheme: str) -> dict[str, str]:
    """Return the colors of the page's light or dark scheme."""
    light, dark = re.findall(r":root \{(.*?)\}", STYLESHEET.read_text(encoding="utf-8"), re.DOTALL)
    return dict(re.findall(r"--([\w-]+): (#\w+);", light if scheme == "light" else dark))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_curves_have_enough_contrast(scheme: str) -> None:
    page = css_colors(scheme)
    paper, colors = page["paper"], [page[f"curve-{i}"] for i in range(len(COLORS))]
    assert len(set(colors)) == len(COLORS)
    assert min(contrast(color, paper) for color in colors) >= 3
    assert contrast(INK, PAPER) >= 7
    assert contrast(GRID, PAPER) < 1.6, "the grid must not be taken for data"


@pytest.mark.sample(6)
@pytest.mark.parametrize("width", [3.4, 7.2])
@pytest.mark.parametrize("name", FIGURES)
def test_unusual_names_are_drawn_literally(name: str, width: float) -> None:
    names = [EVIL, "_hidden", "\u6f14\u5316\x1b\udcff", "much " * 40, "$unbalanced"]
    odd = analyze_study(study(*(method(own, [100, None], metrics=make_log(2, **RICH)) for own in names)))
    assert pixels(render_figure(name, odd, format="png", width=width)).var() > 0.005


def test_names_that_begin_with_an_underscore_are_in_the_legend() -> None:
    with_line, without = (
        render_figure("solved", analyze_study(study(method(name, [None, None]))), format="svg") for name in ("_x", "")
    )
    assert with_line.count(b"<use ") > without.count(b"<use ")


def test_user_settings_of_matplotlib_are_ignored_and_kept(findings: Findings) -> None:
    expected = render_figure("solved", findings, format="svg")
    with matplotlib.rc_context({"lines.linewidth": 9, "axes.grid": False, "savefig.transparent": True}):
        assert render_figure("solved", findings, format="svg") == expected
        assert matplotlib.rcParams["lines.linewidth"] == 9
    before = dict(matplotlib.rcParams)
    with house_style():
        assert matplotlib.rcParams["lines.linewidth"] != before["lines.linewidth"]
    assert dict(matplotlib.rcParams) == before


@pytest.mark.slow
def test_files_have_the_same_name_in_both_formats(tmp_path: Path, findings: Findings) -> None:
    files = save_figures(tmp_path, [findings])
    assert {file.name for file in files} == {f"{name}.{ending}" for name in FIGURES for ending in ("png", "svg")}
    assert sorted(tmp_path.iterdir()) == sorted(files)


@pytest.mark.slow
def test_several_studies_have_separate_files(tmp_path: Path, findings: Findings) -> None:
    other = analyze_study(replace(study(method("control", [None, None])), domain="hard maze/2"))
    files = {file.name for file in save_figures(tmp_path, [findings, other])}
    assert {"parity-solved.png", "parity-sensitivity.svg", "hard-maze-2-solved.svg"} <= files
    assert "hard-maze-2-sensitivity.png" not in files


@pytest.mark.sample(2)
@pytest.mark.parametrize("fitness", [0.0, -1e9, 1e12])
def test_degenerate_runs_are_drawn_without_a_warning(fitness: float) -> None:
    lines = [{"run": 0, "evaluations": 1, "best_fitness": fitness, "better": 0.0, "divergence": 0.0, "negative": -1.0}]
    lines[0]["sensitivity"] = {"dead": [0.0, 0.0, 0.0]}  # type: ignore[assignment]
    alone = analyze_study(study(method("control", [1], metrics=lines)))
    for name in list_drawable_figures(alone):
        assert pixels(render_figure(name, alone, format="png")).var() > 0.001
    assert list_drawable_figures(alone) == FIGURES
