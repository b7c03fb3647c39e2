"""The page as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tfsm import __version__
from tfsm.experiments.report.findings import Findings
from tfsm.experiments.report.page.html import Html, element, joined
from tfsm.experiments.report.page.sections import study_section
from tfsm.experiments.report.page.style import STYLE
from tfsm.experiments.report.words import listed

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


def page(findings: Sequence[Findings]) -> bytes:
    """Return a page of all studies: one file, which is read without a network and without scripts."""
    title = f"Report on {listed([of_study.study.domain for of_study in findings])}"
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
