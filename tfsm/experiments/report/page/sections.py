"""The sections of a study's part of a page."""

from __future__ import annotations

from tfsm.experiments.outcomes import Study
from tfsm.experiments.report import provenance, settings_tables, tables
from tfsm.experiments.report.alternatives import drawable, in_words, left_out
from tfsm.experiments.report.figures.draw import NARROW, WIDE, draw
from tfsm.experiments.report.findings import Findings
from tfsm.experiments.report.page.html import Html, element, joined, listing, table
from tfsm.experiments.report.page.inline import figure, inlined


def study_section(findings: Findings, id: str) -> Html:
    """Return all that a page tells of a study."""
    study = findings.study
    return element(
        "section",
        element("h2", study.domain, id=f"{id}-title"),
        *(
            element("p", element("strong", "Take care: "), said, class_="banner")
            for said in provenance.warnings_of(study)
        ),
        _section("What was run", f"{id}-runs", *_runs(study, id)),
        _section("Results", f"{id}-results", table(tables.results(findings), f"{id}-results-table")),
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
    typed, versions = provenance.commands(study), provenance.versions(study)
    parts = [table(provenance.runs_table(study), f"{id}-runs-table")]
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
        table(tables.effects(findings), f"{id}-effects-table"),
        table(tables.tests(findings), f"{id}-tests-table"),
    ]


def _figures(findings: Findings, id: str, names: tuple[str, ...]) -> list[Html]:
    there = drawable(findings)
    parts = [_figure(findings, name, f"{id}-figure-{name}") for name in names if name in there]
    missing = [f"{in_words(name, findings).title}: {why}" for name, why in left_out(findings).items() if name in names]
    return [*parts, listing(missing, class_="notes")] if missing else parts


def _figure(findings: Findings, name: str, id: str) -> Html:
    words = in_words(name, findings)
    told = f"{id}-words"
    label = f"{words.title}, {findings.study.domain}"
    drawings = [
        (
            kind,
            inlined(
                draw(name, findings, format="svg", width=width, paper="none"),
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
    different, everything = settings_tables.differences(study), settings_tables.everything(study)
    if not everything.rows:
        return [element("p", "The runs tell nothing of their settings.")]
    parts = [table(different, f"{id}-differences-table")] if different.rows else []
    if not different.rows and len(study.methods) > 1:
        parts.append(element("p", "The methods do not differ in any setting."))
    return [*parts, element("details", element("summary", "All settings"), table(everything, f"{id}-settings-table"))]
