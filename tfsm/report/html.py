"""Page (Jinja2 template + style.css beside it)."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from html import escape
from itertools import groupby
from typing import Final

from tfsm import __version__
from tfsm.analysis.results import Study
from tfsm.report import tables
from tfsm.report.alt_text import describe_figure, explain_missing_figures, list_drawable_figures
from tfsm.report.findings import Findings
from tfsm.report.formatting import join_words, replace_unprintable
from tfsm.report.plot_style import COLORS, GRID, INK, PAPER
from tfsm.report.plots import NARROW, WIDE, render_figure
from tfsm.report.tables import Table

_SHORT: Final = 17
_LONG: Final = 30
"""Letters of a cell."""
_BRIEF: Final = 12
"""Rows of a table that is not worth a page break within it."""


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def element(name: str, *children: str, **attributes: str | int | None) -> Html:
    """Return an element; children that are no HTML are text.

    An attribute's trailing underscore is dropped, other underscores become hyphens; one without a value is left out.

    >>> element("p", "1 < 2 ", element("b", "&"), class_="note", aria_label="<>", id=None)
    '<p class="note" aria-label="&lt;&gt;">1 &lt; 2 <b>&amp;</b></p>'
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Html(f"<{name}{given}>{joined(*children)}</{name}>")


def text(content: str) -> Html:
    """Return text in which nothing is taken for HTML."""
    return Html(escape(replace_unprintable(content)))


def joined(*children: str) -> Html:
    """Return elements and texts one after the other."""
    return Html("".join(child if isinstance(child, Html) else text(child) for child in children))


def listing(items: list[str], *, id: str | None = None, class_: str | None = None) -> Html:
    """Return a list."""
    return element("ul", *(element("li", item) for item in items), id=id, class_=class_)


def table(content: Table, id: str) -> Html:
    """Return a table in a box that scrolls by itself, by keyboard too, and what is to be known about it."""
    columns = content.columns[1:] if content.grouped else content.columns
    numeric = {i - 1 for i in content.numeric} if content.grouped else content.numeric
    head = element("thead", element("tr", *(_html_head(name, i in numeric) for i, name in enumerate(columns))))
    body = _groups(content, numeric) if content.grouped else [_body(content.rows, numeric)]
    drawn = element("table", element("caption", element("span", content.caption), id=f"{id}-caption"), head, *body)
    box = element(
        "div",
        drawn,
        class_="scroll brief" if len(content.rows) <= _BRIEF else "scroll",
        role="group",
        tabindex=0,
        aria_labelledby=f"{id}-caption",
        id=id,
    )
    return joined(box, listing(list(content.notes), class_="notes") if content.notes else Html())


def _groups(content: Table, numeric: Set[int]) -> list[Html]:
    bodies = []
    for first, rows in groupby(content.rows, key=lambda row: row[0]):
        heading = element(
            "tr",
            element("th", element("span", first), scope="rowgroup", colspan=len(content.columns) - 1),
            class_="group",
        )
        own = (_row(row[1:], numeric) for row in rows)
        bodies.append(element("tbody", heading, *own, class_="group-rows"))
    return bodies


def _body(rows: Sequence[tuple[str, ...]], numeric: Set[int]) -> Html:
    return element("tbody", *(_row(row, numeric) for row in rows))


def _html_head(name: str, numeric: bool) -> Html:
    return element("th", name, scope="col", class_="number" if numeric else None)


def _row(cells: tuple[str, ...], numeric: Set[int]) -> Html:
    first, *others = cells
    rest = (element("td", cell, class_=_kind(cell, i in numeric)) for i, cell in enumerate(others, start=1))
    return element("tr", element("th", first, scope="row"), *rest)


def _kind(cell: str, numeric: bool) -> str | None:
    """Return how a cell is laid out: short ones are not broken, long ones get some room."""
    kinds = ["number"] if numeric else []
    kinds += ["short"] if len(cell) <= _SHORT else ["long"] if len(cell) >= _LONG and not numeric else []
    return " ".join(kinds) or None


