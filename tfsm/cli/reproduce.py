"""`tfsm reproduce`: the paper's results by name."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tfsm.cli.common import INTERRUPTED, get_plugins, make_console, print_json, print_message
from tfsm.cli.options import EXPERIMENT, SEARCH, SharedOptions, StudyDirectory, shared_options
from tfsm.cli.studies import run_members
from tfsm.errors import TfsmError, UnknownNameError
from tfsm.utils.tf_startup import import_tensorflow

if TYPE_CHECKING:
    from tfsm.analysis.reproduce import Figure, Reproduction
    from tfsm.analysis.robustness import Robustness
    from tfsm.plugins import Plugins

FIGURE_NAMES: Final = ("simple", "parity", "robustness", "hard-maze", "large-scale", "topdown", "first-person")
"""The keys of `tfsm.analysis.reproduce.FIGURES`, for help without SciPy."""
DEFAULT_PROFILE: Final = "published"


@shared_options("seed", "set_", "profile", "json", "quiet", "disable_plugin")
def reproduce(
    ctx: typer.Context,
    figure: Annotated[
        str,
        typer.Argument(
            metavar="FIGURE",
            help=f"Result to reproduce: {', '.join(FIGURE_NAMES)}",
            autocompletion=lambda: FIGURE_NAMES,
            rich_help_panel=EXPERIMENT,
        ),
    ],
    scale: Annotated[
        float,
        typer.Option(
            metavar="X",
            help="Scale down runs and evaluations for a first look: 0.1 is a tenth of each",
            rich_help_panel=SEARCH,
        ),
    ] = 1.0,
    out: StudyDirectory = None,
    *,
    options: SharedOptions,
) -> None:
    """Run one of the paper's experiments and check its claims.

    Without --profile the settings are those of the paper's code, --profile published. An interrupted experiment
    continues when it is given the same --out again.
    """
    from tfsm.analysis.claims import Evidence
    from tfsm.analysis.reproduce import FIGURES, SUMMARY_FOLDER, Reproduction
    from tfsm.analysis.results import load_studies

    if figure not in FIGURES:
        raise UnknownNameError("result", figure, FIGURES)
    if not 0 < scale <= 1:
        raise TfsmError(f"--scale {scale:g}: expected a number above 0 and at most 1")
    plugins = get_plugins(ctx, options.disable_plugin)
    experiment, options = FIGURES[figure], replace(options, profile=options.profile or DEFAULT_PROFILE)
    # Mistakes are found before TensorFlow starts.
    members = {domain: _members(plugins, domain, experiment, scale, options) for domain in experiment.domains}

    import_tensorflow()
    from tfsm.runs.directory import claim

    base = out if out is not None and out.is_dir() else claim(out, f"reproduce-{figure}")
    extra = {"scale": scale}
    studies = {}
    for domain, its_members in members.items():
        folder = base / domain
        result = run_members(
            plugins, its_members, kind="compare", out=folder, quiet=options.quiet, extra=extra, resume_with=base
        )
        if result.interrupted:
            raise typer.Exit(INTERRUPTED)
        (studies[domain],) = load_studies([folder])
    robustness = None
    if experiment.perturbed:
        robustness = _measure_robustness(plugins, base / experiment.domains[0], experiment.mutations, scale)
    reproduction = Reproduction(figure, experiment, scale, Evidence(studies, robustness), ["tfsm", *sys.argv[1:]])
    folder = base / SUMMARY_FOLDER / figure
    reproduction.save(folder)
    _draw(folder, base, reproduction)
    if options.json:
        print_json(reproduction.as_dict() | {"directory": base})
    else:
        _print_claims(reproduction)
        make_console().print(f"\nwrote {folder}", soft_wrap=True)


def _members(
    plugins: Plugins, domain: str, experiment: Figure, scale: float, options: SharedOptions
) -> list[tuple[str, Any]]:
    members = []
    for name in experiment.mutations:
        resolved = options.resolve(plugins, domain, name, runs=experiment.runs)
        if scale != 1.0:
            runs = max(2, round(experiment.runs * scale))
            evaluations = max(resolved.settings.population, round(resolved.settings.evaluations * scale))
            resolved = options.resolve(plugins, domain, name, runs=runs, evaluations=evaluations)
        members.append((name, resolved))
    return members


def _measure_robustness(plugins: Plugins, directory: Path, mutations: tuple[str, ...], scale: float) -> Robustness:
    from tfsm.analysis.robustness import ROBUSTNESS_FILE, ROBUSTNESS_FOLDER, measure_robustness

    print_message("perturbing solutions")
    robustness = measure_robustness(
        plugins,
        [directory],
        mutations=mutations,
        perturbations=max(2, round(50 * scale)),
        histogram=max(2, round(1000 * scale)),
    )
    folder = directory / ROBUSTNESS_FOLDER
    folder.mkdir(exist_ok=True)
    robustness.save(folder / ROBUSTNESS_FILE)
    return robustness


def _draw(folder: Path, base: Path, reproduction: Reproduction) -> None:
    """Save figures and the page if matplotlib is there; the numbers are useful without them."""
    from tfsm.cli.report import compute_findings
    from tfsm.utils.optional import optional

    try:
        optional("matplotlib", extra="plot", purpose="the figures")
    except TfsmError as error:
        print_message(f"no figures: {error}")
        return
    from tfsm.report.document import write_file
    from tfsm.report.html import render_page
    from tfsm.report.plots import save_figures, save_robustness

    if reproduction.evidence.robustness is not None:
        save_robustness(folder, reproduction.evidence.robustness)
        return
    figure = reproduction.figure
    findings = compute_findings([base / domain for domain in figure.domains], at=figure.at)
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
