"""`tfsm reproduce`: the paper's results by name."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tfsm.cli.common import DisablePlugin, Json, Quiet, Seed, Sets, context, print_json, say
from tfsm.cli.common import out as console
from tfsm.cli.report import FOLDER
from tfsm.cli.studies import INTERRUPTED, settings_of, study
from tfsm.errors import TfsmError, UnknownNameError

if TYPE_CHECKING:
    from tfsm.analysis.reproduce import Figure, Reproduction
    from tfsm.analysis.robustness import Robustness
    from tfsm.plugins import Plugins


NAMES = ("simple", "parity", "robustness", "hard-maze", "large-scale", "topdown", "first-person")


def reproduce(
    ctx: typer.Context,
    figure: Annotated[
        str, typer.Argument(metavar="FIGURE", help=f"Which result: {', '.join(NAMES)}.", autocompletion=lambda: NAMES)
    ],
    scale: Annotated[
        float,
        typer.Option(metavar="X", help="Shrink runs and evaluations, for a first look: 0.1 is a tenth of each."),
    ] = 1.0,
    seed: Seed = None,
    set_: Sets = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="The directory; what was run there before is not run again.  [default: a new one below runs/]",
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    disable_plugin: DisablePlugin = None,
) -> None:
    """Run one of the paper's experiments with its settings, and check the paper's claims.

    Interrupted, it goes on where it stopped if it is given the same --out again.
    """
    from tfsm.analysis.reproduce import FIGURES

    if figure not in FIGURES:
        raise UnknownNameError("result", figure, FIGURES)
    if not 0 < scale <= 1:
        raise TfsmError(f"--scale {scale:g}: expected a number above 0 and at most 1")
    plugins = context(ctx, disable_plugin).plugins()
    wanted = FIGURES[figure]
    # Whatever can be wrong is found before TensorFlow starts.
    experiments = {domain: _experiments(plugins, domain, wanted, scale, seed, set_ or []) for domain in wanted.domains}

    from tfsm.utils.tf_startup import import_tensorflow

    import_tensorflow()
    from tfsm.analysis.claims import Evidence
    from tfsm.analysis.reproduce import SUMMARY_FOLDER, Reproduction
    from tfsm.analysis.results import load_studies
    from tfsm.runs.directory import claim

    base = out if out is not None and out.is_dir() else claim(out, f"reproduce-{figure}")
    studies = {}
    for domain, members in experiments.items():
        done = study(plugins, members, kind="compare", out=base / domain, quiet=quiet, extra={"scale": scale}, top=base)
        if done.interrupted:
            raise typer.Exit(INTERRUPTED)
        (studies[domain],) = load_studies([base / domain])
    left = _perturbed(plugins, base / wanted.domains[0], wanted.mutations, scale) if wanted.perturbed else None
    found = Reproduction(figure, wanted, scale, Evidence(studies, left), ["tfsm", *sys.argv[1:]])
    folder = base / SUMMARY_FOLDER / figure
    found.save(folder)
    _draw(folder, base, found, at=wanted.at)
    if json:
        print_json(found.as_dict() | {"directory": base})
    else:
        _print(found)
        console().print(f"\nwritten to {folder}", soft_wrap=True)


def _experiments(
    plugins: Plugins, domain: str, wanted: Figure, scale: float, seed: int | None, sets: list[str]
) -> list[tuple[str, Any]]:
    plain = settings_of(plugins, domain, sets=sets, runs=wanted.runs, seed=seed)
    resolved = {name: plain(name) for name in wanted.mutations}
    if scale == 1.0:
        return list(resolved.items())
    shrunk = []
    for name, full in resolved.items():
        settings = full.settings
        fewer = max(settings.population, round(settings.evaluations * scale))
        shrunk.append((name, plain(name, runs=max(2, round(wanted.runs * scale)), evaluations=fewer)))
    return shrunk


def _perturbed(plugins: Plugins, directory: Path, mutations: tuple[str, ...], scale: float) -> Robustness:
    from tfsm.analysis.robustness import ROBUSTNESS_FILE, measure_robustness, save

    say("perturbing solutions")
    found = measure_robustness(
        plugins,
        [directory],
        mutations=mutations,
        perturbations=max(2, round(50 * scale)),
        histogram=max(2, round(1000 * scale)),
    )
    folder = directory / FOLDER
    folder.mkdir(exist_ok=True)
    save(found, folder / ROBUSTNESS_FILE)
    return found


def _draw(folder: Path, base: Path, found: Reproduction, *, at: int | None) -> None:
    """Save figures and the page where they can be drawn; the numbers are worth having without them."""
    from tfsm.cli.report import findings_of
    from tfsm.utils.optional import optional

    try:
        optional("matplotlib", extra="plot", purpose="the figures")
    except TfsmError as error:
        say(f"no figures: {error}")
        return
    from tfsm.report.document import write_file
    from tfsm.report.html import render_page
    from tfsm.report.plots import save_figures, save_robustness

    if found.evidence.robustness is not None:
        save_robustness(folder, found.evidence.robustness)
        return
    findings = findings_of(
        [base / domain for domain in found.figure.domains], at=at, baseline=None, band="kaplan-meier"
    )
    save_figures(folder, findings)
    write_file(folder / "report.html", render_page(findings))


def _print(found: Reproduction) -> None:
    from rich.table import Table

    from tfsm.analysis.reproduce import ANSWERS

    screen = console()
    screen.print(f"{found.figure.title}\n")
    if found.scaled:
        screen.print(f"{found.scaled}\n")
    table = Table(box=None, pad_edge=False)
    for column in ("claim", "here", "holds"):
        table.add_column(column)
    for item in found.checked():
        table.add_row(item.claim, item.statistic, ANSWERS[item.holds])
    screen.print(table)