def inline_svg(svg: bytes, *, prefix: str, label: str, described_by: str) -> Html:
    """Return a drawing as an element of a page.

    Args:
        svg: a file of matplotlib's.
        prefix: makes its identifiers different from those of the page's other drawings.
        label: what it is.
        described_by: the element that tells its content.
    """
    source = svg.decode()
    found = re.search(r'<svg\b[^>]*\bviewBox="([^"]+)"[^>]*>(.*)</svg>', source, re.DOTALL)
    if found is None:
        raise ValueError("not a drawing: it has no <svg> with a viewBox")
    box, body = found.groups()
    # What it says of itself the page says better, and its style sheet would be the whole page's.
    body = re.sub(r"<(title|metadata|style)\b.*?</\1>|<!--.*?-->", "", body, flags=re.DOTALL)
    body = body.replace("xlink:href=", "href=")
    body = re.sub(r'\bid="', f'id="{prefix}', body)
    body = re.sub(r'(href="#|url\(#)', rf"\g<1>{prefix}", body)
    for color, name in css_variables().items():
        body = body.replace(color, f"var(--{name})")
    body = re.sub(r"\n\s*", "\n", body)
    return Html(
        f'<svg viewBox="{text(box)}" role="img" aria-label="{text(label)}" aria-describedby="{text(described_by)}">'
        f"{body}</svg>"
    )


def css_variables() -> dict[str, str]:
    """Return what the drawings' colours are called in the style sheet, where each scheme has its own."""
    return {INK: "ink", GRID: "grid", **{color: f"curve-{i}" for i, color in enumerate(COLORS)}}


def figure(drawings: list[tuple[str, Html]], *, caption: Html, id: str) -> Html:
    """Return a figure with its drawings, one of which is seen, by the width of the window."""
    shown = (element("div", drawing, class_=f"drawing {kind}") for kind, drawing in drawings)
    return element("figure", *shown, element("figcaption", caption), id=id)


def study_section(findings: Findings, id: str) -> Html:
    """Return all that a page tells of a study."""
    study = findings.study
    return element(
        "section",
        element("h2", study.domain, id=f"{id}-title"),
        *(
            element("p", element("strong", "Take care: "), said, class_="banner")
            for said in tables.collect_warnings(study)
        ),
        _section("What was run", f"{id}-runs", *_runs(study, id)),
        _section("Results", f"{id}-results", table(tables.tabulate_results(findings), f"{id}-results-table")),
        _section("Comparisons", f"{id}-comparisons", *_comparisons(findings, id)),
        _section("Figures", f"{id}-figures", *_figures(findings, id, ("solved", "fitness", "archive"))),
        _section("Diagnostics", f"{id}-diagnostics", *_figures(findings, id, ("diagnostics", "sensitivity"))),
        _section("Settings", f"{id}-settings", *_settings(study, id)),
        class_="study",
        aria_labelledby=f"{id}-title",
    )


def _section(title: str, id: str, *content: str) -> Html:
    return element("section", element("h3", title, id=id), *content, aria_labelledby=id)


def _runs(study: Study, id: str) -> list[Html]:
    typed, versions = tables.list_commands(study), tables.list_versions(study)
    parts = [table(tables.tabulate_runs(study), f"{id}-runs-table")]
    if typed:
        lines = (element("li", element("code", line)) for line in typed)
        parts += [element("p", "Typed to make them:"), element("ul", *lines, class_="commands")]
    if versions:
        pairs = (joined(element("dt", package), element("dd", version)) for package, version in versions)
        parts += [element("p", "Computed with:"), element("dl", *pairs)]
    return parts


def _comparisons(findings: Findings, id: str) -> list[Html]:
    if not findings.comparisons:
        return [element("p", "There is one method, so there is nothing to compare it with.")]
    return [
        table(tables.tabulate_effects(findings), f"{id}-effects-table"),
        table(tables.tabulate_tests(findings), f"{id}-tests-table"),
    ]


def _figures(findings: Findings, id: str, names: tuple[str, ...]) -> list[Html]:
    there = list_drawable_figures(findings)
    parts = [_figure(findings, name, f"{id}-figure-{name}") for name in names if name in there]
    missing = [
        f"{describe_figure(name, findings).title}: {why}"
        for name, why in explain_missing_figures(findings).items()
        if name in names
    ]
    return [*parts, listing(missing, class_="notes")] if missing else parts


def _figure(findings: Findings, name: str, id: str) -> Html:
    words = describe_figure(name, findings)
    told = f"{id}-words"
    label = f"{words.title}, {findings.study.domain}"
    drawings = [
        (
            kind,
            inline_svg(
                render_figure(name, findings, format="svg", width=width, paper="none"),
                prefix=f"{id}-{kind}-",
                label=label,
                described_by=told,
            ),
        )
        for kind, width in (("wide", WIDE), ("narrow", NARROW))
    ]
    caption = joined(
        element("p", element("strong", f"{words.title}. "), words.explanation), listing(list(words.lines), id=told)
    )
    return figure(drawings, caption=caption, id=id)


