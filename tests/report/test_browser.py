"""The page in a real browser: readable on all screens, in both color schemes and in print, and fetching nothing."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.browser import CONTRASTS, PHONE, WIDE, needs_browser
from tests.helpers.browser import browser as browser
from tests.report.cases import EVIL, RICH, make_log, method, study
from tfsm.report.findings import analyze_study
from tfsm.report.html import render_page

pytestmark = needs_browser

Open = Callable[..., Any]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a page with long names, many methods and a warning."""
    names = ["control", "sm-r", EVIL, "name-without-a-place-to-break-" * 4, *(f"method {i}" for i in range(4))]
    methods = [method(name, [100 + i, 300, None], metrics=make_log(3, **RICH)) for i, name in enumerate(names)]
    cut = replace(study(method("control", [None], status="interrupted", scale=0.5)), domain="hard-maze")
    written = tmp_path_factory.mktemp("page") / "report.html"
    written.write_bytes(render_page([analyze_study(study(*methods), at=500, baseline="control"), analyze_study(cut)]))
    return written


@pytest.fixture
def opened(browser: Any, file: Path) -> Iterator[Open]:
    """Return a function that opens the page in a new window."""
    contexts = []

    def open_(**options: Any) -> Any:
        context = browser.new_context(**{"viewport": WIDE, **options})
        contexts.append(context)
        tab = context.new_page()
        tab.goto(file.as_uri())
        return tab

    yield open_
    for context in contexts:
        context.close()


def test_the_page_loads_without_errors_or_further_requests(browser: Any, file: Path) -> None:
    context = browser.new_context()
    tab = context.new_page()
    messages: list[str] = []
    requested: list[str] = []
    tab.on("console", lambda message: messages.append(message.text))
    tab.on("pageerror", lambda error: messages.append(str(error)))
    tab.on("dialog", lambda dialog: messages.append(dialog.message))
    tab.on("request", lambda request: requested.append(request.url))
    tab.goto(file.as_uri())
    tab.wait_for_load_state("networkidle")
    assert messages == []
    assert [url for url in requested if not url.startswith("data:")] == [file.as_uri()]
    context.close()


def test_the_content_security_policy_blocks_requests(opened: Open) -> None:
    tab = opened()
    blocked = tab.evaluate(
        """() => new Promise(done => {
          document.addEventListener("securitypolicyviolation", event => done(event.effectiveDirective));
          const picture = new Image();
          picture.src = "https://example.com/x.png";
          document.body.append(picture);
        })"""
    )
    assert blocked == "img-src"


@pytest.mark.parametrize("viewport", [PHONE, {"width": 320, "height": 600}, {"width": 800, "height": 600}, WIDE])
def test_the_page_fits_narrow_windows(opened: Open, viewport: dict[str, int]) -> None:
    tab = opened(viewport=viewport)
    tab.evaluate("document.querySelectorAll('details').forEach(details => { details.open = true })")
    assert tab.evaluate("document.documentElement.scrollWidth") <= viewport["width"]


def test_on_a_phone_tables_scroll_in_their_boxes_and_figures_are_drawn_for_it(opened: Open) -> None:
    tab = opened(viewport=PHONE)
    boxes = tab.locator(".scroll").evaluate_all("all => all.map(box => [box.scrollWidth, box.clientWidth])")
    assert any(content > box for content, box in boxes)
    widths = tab.locator("svg").evaluate_all("all => all.map(e => e.getBoundingClientRect().width).filter(w => w)")
    assert len(widths) == tab.locator("svg").count() / 2
    assert all(250 < width <= 360 for width in widths)
    tab.locator(".scroll").first.focus()
    tab.keyboard.press("ArrowRight")
    # Scrolling is animated, and the page forbids scripts, so poll it from outside.
    deadline = time.monotonic() + 10
    while not tab.evaluate("document.querySelector('.scroll').scrollLeft > 0"):
        assert time.monotonic() < deadline, "the arrow key does not scroll the table"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_has_enough_contrast(opened: Open, scheme: str) -> None:
    tab = opened(color_scheme=scheme)
    tab.evaluate("document.querySelectorAll('details').forEach(details => { details.open = true })")
    contrasts = tab.evaluate(CONTRASTS)
    assert {"P", "TD", "TH", "A", "LI", "SPAN", "H1", "H2", "H3", "CODE", "SUMMARY", "STRONG"} <= {
        tag for tag, _ in contrasts
    }
    assert [(tag, ratio) for tag, ratio in contrasts if ratio < 4.5] == []


def test_the_schemes_differ(opened: Open) -> None:
    def colors(scheme: str) -> list[str]:
        tab = opened(color_scheme=scheme)
        curve = "getComputedStyle(document.querySelector('svg path[style*=\"--curve-1\"]')).stroke"
        return [tab.evaluate("getComputedStyle(document.body).backgroundColor"), tab.evaluate(curve)]

    light, dark = colors("light"), colors("dark")
    assert light[0] == "rgb(255, 255, 255)"
    assert light[0] != dark[0]
    assert light[1] != dark[1]


def test_the_keyboard_reaches_the_skip_link_first_and_every_table(opened: Open) -> None:
    tab = opened()
    tab.keyboard.press("Tab")
    focused = "document.activeElement"
    assert tab.evaluate(f"{focused}.className") == "skip"
    box = tab.evaluate(f"{focused}.getBoundingClientRect().toJSON()")
    assert box["left"] >= 0, "it must be visible when focused"
    assert box["top"] >= 0
    assert tab.evaluate(f"getComputedStyle({focused}).outlineStyle") == "solid"
    reached = []
    for _ in range(60):
        tab.keyboard.press("Tab")
        reached.append(tab.evaluate(f"{focused}.id"))
    visible = tab.locator(".scroll:visible").evaluate_all("all => all.map(box => box.id)")
    assert len(visible) == 5 + 2
    assert [id for id in reached if id in visible][: len(visible)] == visible


def test_the_skip_link_leads_into_the_report(opened: Open) -> None:
    tab = opened()
    tab.keyboard.press("Tab")
    tab.keyboard.press("Enter")
    assert tab.evaluate("document.activeElement.id") == "report"
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.id") == "study-1-runs-table"


@pytest.mark.parametrize("viewport", [PHONE, WIDE])
def test_every_picture_has_a_name_and_a_description(opened: Open, viewport: dict[str, int]) -> None:
    tab = opened(viewport=viewport)
    session = tab.context.new_cdp_session(tab)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    pictures = [n for n in nodes if not n["ignored"] and n["role"]["value"] in ("image", "img", "graphics-document")]
    assert len(pictures) == 4 + 3, "one per figure, not both drawings of it"
    for picture in pictures:
        assert picture["name"]["value"]
        assert re.search(r"\d", picture["description"]["value"])


def test_the_page_can_be_printed(opened: Open) -> None:
    pdf = opened(color_scheme="dark").pdf(format="A4")
    assert pdf.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b(?!s)", pdf)) >= 4


def test_the_printed_page_is_black_on_white_with_all_details_open(opened: Open) -> None:
    tab = opened(color_scheme="dark")
    tab.emulate_media(media="print")
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not tab.locator("nav").is_visible()
    assert tab.locator("details table").first.evaluate("table => table.getBoundingClientRect().height") > 100
    assert tab.locator(".wide").first.is_visible()
    assert not tab.locator(".narrow").first.is_visible()


def test_settings_open_without_a_script(opened: Open) -> None:
    tab = opened(java_script_enabled=False)
    settings = tab.locator("#study-1-settings-table")
    assert not settings.is_visible()
    tab.locator("summary").first.click()
    assert settings.is_visible()
