"""Report, robustness."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from enum import StrEnum
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tfsm.cli.common import DisablePlugin, Json, Mutations, Quiet, Trust, context, err, out, print_json, say
from tfsm.cli.config import Config
from tfsm.cli.studies import mutations_of
from tfsm.report.formatting import replace_unprintable

if TYPE_CHECKING:
    from rich.console import Console

    from tfsm.analysis.robustness import Robustness
    from tfsm.report.findings import Band, Findings
    from tfsm.report.tables import Table


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
    from tfsm.report.document import check_page_path, make_directory, write_file
    from tfsm.utils.optional import optional

    if html is not None:
        check_page_path(html)
    if html is not None or figures is not None:
        optional("matplotlib", extra="plot", purpose="a report with figures")
    found = findings_of(directories, at=at, baseline=baseline, band=band.value)
    if figures is not None:
        from tfsm.report.plots import save_figures

        make_directory(figures)
        files = save_figures(figures, found)
        say(f"wrote {len(files)} files to {figures}")
    if html is not None:
        from tfsm.report.html import render_page

        write_file(html, render_page(found))
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
    from tfsm.analysis.results import load_studies
    from tfsm.report.findings import analyze_study

    return [analyze_study(study, at=at, baseline=baseline, band=band) for study in load_studies(directories)]


def _print(found: Sequence[Findings], *, json: bool) -> None:
    from tfsm.report import tables
    from tfsm.report.document import build_document
    from tfsm.report.tables import collect_warnings

    if json:
        print_json(build_document(found))
        return
    console = out()
    for i, findings in enumerate(found):
        study = findings.study
        gap = "" if i == 0 else "\n"
        console.print(f"{gap}{replace_unprintable(study.domain)}, up to {study.budget:,} evaluations per run")
        for said in collect_warnings(study):
            console.print(f"take care: {replace_unprintable(said)}", soft_wrap=True)
        _print_table(console, tables.tabulate_results(findings))
        if findings.comparisons:
            _print_table(console, tables.tabulate_effects(findings))
            _print_groups(console, tables.tabulate_tests(findings))


def _print_table(console: Console, table: Table) -> None:
    console.print(f"\n{table.caption}", soft_wrap=True)
    _print_rows(console, table.columns, table.rows, table.numeric)


def _print_groups(console: Console, table: Table) -> None:
    """Print a table group by group, with the notes below: in one piece it would be too wide for a terminal."""
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

    drawn = RichTable(box=None, pad_edge=False)
    for i, column in enumerate(columns):
        drawn.add_column(column, justify="right" if i in numeric else "left")
    for row in rows:
        drawn.add_row(*map(replace_unprintable, row))
    console.print(drawn)


FOLDER = "robustness"


def robustness(
    ctx: typer.Context,
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A run directory, or that of `tfsm compare`.")],
    mutation: Mutations = None,
    perturbations: Annotated[
        int, typer.Option(metavar="N", min=1, help="Mutants of each solution by each operator.")
    ] = 50,
    histogram: Annotated[
        int, typer.Option(metavar="N", min=0, help="Mutants of each method's representative solution; 0: none.")
    ] = 1000,
    seed: Annotated[int, typer.Option(metavar="S", min=0, help="Decides the mutants.")] = 0,
    all_: Annotated[bool, typer.Option("--all", help="Take champions of runs that were not solved, too.")] = False,
    trust_model: Trust = False,
    config: Config = None,
    out_: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Where to write.  [default: robustness/ in DIR]")
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    disable_plugin: DisablePlugin = None,
) -> None:
    """Perturb every evolved solution by every operator, and tell how much of its performance is left."""
    from tfsm.runs.records import read_valid_record, read_valid_study
    from tfsm.utils.tf_startup import import_tensorflow

    plugins = context(ctx, disable_plugin).plugins()
    names = mutations_of(plugins, mutation)
    if (directory / "study.json").is_file():
        read_valid_study(directory)
    else:
        read_valid_record(directory)  # a mistake is told before TensorFlow has started

    from rich.progress import Progress

    with Progress(console=err(), transient=True, disable=quiet) as bar:
        task = bar.add_task("starting TensorFlow", total=None)

        def tell(done: int, of: int, what: str) -> None:
            bar.update(task, completed=done, total=of, description=what)

        import_tensorflow()
        from tfsm.analysis.robustness import measure_robustness

        found = measure_robustness(
            plugins,
            [directory],
            mutations=names,
            perturbations=perturbations,
            histogram=histogram,
            seed=seed,
            config=config,
            everybody=all_,
            trust=trust_model,
            tell=tell,
        )
    folder = directory / FOLDER if out_ is None else out_
    from tfsm.analysis.robustness import ROBUSTNESS_FILE, save

    folder.mkdir(parents=True, exist_ok=True)
    save(found, folder / ROBUSTNESS_FILE)
    draw(folder, found)
    if json:
        print_json(found.as_dict() | {"directory": folder, "pairs": found.pairs()})
        return
    show_table(found)
    out().print(f"\nwritten to {folder}", soft_wrap=True)


def draw(folder: Path, found: Robustness) -> None:
    """Save the figure where it can be drawn; the numbers are worth having without it."""
    from tfsm.errors import TfsmError
    from tfsm.utils.optional import optional

    try:
        optional("matplotlib", extra="plot", purpose="the figure of robustness")
    except TfsmError as error:
        say(f"no figure: {error}")
        return
    from tfsm.report.plots import save_robustness

    save_robustness(folder, found)


def show_table(found: Robustness) -> None:
    """Print what is left, by method and operator, and the tests."""
    from rich.table import Table as RichTable

    console = out()
    console.print(
        f"fraction of performance ({found.measure}) retained, "
        f"mean over solutions, each of {found.perturbations} mutants\n"
    )
    table = RichTable(box=None, pad_edge=False)
    table.add_column("evolved by")
    table.add_column("solutions", justify="right")
    for operator in found.operators:
        table.add_column(operator, justify="right")
    for method in found.methods:
        means = [found.means(method, operator) for operator in found.operators]
        table.add_row(method, str(len(means[0])), *(f"{own.mean():.3f}" for own in means))
    console.print(table)
    tests = RichTable(box=None, pad_edge=False)
    for column in ("evolved by", "operators", "Mann-Whitney U", "p", "p (Holm)"):
        tests.add_column(column, justify="left" if column in ("evolved by", "operators") else "right")
    for pair in found.pairs():
        verdict = pair.verdict
        p, adjusted = (("-" if x is None else f"{x:.2g}") for x in (verdict.p, verdict.adjusted))
        statistic = "-" if verdict.statistic is None else f"{verdict.statistic:g}"
        tests.add_row(pair.method, f"{pair.first}, {pair.second}", statistic, p, adjusted)
    console.print()
    console.print(tests)