def _settings(study: Study, id: str) -> list[Html]:
    different, everything = tables.tabulate_setting_differences(study), tables.tabulate_settings(study)
    if not everything.rows:
        return [element("p", "The runs tell nothing of their settings.")]
    parts = [table(different, f"{id}-differences-table")] if different.rows else []
    if not different.rows and len(study.methods) > 1:
        parts.append(element("p", "The methods do not differ in any setting."))
    return [*parts, element("details", element("summary", "All settings"), table(everything, f"{id}-settings-table"))]


DARK_PAPER: Final = "#14181d"
DARK_COLORS: Final = ("#a8a8a8", "#e59cc6", "#4fb0ea", "#ff8f45", "#2fc79a", "#d9ae2b", "#ae97f2", "#d18b68")
"""The same hues, lighter: at least three times as bright as the dark paper."""


def _curves(colors: tuple[str, ...]) -> str:
    return " ".join(f"--curve-{i}: {color};" for i, color in enumerate(colors))


STYLE: Final = (
    f"""
:root {{
  color-scheme: light dark;
  --paper: {PAPER}; --panel: #f4f6f8; --ink: {INK}; --quiet: #555d66; --line: #c8cfd6; --grid: {GRID};
  --link: #0b57a4; --warn: #fff4d6; --warn-line: #9a6700; {_curves(COLORS)}
}}
@media screen and (prefers-color-scheme: dark) {{
  :root {{
    --paper: {DARK_PAPER}; --panel: #1d232a; --ink: #e4e8ec; --quiet: #a9b2bb; --line: #414a54; --grid: #343c45;
    --link: #7cb8f5; --warn: #3a2f12; --warn-line: #d9a521; {_curves(DARK_COLORS)}
  }}
}}
"""
    + """
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0; background: var(--paper); color: var(--ink); overflow-wrap: break-word;
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", Arial, sans-serif;
}
header, nav, main, footer { max-width: 68rem; margin: 0 auto; padding: 0 1rem; }
header { padding-top: 1.5rem; }
main { padding-bottom: 3rem; }
h1, h2, h3 { line-height: 1.25; overflow-wrap: anywhere; }
h1 { font-size: 1.75rem; margin: 0 0 .25rem; }
h2 { font-size: 1.45rem; margin: 2.5rem 0 .75rem; padding-bottom: .3rem; border-bottom: 2px solid var(--line); }
h3 { font-size: 1.15rem; margin: 2.25rem 0 .5rem; }
p { margin: .5rem 0; max-width: 46rem; }
a { color: var(--link); }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
main:focus { outline: none; }
.skip { position: absolute; left: -100rem; top: 0; padding: .5rem 1rem; background: var(--paper); z-index: 1; }
.skip:focus { left: .5rem; top: .5rem; }
nav ul { list-style: none; display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; margin: .75rem 0 0; padding: 0; }
nav a { display: inline-block; padding: .3rem 0; }
nav li { overflow-wrap: anywhere; }
.banner {
  margin: 1rem 0; padding: .6rem 1rem; background: var(--warn); border-left: .35rem solid var(--warn-line);
  overflow-wrap: anywhere;
}
.scroll { overflow-x: auto; margin: 1rem 0 .5rem; border: 1px solid var(--line); border-radius: .4rem; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding: .6rem .75rem; font-weight: 600; background: var(--panel); }
caption span, .group span { display: inline-block; position: sticky; left: .75rem; max-width: calc(100vw - 4rem); }
th, td { padding: .4rem .75rem; text-align: left; vertical-align: top; border-top: 1px solid var(--line); }
th { font-weight: 600; }
thead th { color: var(--quiet); white-space: nowrap; }
tbody th { min-width: 8rem; max-width: 26rem; }
tbody th, td { overflow-wrap: anywhere; }
.number { text-align: right; }
td.number, .short { white-space: nowrap; }
.long { min-width: 14rem; }
tbody th, thead th:first-child { position: sticky; left: 0; background: var(--paper); }
.group th { position: static; background: var(--panel); max-width: none; }
.notes, figcaption { color: var(--quiet); font-size: .9rem; }
.notes { margin: .25rem 0 1.25rem; padding-left: 1.2rem; }
.notes li, figcaption li { max-width: 50rem; margin: .15rem 0; }
figure { margin: 1.25rem 0 2rem; }
figcaption strong { color: var(--ink); }
figcaption ul { margin: .4rem 0; padding-left: 1.2rem; overflow-wrap: anywhere; }
.drawing svg { display: block; width: 100%; height: auto; }
.drawing svg * { stroke-linejoin: round; stroke-linecap: butt; }
.wide { max-width: 50rem; }
.narrow { display: none; }
code { font-family: ui-monospace, "Cascadia Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: .9em; }
.commands { padding-left: 1.2rem; }
.commands code { overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: .5rem 0; }
dt { color: var(--quiet); }
dd { margin: 0; overflow-wrap: anywhere; }
details { margin: 1rem 0; }
summary { cursor: pointer; padding: .3rem 0; font-weight: 600; }
footer { padding-top: 1rem; padding-bottom: 2rem; color: var(--quiet); font-size: .9rem; }
@media screen and (max-width: 40rem) {
  .wide { display: none; }
  .narrow { display: block; }
  header { padding-top: 1rem; }
  th, td { padding: .35rem .5rem; }
  tbody th { max-width: 9.5rem; }
}
@media print {
  @page { margin: 15mm; }
  html { font-size: 10pt; }
  header, nav, main, footer { max-width: none; padding: 0; }
  nav, .skip { display: none; }
  h2, h3, caption { break-after: avoid; }
  section.study + section.study { break-before: page; }
  figure, tr, .group-rows, .brief, .banner, .notes { break-inside: avoid; }
  thead { display: table-header-group; }
  .scroll { overflow: visible; border: 0; }
  table { font-size: 8pt; }
  thead th, td.number { white-space: normal; overflow-wrap: normal; }
  td.short { white-space: nowrap; }
  tbody th, thead th:first-child { position: static; }
  th, td, .long { padding: 1mm 1.5mm; min-width: 0; }
  tbody th { max-width: none; }
  .wide { max-width: 155mm; }
  caption { background: none; padding-left: 0; }
  caption span, .group span { position: static; max-width: none; }
  .banner { border: 1px solid var(--warn-line); border-left-width: .35rem; }
  details::details-content { content-visibility: visible; height: auto; }
}
"""
)


