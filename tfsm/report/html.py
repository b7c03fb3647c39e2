"""The report as one self-contained HTML page, which is read without a network and without scripts.

`page.html.jinja` is the template of the page and `style.css` its stylesheet. This module supplies their content.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from tfsm import __version__
from tfsm.report import tables
from tfsm.report.alt_text import describe_figure, explain_missing_figures, list_drawable_figures
from tfsm.report.findings import Findings
from tfsm.report.formatting import format_count, join_words, replace_unprintable
from tfsm.report.plot_style import COLORS, GRID, INK
from tfsm.report.plots import NARROW, WIDE, render_figure

STYLESHEET: Final = Path(__file__).with_name("style.css")
_SECTIONS: Final = {
    "runs": "Runs",
    "results": "Results",
    "comparisons": "Comparisons",
    "figures": "Figures",
    "diagnostics": "Diagnostics",
    "settings": "Settings",
}
_WIDTHS: Final = {"wide": WIDE, "narrow": NARROW}


@dataclass(frozen=True)
class InlineSvg:
    """A drawing that can be placed in a page next to other drawings."""

    view_box: str
    content: Markup


def render_page(findings: Sequence[Findings]) -> bytes:
    """Return a page of all studies."""
    methods = sum(len(study.study.methods) for study in findings)
    runs = sum(summary.runs for study in findings for summary in study.summaries)
    page = _load_template().render(
        title=f"Report on {join_words([study.study.domain for study in findings])}",
        subtitle=f"{format_count(methods, 'method')}, {format_count(runs, 'run')}.",
        version=__version__,
        style=Markup(STYLESHEET.read_text(encoding="utf-8")),
        sections=_SECTIONS,
        studies=[_describe_study(study, f"study-{i}") for i, study in enumerate(findings, start=1)],
    )
    return page.lstrip().encode()


def inline_svg(svg: bytes, *, prefix: str) -> InlineSvg:
    """Prepare a drawing for a page.

    Args:
        svg: an SVG file written by matplotlib.
        prefix: put before its identifiers, so that they differ from those of the page's other drawings.
    """
    match = re.search(r'<svg\b[^>]*\bviewBox="([^"]+)"[^>]*>(.*)</svg>', svg.decode(), re.DOTALL)
    if match is None:
        raise ValueError("not a drawing: it has no <svg> with a viewBox")
    view_box, content = match.groups()
    # The page describes the drawing better than its metadata, and its stylesheet would apply to the whole page.
    content = re.sub(r"<(title|metadata|style)\b.*?</\1>|<!--.*?-->", "", content, flags=re.DOTALL)
    content = content.replace("xlink:href=", "href=")
    content = re.sub(r'\bid="', f'id="{prefix}', content)
    content = re.sub(r'(href="#|url\(#)', rf"\g<1>{prefix}", content)
    for color, name in css_variables().items():
        content = content.replace(color, f"var(--{name})")
    return InlineSvg(view_box, Markup(re.sub(r"\n\s*", "\n", content)))


def css_variables() -> dict[str, str]:
    """Return the stylesheet's variable for each color of the drawings, so that each color scheme has its own."""
    return {INK: "ink", GRID: "grid", **{color: f"curve-{i}" for i, color in enumerate(COLORS)}}


def _load_template() -> Any:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        finalize=_finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template("page.html.jinja")


def _finalize(value: object) -> object:
    return replace_unprintable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _describe_study(findings: Findings, id: str) -> dict[str, Any]:
    study, drawable = findings.study, list_drawable_figures(findings)
    return {
        "id": id,
        "domain": study.domain,
        "methods": len(study.methods),
        "warnings": tables.collect_warnings(study),
        "runs": tables.tabulate_runs(study),
        "commands": tables.list_commands(study),
        "versions": tables.list_versions(study),
        "results": tables.tabulate_results(findings),
        "effects": tables.tabulate_effects(findings),
        "tests": tables.tabulate_tests(findings),
        "figures": {name: describe_figure(name, findings) for name in drawable},
        "drawings": {name: _draw_figure(name, findings, id) for name in drawable},
        "missing_figures": explain_missing_figures(findings),
        "settings": tables.tabulate_settings(study),
        "setting_differences": tables.tabulate_setting_differences(study),
    }


def _draw_figure(name: str, findings: Findings, id: str) -> dict[str, InlineSvg]:
    return {
        kind: inline_svg(
            render_figure(name, findings, format="svg", width=width, background="none"),
            prefix=f"{id}-figure-{name}-{kind}-",
        )
        for kind, width in _WIDTHS.items()
    }
