"""`tfsm report`: what came of runs, in tables, figures or a page."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from enum import StrEnum
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tfsm.cli.console import out, print_json, say
from tfsm.experiments.report.words import printable

if TYPE_CHECKING:
    from rich.console import Console

    from tfsm.experiments.report.findings import Band, Findings
    from tfsm.experiments.report.tables import Table


class Estimate(StrEnum):
    """How the share of runs solved is estimated."""

    KAPLAN_MEIER = "kaplan-meier"
    WILSON = "wilson"


def report(
    directories: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR...", help="Directories that `tfsm run`, `compare` or `sweep` made, or folders of them."
        ),
    ],
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page with everything, which opens without a network.")
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the figures as .png and .svg into this directory.")
    ] = None,
    at: Annotated[
        int | None,
        typer.Option(metavar="N", help="Compare how many runs are solved within so many evaluations, too."),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Compare the others with this method.  [default: compare all pairs]"),
    ] = None,
    band: Annotated[
        Estimate, typer.Option(help="How to count runs that stopped early: as long as they went on, or as unsolved.")
    ] = Estimate.KAPLAN_MEIER,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout, and nothing else.")] = False,
) -> None:
    """Compare what came of runs: tables, or a page and figures."""
    from tfsm.experiments.report.write import check_page, make_folder, write
    from tfsm.extras import optional

    if html is not None:
        check_page(html)
    if html is not None or figures is not None:
        optional("matplotlib", extra="plot", purpose="a report with figures")
    found = findings_of(directories, at=at, baseline=baseline, band=band.value)
    if figures is not None:
        from tfsm.experiments.report.figures import save_figures

        make_folder(figures)
        files = save_figures(figures, found)
        say(f"wrote {len(files)} files to {figures}")
    if html is not None:
        from tfsm.experiments.report.page import page

        write(html, page(found))
        say(f"wrote {html}")
    if json or (html is None and figures is None):
        _print(found, json=json)


def show(
    directories: Sequence[Path],
    *,
    at: int | None = None,
    baseline: str | None = None,
    band: Band = "kaplan-meier",
    json: bool = False,
) -> None:
    """Print the tables of a report, or its JSON document."""
    _print(findings_of(directories, at=at, baseline=baseline, band=band), json=json)


def findings_of(directories: Sequence[Path], *, at: int | None, baseline: str | None, band: Band) -> list[Findings]:
    """Return what came of the runs, domain by domain."""
    from tfsm.experiments.collect import collect
    from tfsm.experiments.report.findings import examine

    return [examine(study, at=at, baseline=baseline, band=band) for study in collect(directories)]


def _print(found: Sequence[Findings], *, json: bool) -> None:
    from tfsm.experiments.report import tables
    from tfsm.experiments.report.document import document
    from tfsm.experiments.report.provenance import warnings_of

    if json:
        print_json(document(found))
        return
    console = out()
    for i, findings in enumerate(found):
        study = findings.study
        console.print(
            f"{'' if i == 0 else chr(10)}{printable(study.domain)}, {study.budget:,} evaluations a run at the most"
        )
        for said in warnings_of(study):
            console.print(f"take care: {printable(said)}", soft_wrap=True)
        _print_table(console, tables.results(findings))
        if findings.comparisons:
            _print_table(console, tables.effects(findings))
            _print_groups(console, tables.tests(findings))


def _print_table(console: Console, table: Table) -> None:
    console.print(f"\n{table.caption}", soft_wrap=True)
    _print_rows(console, table.columns, table.rows, table.numeric)


def _print_groups(console: Console, table: Table) -> None:
    """Print a table group by group, with the notes below: in one piece it would be too wide for a terminal."""
    console.print(f"\n{table.caption}", soft_wrap=True)
    inner = slice(1, -1)
    for first, group in groupby(table.rows, key=lambda row: row[0]):
        rows = list(group)
        console.print(f"\n{printable(first)}", soft_wrap=True)
        _print_rows(console, table.columns[inner], [row[inner] for row in rows], {i - 1 for i in table.numeric})
        for row in rows:
            if row[-1]:
                console.print(printable(f"({row[1]} {row[-1]})"), soft_wrap=True)


def _print_rows(
    console: Console, columns: Sequence[str], rows: Sequence[Sequence[str]], numeric: AbstractSet[int]
) -> None:
    from rich.table import Table as RichTable

    drawn = RichTable(box=None, pad_edge=False)
    for i, column in enumerate(columns):
        drawn.add_column(column, justify="right" if i in numeric else "left")
    for row in rows:
        drawn.add_row(*map(printable, row))
    console.print(drawn)
