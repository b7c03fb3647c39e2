"""`tfsm report` and `tfsm robustness`: what came of runs."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from enum import StrEnum
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tfsm.cli.common import get_plugins, make_console, print_json, print_message
from tfsm.cli.options import OUTPUT, SharedOptions, complete_part_list, parse_mutations, shared_options
from tfsm.cli.progress import StepsCallback, show_steps
from tfsm.errors import TfsmError, import_optional
from tfsm.report.formatting import replace_unprintable
from tfsm.utils.tf_startup import import_tensorflow

if TYPE_CHECKING:
    from rich.console import Console

    from tfsm.analysis.robustness import Robustness
    from tfsm.report.findings import Band, Findings
    from tfsm.report.tables import Table

SUBJECT: Final = "What to perturb"
"""A panel of the help of `tfsm robustness`."""


class Estimate(StrEnum):
    """How the share of runs solved is estimated."""

    KAPLAN_MEIER = "kaplan-meier"
    WILSON = "wilson"


@shared_options("json", "quiet")
def report(
    directories: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR...", help="Directories of `tfsm run`, `compare` or `sweep`, or folders that contain them"
        ),
    ],
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a self-contained HTML page with everything")
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the figures as .png and .svg to this directory")
    ] = None,
    at: Annotated[int | None, typer.Option(metavar="N", help="Also compare success rates after N evaluations")] = None,
    baseline: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Compare the other methods with this one  [default: compare all pairs]"),
    ] = None,
    band: Annotated[
        Estimate,
        typer.Option(
            help="How to count unsolved runs that stopped early: until they stopped (kaplan-meier), or as unsolved to "
            "the end (wilson)"
        ),
    ] = Estimate.KAPLAN_MEIER,
    *,
    options: SharedOptions,
) -> None:
    """Compare results: tables, figures or an HTML page."""
    from tfsm.report.tables import check_page_path, make_directory, write_file

    if html is not None:
        check_page_path(html)
    if html is not None or figures is not None:
        import_optional("matplotlib", extra="plot", purpose="a report with figures")
    with show_steps("report", quiet=options.quiet) as update:
        findings = compute_findings(directories, at=at, baseline=baseline, band=band.value, on_progress=update)
    if figures is not None:
        from tfsm.report.plots import save_figures

        make_directory(figures)
        with show_steps("figures", quiet=options.quiet) as update:
            files = save_figures(figures, findings, on_progress=update)
        print_message(f"wrote {len(files)} files to {figures}")
    if html is not None:
        from tfsm.report.html import render_page

        with show_steps("page", quiet=options.quiet) as update:
            page = render_page(findings, on_progress=update)
        write_file(html, page)
        print_message(f"wrote {html}")
    if options.json or (html is None and figures is None):
        print_findings(findings, json=options.json)


def compute_findings(
    directories: Sequence[Path],
    *,
    at: int | None = None,
    baseline: str | None = None,
    band: Band = "kaplan-meier",
    on_progress: StepsCallback = lambda done, total, description: None,
) -> list[Findings]:
    """Return the results of runs, one per domain."""
    from tfsm.analysis.results import load_studies
    from tfsm.report.findings import analyze_study

    studies, findings = load_studies(directories), []
    for done, study in enumerate(studies):
        on_progress(done, len(studies), study.domain)
        findings.append(analyze_study(study, at=at, baseline=baseline, band=band))
    return findings


def print_findings(results: Sequence[Findings], *, json: bool) -> None:
    """Print the tables of a report, or its JSON document."""
    from tfsm.report import tables
    from tfsm.report.tables import build_document, collect_warnings

    if json:
        print_json(build_document(results))
        return
    console = make_console()
    for i, findings in enumerate(results):
        study = findings.study
        if i:
            console.print()
        console.print(f"{replace_unprintable(study.domain)}, up to {study.budget:,} evaluations per run")
        for warning in collect_warnings(study):
            console.print(f"warning: {replace_unprintable(warning)}", soft_wrap=True)
        _print_table(console, tables.tabulate_results(findings))
        if findings.comparisons:
            _print_table(console, tables.tabulate_effects(findings))
            _print_groups(console, tables.tabulate_tests(findings))


def _print_table(console: Console, table: Table) -> None:
    console.print(f"\n{table.caption}", soft_wrap=True)
    _print_rows(console, table.columns, table.rows, table.numeric)


def _print_groups(console: Console, table: Table) -> None:
    """Print a table group by group with the notes below; in one piece it would be too wide for a terminal."""
    console.print(f"\n{table.caption}", soft_wrap=True)
    inner = slice(1, -1)
    for first, group in groupby(table.rows, key=lambda row: row[0]):
        rows = list(group)
        console.print(f"\n{replace_unprintable(first)}", soft_wrap=True)
        _print_rows(console, table.columns[inner], [row[inner] for row in rows], {i - 1 for i in table.numeric})
        for row in rows:
            if row[-1]:
                console.print(replace_unprintable(f"({row[1]} {row[-1]})"), soft_wrap=True)


def _print_rows(
    console: Console, columns: Sequence[str], rows: Sequence[Sequence[str]], numeric: AbstractSet[int]
) -> None:
    from rich.table import Table as RichTable

    rich_table = RichTable(box=None, pad_edge=False)
    for i, column in enumerate(columns):
        rich_table.add_column(column, justify="right" if i in numeric else "left")
    for row in rows:
        rich_table.add_row(*map(replace_unprintable, row))
    console.print(rich_table)


@shared_options("trust_model", "config", "json", "quiet", "disable_plugin")
def robustness(
    ctx: typer.Context,
    directory: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="Directory of `tfsm run` or `tfsm compare`", rich_help_panel=SUBJECT),
    ],
    mutation: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...",
            help="Operators to perturb with, comma-separated  [default: the paper's five]",
            autocompletion=complete_part_list("mutation"),
            rich_help_panel=SUBJECT,
        ),
    ] = None,
    perturbations: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="Mutants per solution and operator", rich_help_panel=SUBJECT),
    ] = 50,
    histogram: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            help="Mutants of one representative solution per method, for the histograms; 0 for none",
            rich_help_panel=SUBJECT,
        ),
    ] = 1000,
    seed: Annotated[
        int, typer.Option(metavar="S", min=0, help="Random seed of the mutants", rich_help_panel=SUBJECT)
    ] = 0,
    all_: Annotated[
        bool, typer.Option("--all", help="Include the champions of unsolved runs", rich_help_panel=SUBJECT)
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Output directory  [default: robustness/ in DIR]", rich_help_panel=OUTPUT),
    ] = None,
    *,
    options: SharedOptions,
) -> None:
    """Measure how robust solutions are to mutation.

    Perturbs every evolved solution with every operator, and shows how much of its performance it retains.
    """
    from tfsm.runs.records import STUDY, read_valid_record, read_valid_study

    plugins = get_plugins(ctx, options.disable_plugin)
    names = parse_mutations(plugins, mutation)
    # Report a damaged directory before TensorFlow starts.
    if (directory / STUDY).is_file():
        read_valid_study(directory)
    else:
        read_valid_record(directory)

    with show_steps("robustness", quiet=options.quiet) as update:
        import_tensorflow()
        from tfsm.analysis.robustness import ROBUSTNESS_FILE, ROBUSTNESS_FOLDER, measure_robustness

        result = measure_robustness(
            plugins,
            [directory],
            mutations=names,
            perturbations=perturbations,
            histogram=histogram,
            seed=seed,
            config=options.config,
            include_unsolved=all_,
            trust=options.trust_model,
            on_progress=update,
        )
    folder = directory / ROBUSTNESS_FOLDER if out is None else out
    folder.mkdir(parents=True, exist_ok=True)
    result.save(folder / ROBUSTNESS_FILE)
    _draw_robustness(folder, result)
    if options.json:
        print_json(result.as_dict() | {"directory": folder, "pairs": result.pairs()})
        return
    _print_robustness(result)
    make_console().print(f"\nwrote {folder}", soft_wrap=True)


def _draw_robustness(folder: Path, result: Robustness) -> None:
    """Save the figure if matplotlib is there; the numbers are useful without it."""
    try:
        import_optional("matplotlib", extra="plot", purpose="the figure of robustness")
    except TfsmError as error:
        print_message(f"no figure: {error}")
        return
    from tfsm.report.plots import save_robustness

    save_robustness(folder, result)


def _print_robustness(result: Robustness) -> None:
    from rich.table import Table as RichTable

    console = make_console()
    console.print(
        f"fraction of performance ({result.measure}) retained, "
        f"mean over solutions, {result.perturbations} mutants each\n"
    )
    table = RichTable(box=None, pad_edge=False)
    table.add_column("evolved by")
    table.add_column("solutions", justify="right")
    for operator in result.operators:
        table.add_column(operator, justify="right")
    for method in result.methods:
        means = [result.means(method, operator) for operator in result.operators]
        table.add_row(method, str(len(means[0])), *(f"{values.mean():.3f}" for values in means))
    console.print(table)
    tests = RichTable(box=None, pad_edge=False)
    for column in ("evolved by", "operators", "Mann-Whitney U", "p", "p (Holm)"):
        tests.add_column(column, justify="left" if column in ("evolved by", "operators") else "right")
    for pair in result.pairs():
        verdict = pair.verdict
        p, adjusted = (("-" if x is None else f"{x:.2g}") for x in (verdict.p, verdict.adjusted))
        statistic = "-" if verdict.statistic is None else f"{verdict.statistic:g}"
        tests.add_row(pair.method, f"{pair.first}, {pair.second}", statistic, p, adjusted)
    console.print()
    console.print(tests)
