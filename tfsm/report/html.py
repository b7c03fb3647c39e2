"""The report as one self-contained HTML page, which is read without a network and without scripts; and the live page.

`page.html.jinja` is the template of the report and `style.css` its stylesheet; `live.html.jinja`, `live.css` and
`live.js` make the page of `tfsm watch`, which shows the same parts (`macros.html.jinja`). This module supplies their
content.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from tfsm import __version__
from tfsm.report import tables
from tfsm.report.alt_text import describe_figure, explain_missing_figures, list_drawable_figures
from tfsm.report.findings import Findings
from tfsm.report.formatting import (
    MISSING,
    format_count,
    format_duration,
    format_number,
    format_percent,
    format_rate,
    join_words,
    replace_unprintable,
)
from tfsm.report.live import ExperimentProgress, StudyProgress
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
_LIVE_FIGURES: Final = ("solved", "fitness", "diagnostics")
_WIDTHS: Final = {"wide": WIDE, "narrow": NARROW}


@dataclass(frozen=True)
class InlineSvg:
    """A drawing that can be placed in a page next to other drawings."""

    view_box: str
    content: Markup


def render_page(
    findings: Sequence[Findings],
    *,
    on_progress: Callable[[int, int, str], None] = lambda done, total, description: None,
) -> bytes:
    """Return a page of all studies.

    Args:
        findings: the studies.
        on_progress: called with the number of figures drawn, their total, and the next one.
    """
    names = [name for study in findings for name in list_drawable_figures(study)]
    drawn = iter(range(len(names)))

    def count(name: str) -> None:
        on_progress(next(drawn), len(names), name)

    methods = sum(len(study.study.methods) for study in findings)
    runs = sum(summary.runs for study in findings for summary in study.summaries)
    page = _load_template("page.html.jinja").render(
        title=f"Report on {join_words([study.study.domain for study in findings])}",
        subtitle=f"{format_count(methods, 'method')}, {format_count(runs, 'run')}.",
        version=__version__,
        style=_read("style.css"),
        sections=_SECTIONS,
        studies=[_describe_study(study, f"study-{i}", count) for i, study in enumerate(findings, start=1)],
    )
    return page.lstrip().encode()


def render_live_page(studies: Sequence[StudyProgress], *, top: Path, nonce: str, report_url: str) -> str:
    """Return the page that follows runs.

    Args:
        studies: the progress when the page is opened.
        top: the directory that is watched.
        nonce: the only script that may run has this number.
        report_url: where the report is.
    """
    page = _load_template("live.html.jinja").make_module(
        {
            "title": make_live_title(studies),
            "heading": f"Watching {top}",
            "version": __version__,
            "style": _read("style.css") + _read("live.css"),
            "script": _read("live.js"),
            "nonce": nonce,
            "report_url": report_url,
            "studies": [_describe_progress(study, top) for study in studies],
        }
    )
    return str(page.render_page()).lstrip()


def make_live_title(studies: Sequence[StudyProgress]) -> str:
    """Return the title of the page that follows runs, which a browser shows on its tab."""
    solved, runs = (sum(getattr(study, key) for study in studies) for key in ("solved", "runs"))
    state = "running" if any(study.is_active for study in studies) else "ended"
    return replace_unprintable(f"{solved}/{runs} solved, {state}: {', '.join(study.domain for study in studies)}")


def render_live_status(study: StudyProgress, top: Path) -> str:
    """Return the part of the live page that shows how far a study is."""
    return str(_load_template("live.html.jinja").module.render_status(_describe_progress(study, top)))


def render_live_report(findings: Findings | None, id: str, *, complete: bool, problem: str = "") -> str:
    """Return the part of the live page that shows the results of a study.

    Args:
        findings: the numbers; None if there is a problem.
        id: the identifier of the study within the page.
        complete: show everything, instead of the figures only.
        problem: why there are no numbers.
    """
    study = None
    if findings is not None:
        study = _describe_study(findings, id) if complete else _describe_figures(findings, id, _LIVE_FIGURES)
    render = _load_template("live.html.jinja").module.render_report
    return str(render(study, _SECTIONS, complete, problem))


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


def _load_template(name: str) -> Any:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        finalize=_finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(name)


def _read(name: str) -> Markup:
    return Markup(Path(__file__).with_name(name).read_text(encoding="utf-8"))


def _finalize(value: object) -> object:
    return replace_unprintable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _describe_study(
    findings: Findings, id: str, on_figure: Callable[[str], None] = lambda name: None
) -> dict[str, Any]:
    study = findings.study
    return _describe_figures(findings, id, list_drawable_figures(findings), on_figure) | {
        "methods": len(study.methods),
        "warnings": tables.collect_warnings(study),
        "runs": tables.tabulate_runs(study),
        "commands": tables.list_commands(study),
        "versions": tables.list_versions(study),
        "results": tables.tabulate_results(findings),
        "effects": tables.tabulate_effects(findings),
        "tests": tables.tabulate_tests(findings),
        "settings": tables.tabulate_settings(study),
        "setting_differences": tables.tabulate_setting_differences(study),
    }


def _describe_figures(
    findings: Findings, id: str, names: Sequence[str], on_figure: Callable[[str], None] = lambda name: None
) -> dict[str, Any]:
    drawable = [name for name in list_drawable_figures(findings) if name in names]
    return {
        "id": id,
        "domain": findings.study.domain,
        "figures": {name: describe_figure(name, findings) for name in drawable},
        "drawings": {name: _draw_figure(name, findings, id, on_figure) for name in drawable},
        "missing_figures": explain_missing_figures(findings),
    }


def _draw_figure(name: str, findings: Findings, id: str, on_figure: Callable[[str], None]) -> dict[str, InlineSvg]:
    on_figure(name)
    return {
        kind: inline_svg(
            render_figure(name, findings, format="svg", width=width, background="none"),
            prefix=f"{id}-figure-{name}-{kind}-",
        )
        for kind, width in _WIDTHS.items()
    }


def _describe_progress(study: StudyProgress, top: Path) -> dict[str, Any]:
    return {
        "id": study.id,
        "domain": study.domain,
        "is_active": study.is_active,
        "solved": f"{study.solved:,}",
        "solved_note": f"of {study.runs:,}",
        "best_fitness": format_number(study.best_fitness),
        "divergence": format_number(study.divergence),
        "rate": format_rate(study.rate),
        "seconds_left": MISSING if study.seconds_left is None else format_duration(study.seconds_left),
        "rows": [_describe_experiment(experiment, top) for experiment in study.experiments],
    }


def _describe_experiment(experiment: ExperimentProgress, top: Path) -> dict[str, Any]:
    path, share = experiment.directory, experiment.share
    return {
        "name": experiment.name,
        "directory": path.name if path == top else str(path.relative_to(top)),
        "status": experiment.status,
        "solved": MISSING if experiment.runs is None else f"{experiment.solved} of {experiment.runs}",
        "share": share,
        "percent": MISSING if share is None else format_percent(share),
        "evaluations": f"{experiment.evaluations:,}",
        "best_fitness": format_number(experiment.best_fitness),
        "divergence": format_number(experiment.divergence),
        "rate": format_rate(experiment.rate),
        "problem": experiment.problem,
    }
