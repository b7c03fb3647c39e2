"""`tfsm reproduce`: the paper's results by name."""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from tfsm.cli.common import INTERRUPTED, get_plugins, make_console, print_json, print_message
from tfsm.cli.options import EXPERIMENT, SEARCH, SharedOptions, StudyDirectory, shared_options
from tfsm.cli.progress import show_steps
from tfsm.cli.studies import run_members
from tfsm.errors import TfsmError, UnknownNameError
from tfsm.utils.tf_startup import import_tensorflow

if TYPE_CHECKING:
    from tfsm.analysis.reproduce import Figure, Reproduction
    from tfsm.analysis.robustness import Robustness
    from tfsm.plugins import Plugins
    from tfsm.settings import ResolvedSettings

FIGURE_NAMES: Final = ("simple", "parity", "robustness", "hard-maze", "large-scale", "topdown", "first-person")
"""The keys of `tfsm.analysis.reproduce.FIGURES`, for help without SciPy."""
ALL: Final = "all"
DEFAULT_PROFILE: Final = "published"


@shared_options("seed", "set_", "profile", "json", "quiet", "disable_plugin")
def reproduce(
    ctx: typer.Context,
    figure: Annotated[
        str,
        typer.Argument(
            metavar="FIGURE",
            help=f"Result to reproduce: {', '.join(FIGURE_NAMES)}, or {ALL}",
            autocompletion=lambda: (*FIGURE_NAMES, ALL),
            rich_help_panel=EXPERIMENT,
        ),
    ],
    runs: Annotated[
        int | None,
        typer.Option(metavar="N", min=2, help="Runs per method  [default: the paper's]", rich_help_panel=SEARCH),
    ] = None,
    scale: Annotated[
        float,
        typer.Option(
            metavar="X",
            help="Scale down runs and evaluations for a first look: 0.1 is a tenth of each",
            rich_help_panel=SEARCH,
        ),
    ] = 1.0,
    quick: Annotated[
        bool, typer.Option("--quick", help="Scale down to a minute or two per experiment", rich_help_panel=SEARCH)
    ] = False,
    out: StudyDirectory = None,
    *,
    options: SharedOptions,
) -> None:
    """Run the paper's experiments and check its claims.

    Without --profile the settings are those of the paper's code, --profile published. An interrupted experiment
    continues when it is given the same --out again.
    """
    from tfsm.analysis.reproduce import FIGURES, SHARED_RUNS, SUMMARY_FOLDER, summarize_claims

    if figure not in (*FIGURES, ALL):
        raise UnknownNameError("result", figure, (*FIGURES, ALL))
    if not 0 < scale <= 1:
        raise TfsmError(f"--scale {scale:g}: expected a number above 0 and at most 1")
    if quick and (scale != 1.0 or runs is not None):
        raise TfsmError("--quick has its own scale: leave out --scale and --runs")
    plugins = get_plugins(ctx, options.disable_plugin)
    options = replace(options, profile=options.profile or DEFAULT_PROFILE)
    # Mistakes are found before TensorFlow starts.
    plans = [
        plan_figure(
            plugins, name, runs=runs, scale=FIGURES[name].quick if quick else scale, quick=quick, options=options
        )
        for name in (FIGURES if figure == ALL else (figure,))
    ]

    import_tensorflow()
    from tfsm.runs.directory import claim

    base = out if out is not None and out.is_dir() else claim(out, f"reproduce-{figure}")
    reproductions = []
    for plan in plans:
        folder = base / SHARED_RUNS.get(plan.name, plan.name) if figure == ALL else base
        folder.mkdir(exist_ok=True)
        reproductions.append(run_plan(plugins, plan, folder, base, options))
        if not options.json:
            _print_claims(reproductions[-1])
    wrote = base / SUMMARY_FOLDER / figure
    if figure == ALL:
        from tfsm.utils.files import write_text

        wrote = base / "claims.md"
        write_text(wrote, summarize_claims(reproductions))
    if options.json:
        results = [reproduction.as_dict() for reproduction in reproductions]
        print_json(({"results": results} if figure == ALL else results[0]) | {"directory": base})
    else:
        make_console().print(f"\nwrote {wrote}", soft_wrap=True)


class Plan(NamedTuple):
    """One of the results, and the settings of its experiments."""

    name: str
    figure: Figure
    scale: float
    members: dict[str, list[tuple[str, ResolvedSettings]]]
    """By domain: the name and the settings of each method."""


