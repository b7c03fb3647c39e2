"""`tfsm compare` and `tfsm sweep`: several experiments on one domain."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tfsm.cli.common import (
    INTERRUPTED,
    InterruptHandler,
    get_plugins,
    import_tensorflow_to_run,
    make_console,
    print_json,
    print_message,
)
from tfsm.cli.options import (
    OUTPUT,
    SEARCH,
    DomainName,
    MutationNames,
    SharedOptions,
    StudyDirectory,
    parse_mutations,
    shared_options,
)
from tfsm.cli.progress import make_progress
from tfsm.errors import TfsmError

if TYPE_CHECKING:
    from tfsm.analysis.sweep import IntensityChoice
    from tfsm.parallel.pool import Backend
    from tfsm.plugins import Plugins
    from tfsm.runs.study import Member, StudyResult
    from tfsm.settings import ResolvedSettings

SETTINGS_FILE: Final = "tfsm.toml"
PAPER_GRID: Final = "0.1,0.05,0.01,0.005,0.001,0.0001"


@shared_options()
def compare(
    ctx: typer.Context,
    domain: DomainName,
    mutation: MutationNames = None,
    runs: Annotated[
        int, typer.Option(metavar="N", help="Number of independent runs per operator", rich_help_panel=SEARCH)
    ] = 20,
    at: Annotated[
        int | None,
        typer.Option(metavar="N", help="Also compare success rates after N evaluations", rich_help_panel=OUTPUT),
    ] = None,
    out: StudyDirectory = None,
    *,
    options: SharedOptions,
) -> None:
    """Compare mutation operators on a domain.

    All operators get the same budget. An interrupted comparison continues when it is given the same --out again;
    operators can be added in the same way.
    """
    from tfsm.parallel.pool import choose_backend

    backend = choose_backend(options.backend, options.workers, options.address, options.grain)
    plugins = get_plugins(ctx, options.disable_plugin)
    names = parse_mutations(plugins, mutation)
    members = [(name, options.resolve(plugins, domain, name, runs=runs)) for name in names]
    budget = min(resolved.settings.evaluations for _, resolved in members)
    if at is not None and not 0 < at <= budget:
        raise TfsmError(f"--at {at}: expected a number from 1 to {budget:,}, the evaluations per run")
    result = run_members(plugins, members, kind="compare", out=out, quiet=options.quiet, backend=backend)

    from tfsm.cli.report import compute_findings, print_findings

    print_findings(compute_findings([result.directory], at=at), json=options.json)
    if result.interrupted:
        raise typer.Exit(INTERRUPTED)


@shared_options()
def sweep(
    ctx: typer.Context,
    domain: DomainName,
    mutation: MutationNames = None,
    grid: Annotated[
        str | None,
        typer.Option(
            metavar="X,...",
            help=f"Intensities to try, comma-separated  [default: the paper's, {PAPER_GRID}]",
            rich_help_panel=SEARCH,
        ),
    ] = None,
    runs: Annotated[
        int, typer.Option(metavar="N", help="Number of independent runs per intensity", rich_help_panel=SEARCH)
    ] = 8,
    out: StudyDirectory = None,
    *,
    options: SharedOptions,
) -> None:
    """Find the best intensity of each operator on a domain.

    Tries the intensities of a grid, or with --divergence 0.1,0.01 divergences, and writes the best ones as settings. An
    interrupted sweep continues when it is given the same --out again.
    """
    from tfsm.parallel.pool import choose_backend

    backend = choose_backend(options.backend, options.workers, options.address, options.grain)
    plugins = get_plugins(ctx, options.disable_plugin)
    names = parse_mutations(plugins, mutation)
    setting, unit, values = _parse_grid(grid, options.divergence)
    prefix = "" if setting == "intensity" else "divergence-"
    labels = {(name, x): f"{name}-{prefix}{x:g}{unit}" for name in names for x in values}
    options = replace(options, divergence=None)
    members = [
        (label, options.resolve(plugins, domain, name, runs=runs, **{setting: f"{x:g}%" if unit else x}))
        for (name, x), label in labels.items()
    ]
    extra = {"grid": [f"{x:g}%" if unit else x for x in values]}
    result = run_members(plugins, members, kind="sweep", out=out, quiet=options.quiet, extra=extra, backend=backend)

    from tfsm.analysis.results import load_studies
    from tfsm.analysis.sweep import choose_intensity, format_toml
    from tfsm.utils.files import write_text

    (study,) = load_studies([result.directory])
    choices = []
    for name in names:
        tried = {x: method for x in values if (method := study.method(labels[name, x])) is not None}
        if tried:
            choices.append(choose_intensity(name, tried, setting=setting, unit=unit))
    text = format_toml(domain, choices, ["tfsm", *sys.argv[1:]])
    file = result.directory / SETTINGS_FILE
    if not result.interrupted:
        write_text(file, text)
    if options.json:
        print_json({"domain": domain, "directory": result.directory, "choices": choices, "fragment": text})
    else:
        _print_choices(choices)
        if not result.interrupted:
            make_console().print(f"\n{text}\nwrote {file}", soft_wrap=True)
    if result.interrupted:
        raise typer.Exit(INTERRUPTED)


def run_members(
    plugins: Plugins,
    members: Sequence[tuple[str, ResolvedSettings]],
    *,
    kind: str,
    out: Path | None,
    quiet: bool,
    extra: dict[str, Any] | None = None,
    resume_with: Path | None = None,
    backend: Backend | None = None,
) -> StudyResult:
    """Run the members of a study, show progress, and print how to continue if it is interrupted.

    Args:
        plugins: the loaded plugins.
        members: names and settings.
        kind: the kind of study.
        out: its directory.
        quiet: hide progress.
        extra: further keys for its record.
        resume_with: the value of `--out` that continues it, if that is not the study's own directory.
        backend: where the experiments run.
    """
    from tfsm.runs.records import STUDY, read_valid_study

    if out is not None and (out / STUDY).is_file():
        read_valid_study(out)  # report a damaged study before TensorFlow starts

    command = ["tfsm", *sys.argv[1:]]
    with InterruptHandler() as interrupt:
        import_tensorflow_to_run(plugins, members[0][1].settings)
        from tfsm.runs.study import Member, run_study

        def watch(number: int | None, member: Member) -> AbstractContextManager[Any]:
            settings = member.resolved.settings
            title = f"{kind} of {settings.domain}" if number is None else f"{number + 1}/{len(members)} {member.name}"
            return make_progress(settings, quiet=quiet, title=title)

        result = run_study(
            plugins,
            [Member(name, resolved) for name, resolved in members],
            kind=kind,
            out=out,
            watch=watch,
            command=command,
            extra=extra,
            stop=interrupt.requested,
            notify=print_message,
            backend=backend,
        )
    if result.interrupted:
        directory = resume_with or result.directory
        again = command if "--out" in command else [*command, "--out", str(directory)]
        print_message(f"interrupted; resume with: {shlex.join(again)}")
    return result


def _parse_grid(grid: str | None, divergence: str | None) -> tuple[str, str, list[float]]:
    """Return what to try: the setting, its unit, and the values."""
    if grid is not None and divergence is not None:
        raise TfsmError("--grid and --divergence exclude each other: try intensities or divergences")
    flag, given = ("--grid", grid or PAPER_GRID) if divergence is None else ("--divergence", divergence)
    example = PAPER_GRID if divergence is None else "0.1,0.01,0.001 or 10%,1%,0.1%"
    texts = [text.strip() for text in given.split(",") if text.strip()]
    unit = "%" if divergence is not None and texts and all(text.endswith("%") for text in texts) else ""
    try:
        values = [float(text.removesuffix(unit)) for text in texts]
    except ValueError:
        raise TfsmError(f"{flag} {given}: expected comma-separated numbers, such as {example}") from None
    valid = all(0 <= x < float("inf") for x in values)
    if not values or not valid or len(set(values)) < len(values):
        raise TfsmError(f"{flag} {given}: expected different numbers >= 0, such as {example}")
    return ("intensity" if divergence is None else "divergence"), unit, values


def _print_choices(choices: Sequence[IntensityChoice]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    setting = choices[0].setting if choices else "intensity"
    for column in ("operator", setting, "solved", "mean evaluations", "mean best fitness", "chosen", "certainty"):
        table.add_column(column, justify="left" if column in ("operator", "chosen") else "right")
    for choice in choices:
        for score in choice.scores:
            reason = f"by {choice.by}" + (", at the edge of the grid" if choice.at_the_edge else "")
            table.add_row(
                choice.mutation,
                choice.describe(score),
                f"{score.solved}/{score.runs}",
                f"{score.evaluations:,.0f}",
                f"{score.fitness:.4f}",
                reason if score is choice.best else "",
                f"{score.sure:.0%}",
            )
    make_console().print(table)
