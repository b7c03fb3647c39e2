"""The page is complete, safe and accessible, as far as can be tested without a browser."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import pytest

from tests.report.cases import EVIL, RICH, make_log, method, study
from tests.report.outline import Node, parse_page
from tfsm.report.findings import analyze_study
from tfsm.report.html import STYLESHEET, css_variables, inline_svg, render_page
from tfsm.report.plot_style import COLORS, GRID, INK, PAPER

STYLE = STYLESHEET.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def content() -> bytes:
    """Return a page of two studies, the second with malicious names."""
    evil = study(
        method(EVIL, [900, None], metrics=make_log(2, **RICH, **{"<b>odd</b>": 1.0}), status="<i>cut</i>"),
        method("control", [100, 200], command=["tfsm", EVIL], versions={EVIL: EVIL}),
    )
    return render_page([analyze_study(study(), at=500), analyze_study(replace(evil, domain=f"maze {EVIL}"), at=500)])


@pytest.fixture(scope="module")
def page(content: bytes) -> Node:
    return parse_page(content)


def named(page: Node, id: str) -> Node:
    (match,) = [node for node in page.all() if node.attributes.get("id") == id]
    return match


def test_the_page_has_a_language_a_title_and_landmarks(page: Node) -> None:
    (html,) = page.all("html")
    assert html.attributes["lang"] == "en"
    (title,), (heading,) = page.all("title"), page.all("h1")
    assert title.text == heading.text == f"Report on parity and maze {EVIL}"
    for tag in ("header", "nav", "main", "footer"):
        assert len(page.all(tag)) == 1
    assert page.all("nav")[0].attributes["aria-label"]
    assert [node.attributes.get("name") for node in page.all("meta")] == [None, None, "viewport", "color-scheme"]


def test_headings_skip_no_level(page: Node) -> None:
    headings = [(int(node.tag[1]), node.text) for node in page.all("h1", "h2", "h3", "h4")]
    levels = [level for level, _ in headings]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    sections = ["Runs", "Results", "Comparisons", "Figures", "Diagnostics", "Settings"]
    assert [text for level, text in headings if level == 3] == sections * 2


def test_identifiers_are_unique_and_references_resolve(page: Node, content: bytes) -> None:
    ids = [node.attributes["id"] for node in page.all() if "id" in node.attributes]
    assert len(set(ids)) == len(ids)
    referred = re.findall(r'url\(#([^)]+)\)|(?:xlink:)?href="#([^"]+)"', content.decode())
    referred += [
        (target, "")
        for node in page.all()
        for name in ("aria-labelledby", "aria-describedby")
        for target in node.attributes.get(name, "").split()
    ]
    assert len(referred) > 50
    assert {one or other for one, other in referred} <= set(ids)


def test_the_skip_link_comes_first(page: Node) -> None:
    first = page.all("body")[0].children[0]
    assert first.attributes["href"] == "#report"
    assert named(page, "report").tag == "main"


def test_nothing_is_fetched_and_no_script_runs(page: Node, content: bytes) -> None:
    policy = next(n.attributes["content"] for n in page.all("meta") if "http-equiv" in n.attributes)
    assert policy.startswith("default-src 'none';")
    assert "script-src" not in policy
    assert not page.all("script", "iframe", "object", "embed", "img", "form", "base")
    for node in page.all():
        assert not [name for name in node.attributes if name.startswith("on") or name in ("src", "srcset")]
        assert node.attributes.get("href", "#").startswith("#") or node.attributes["href"] == "data:,"
        assert "url(" not in node.attributes.get("style", "").replace("url(#", "")
    assert "url(" not in STYLE
    assert "@import" not in STYLE
    assert b"http://" not in content
    assert b"https://" not in content


def test_names_are_escaped_everywhere(page: Node, content: bytes) -> None:
    assert b"<script" not in content
    assert b"<b>odd" not in content
    assert b"<i>cut" not in content
    texts = [node.text for node in page.all("th", "td", "dd", "dt", "code", "li", "h2")]
    assert texts.count(EVIL) >= 6
    assert any("<b>odd</b>" in text for text in texts)


def test_tables_have_captions_and_headers_with_a_scope(page: Node) -> None:
    tables = page.all("table")
    assert len(tables) == 2 * 6
    for table in tables:
        assert len(table.all("caption")) == 1
        assert table.all("caption")[0].text
        assert {node.attributes["scope"] for node in table.all("th")} <= {"col", "row", "rowgroup"}
        width = len(table.all("thead")[0].all("th"))
        for row in (row for body in table.all("tbody") for row in body.all("tr")):
            cells = row.all("th", "td")
            assert sum(int(cell.attributes.get("colspan", 1)) for cell in cells) == width
            assert cells[0].tag == "th"


def test_tables_scroll_in_boxes_that_the_keyboard_reaches(page: Node) -> None:
    boxes = [node for node in page.all("div") if "scroll" in node.attributes.get("class", "").split()]
    assert len(boxes) == len(page.all("table"))
    for box in boxes:
        assert box.attributes["tabindex"] == "0"
        assert named(page, box.attributes["aria-labelledby"]).text


def test_figures_are_described_with_numbers(page: Node) -> None:
    drawings = page.all("svg")
    assert len(drawings) == 2 * 4 * 2, "two studies with four figures each, for wide and narrow windows"
    for drawing in drawings:
        assert drawing.attributes["role"] == "img"
        assert drawing.attributes["aria-label"]
        description = named(page, drawing.attributes["aria-describedby"]).text
        assert len(re.findall(r"\d", description)) > 5
    assert "control: 2 of 4 runs solved; 50% by 1,000" in named(page, "study-1-figure-solved-description").text
    assert "second 0.25 (0 to 30)" in named(page, "study-1-figure-sensitivity-description").text


def test_the_page_contains_the_numbers_of_the_tables(page: Node) -> None:
    results = [node.text for node in named(page, "study-1-results-table").all("td")]
    assert {"2 of 4", "50% (15% to 85%)", "950 (interval unknown)"} <= set(results)
    tests = [node.text for node in named(page, "study-1-tests-table").all("td")]
    assert {"0.0286", "significant", "not significant", "Barnard's exact"} <= set(tests)
    assert named(page, "study-1-tests-table").all("th")[6].text == "control vs. sm-r"


def test_settings_that_differ_are_open_and_the_others_can_be_opened(page: Node) -> None:
    (closed,) = [node for node in page.all("details") if node.all("table")[0].text.count("floor")][:1]
    assert "open" not in closed.attributes
    assert "differ" in named(page, "study-1-differences-table").text
    assert not [node for details in page.all("details") for node in details.all() if node.tag == "svg"]


def test_unfinished_and_scaled_runs_have_a_banner() -> None:
    cut = analyze_study(study(method("control", [10, 20], metrics=(), status="interrupted", runs=5, scale=0.25)))
    banners = [
        node.text for node in parse_page(render_page([cut])).all("p") if node.attributes.get("class") == "banner"
    ]
    assert len(banners) == 2
    assert "control (interrupted, 2 of 5 runs completed)" in banners[0]
    assert "scale 0.25" in banners[1]


def test_finished_runs_have_no_banner_and_one_method_no_comparison() -> None:
    page = parse_page(render_page([analyze_study(study(method("control", [10, 20], metrics=())))]))
    assert not [node for node in page.all() if node.attributes.get("class") == "banner"]
    assert "nothing to compare" in page.text
    assert [node.text for node in page.all("nav")[0].all("a")][:2] == ["Runs", "Results"]


@pytest.mark.slow
def test_one_run_per_method_is_not_called_significant() -> None:
    tests = named(
        parse_page(render_page([analyze_study(study(method("a", [10]), method("b", [None])))])), "study-1-tests-table"
    )
    cells = [cell.text for cell in tests.all("td")]
    assert "not tested" in cells
    assert not {"significant", "not significant"} & set(cells)
    assert any("two runs or more on each side" in cell for cell in cells)


def test_old_runs_have_fewer_figures_with_an_explanation() -> None:
    page = parse_page(render_page([analyze_study(study(method("control", [10, None], metrics=[])))]))
    assert len(page.all("svg")) == 2
    assert "no run logged sensitivities" in page.text
    assert "no run logged anything about its mutations" in page.text


def test_undecodable_bytes_are_replaced() -> None:
    page = parse_page(render_page([analyze_study(study(method("lone \udcff surrogate\x00", [10, None], metrics=())))]))
    assert "lone \ufffd surrogate\ufffd" in page.text


@pytest.mark.slow
def test_the_same_runs_give_the_same_page() -> None:
    assert render_page([analyze_study(study())]) == render_page([analyze_study(study())])


def test_every_color_of_a_drawing_comes_from_the_color_scheme(content: bytes) -> None:
    light = {"paper": PAPER, "ink": INK, "grid": GRID, **{f"curve-{i}": color for i, color in enumerate(COLORS)}}
    for name, color in light.items():
        assert f"--{name}: {color};" in STYLE.split("@media")[0], "drawings have the colors of the light scheme"
    for color, name in css_variables().items():
        assert STYLE.count(f"--{name}:") == 2, "in the light scheme and in the dark one"
        assert color.encode() not in content.split(b"</style>")[1]


def test_something_other_than_a_drawing_is_rejected() -> None:
    with pytest.raises(ValueError, match="not a drawing"):
        inline_svg(b"<p>hello</p>", prefix="x")