def plan_figure(
    plugins: Plugins, name: str, *, runs: int | None, scale: float, quick: bool, options: SharedOptions
) -> Plan:
    """Resolve the settings of a result's experiments.

    Args:
        plugins: the loaded plugins.
        name: a key of `FIGURES`.
        runs: the number of runs per method; None: the paper's.
        scale: the share of the runs and evaluations.
        quick: whether only the domains of a first look are run.
        options: the options of the command.
    """
    from tfsm.analysis.reproduce import FIGURES

    figure = FIGURES[name]
    domains = figure.domains[: figure.quick_domains] if quick else figure.domains
    members: dict[str, list[tuple[str, ResolvedSettings]]] = {domain: [] for domain in domains}
    for domain, mutation in product(domains, figure.mutations):
        count = runs or figure.runs
        resolved = options.resolve(plugins, domain, mutation, runs=count)
        if scale != 1.0:
            count = max(2, round(count * scale))
            evaluations = max(resolved.settings.population, round(resolved.settings.evaluations * scale))
            resolved = options.resolve(plugins, domain, mutation, runs=count, evaluations=evaluations)
        members[domain].append((mutation, resolved))
    return Plan(name, figure, scale, members)


def run_plan(plugins: Plugins, plan: Plan, folder: Path, base: Path, options: SharedOptions) -> Reproduction:
    """Run what is not finished yet, and save the claims.

    Args:
        plugins: the loaded plugins.
        plan: what to run.
        folder: where the runs and the summary go.
        base: the value of `--out` that continues an interrupted reproduction.
        options: the options of the command.
    """
    from tfsm.analysis.claims import Evidence
    from tfsm.analysis.reproduce import SUMMARY_FOLDER, Reproduction
    from tfsm.analysis.results import load_studies

    studies = {}
    for domain, members in plan.members.items():
        result = run_members(
            plugins,
            members,
            kind="compare",
            out=folder / domain,
            quiet=options.quiet,
            extra={"scale": plan.scale},
            resume_with=base,
        )
        if result.interrupted:
            raise typer.Exit(INTERRUPTED)
        (studies[domain],) = load_studies([folder / domain])
    robustness = None
    if plan.figure.perturbed and any(method.solved for study in studies.values() for method in study.methods):
        directory = folder / plan.figure.domains[0]
        robustness = _measure_robustness(plugins, directory, plan.figure.mutations, plan.scale, options.quiet)
    reproduction = Reproduction(
        plan.name,
        plan.figure,
        plan.scale,
        Evidence(studies, robustness),
        ["tfsm", *sys.argv[1:]],
        options.profile or DEFAULT_PROFILE,
    )
    summary = folder / SUMMARY_FOLDER / plan.name
    reproduction.save(summary)
    _draw(summary, folder, reproduction)
    return reproduction


def _measure_robustness(
    plugins: Plugins, directory: Path, mutations: tuple[str, ...], scale: float, quiet: bool
) -> Robustness:
    from tfsm.analysis.robustness import ROBUSTNESS_FILE, ROBUSTNESS_FOLDER, measure_robustness

    with show_steps("robustness", quiet=quiet) as update:
        robustness = measure_robustness(
            plugins,
            [directory],
            mutations=mutations,
            perturbations=max(2, round(50 * scale)),
            histogram=max(2, round(1000 * scale)),
            on_progress=update,
        )
    folder = directory / ROBUSTNESS_FOLDER
    folder.mkdir(exist_ok=True)
    robustness.save(folder / ROBUSTNESS_FILE)
    return robustness


def _draw(folder: Path, base: Path, reproduction: Reproduction) -> None:
    """Save figures and the page if matplotlib is there; the numbers are useful without them."""
    from tfsm.cli.report import compute_findings
    from tfsm.errors import import_optional

    try:
        import_optional("matplotlib", extra="plot", purpose="the figures")
    except TfsmError as error:
        print_message(f"no figures: {error}")
        return
    from tfsm.report.html import render_page
    from tfsm.report.plots import save_figures, save_robustness
    from tfsm.report.tables import write_file

    if reproduction.evidence.robustness is not None:
        save_robustness(folder, reproduction.evidence.robustness)
        return
    figure = reproduction.figure
    findings = compute_findings([base / domain for domain in reproduction.evidence.studies], at=figure.at)
    save_figures(folder, findings)
    write_file(folder / "report.html", render_page(findings))


def _print_claims(reproduction: Reproduction) -> None:
    from rich.table import Table

    from tfsm.analysis.reproduce import ANSWERS

    console = make_console()
    console.print(f"{reproduction.figure.title}\n")
    if reproduction.scale_note:
        console.print(f"{reproduction.scale_note}\n")
    table = Table(box=None, pad_edge=False)
    for column in ("claim", "result", "holds"):
        table.add_column(column)
    for claim, finding in reproduction.check_claims():
        table.add_row(claim.text, finding.statistic, ANSWERS[finding.holds])
    console.print(table)