# Nothing may be fetched from anywhere. Drawings have their styles in attributes.
POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"

_PARTS: Final = {
    "runs": "What was run",
    "results": "Results",
    "comparisons": "Comparisons",
    "figures": "Figures",
    "diagnostics": "Diagnostics",
    "settings": "Settings",
}


def render_page(findings: Sequence[Findings]) -> bytes:
    """Return a page of all studies: one file, which is read without a network and without scripts."""
    title = f"Report on {join_words([of_study.study.domain for of_study in findings])}"
    sections = [study_section(of_study, f"study-{i}") for i, of_study in enumerate(findings, start=1)]
    body = element(
        "body",
        element("a", "Skip to the report", href="#report", class_="skip"),
        element("header", element("h1", title), element("p", _subtitle(findings))),
        _contents(findings),
        element("main", *sections, id="report", tabindex=-1),
        element("footer", element("p", f"Made by tfsm {__version__}, tfsm report.")),
    )
    whole = element("html", _head(title), body, lang="en")
    return f"<!DOCTYPE html>\n{whole}\n".encode()


def _head(title: str) -> Html:
    return element(
        "head",
        Html('<meta charset="utf-8">'),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Html('<meta name="color-scheme" content="light dark">'),
        Html('<link rel="icon" href="data:,">'),  # otherwise a browser asks the server for one
        element("title", title),
        element("style", Html(STYLE)),
    )


def _subtitle(findings: Sequence[Findings]) -> str:
    methods = sum(len(of_study.study.methods) for of_study in findings)
    runs = sum(summary.runs for of_study in findings for summary in of_study.summaries)
    return f"{methods} {'method' if methods == 1 else 'methods'}, {runs} {'run' if runs == 1 else 'runs'}."


def _contents(findings: Sequence[Findings]) -> Html:
    """Return links: to the sections of the only study, or to the studies."""
    if len(findings) == 1:
        links = [(f"study-1-{part}", name) for part, name in _PARTS.items()]
    else:
        links = [(f"study-{i}-title", of_study.study.domain) for i, of_study in enumerate(findings, start=1)]
    items = (element("li", element("a", name, href=f"#{id}")) for id, name in links)
    return element("nav", element("ul", joined(*items)), aria_label="Contents")
