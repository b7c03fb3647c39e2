"""`tfsm run`: evolve networks for a domain."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    DEFAULT_MUTATION,
    EXECUTION,
    EXPERIMENT,
    OUTPUT,
    SEARCH,
    MutationName,
    SharedOptions,
    complete_parts,
    shared_options,
)
from tfsm.cli.progress import make_progress
from tfsm.errors import TfsmError

if TYPE_CHECKING:
    from tfsm.runs.result import Result


@shared_options()
def run(
    ctx: typer.Context,
    domain: Annotated[
        str | None,
        typer.Argument(
            metavar="DOMAIN",
            help="Domain to evolve for; see `tfsm domains`",
            autocompletion=complete_parts("domain"),
            rich_help_panel=EXPERIMENT,
        ),
    ] = None,
    mutation: MutationName = None,
    intensity: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            help="Standard deviation of the noise; for sm-r, the divergence  [default: the paper's]",
            rich_help_panel=EXPERIMENT,
        ),
    ] = None,
    runs: Annotated[
        int | None,
        typer.Option(metavar="N", help="Number of independent runs, evolved in lock step", rich_help_panel=SEARCH),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Run directory  [default: a new one in runs/]", rich_help_panel=OUTPUT),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Resume this run directory from its last checkpoint; --evaluations and --runs may be raised",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    *,
    options: SharedOptions,
    order: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Repeat a run of --grain children: process children in the order of its order.log",
            rich_help_panel=EXECUTION,
        ),
    ] = None,
) -> None:
    """Evolve networks for a domain with a mutation operator."""
    from tfsm.parallel.pool import choose_backend, resume_backend
    from tfsm.runs.records import read_record

    grain = options.grain
    if order is not None and grain not in (None, "children"):
        raise TfsmError(f"--order {order}: only --grain children has an order, not --grain {grain}")
    placement = (options.backend, options.workers, options.address, "children" if order is not None else grain)
    backend = choose_backend(*placement)
    plugins = get_plugins(ctx, options.disable_plugin)
    flags = {"intensity": intensity, "runs": runs}
    if resume is not None:
        from tfsm.runs.resume import resume_settings

        fixed = {
            "DOMAIN": domain,
            "--mutation": mutation,
            "--set": options.set_,
            "--profile": options.profile,
            "--config": options.config,
            "--out": out,
        }
        if given := [name for name, value in fixed.items() if value]:
            raise TfsmError(f"--resume continues {resume} as it is; it cannot be combined with {', '.join(given)}")
        resolved = resume_settings(plugins, resume, options.overrides() | flags)
        record = read_record(resume)
        backend = resume_backend(record, resume, backend, explicit=any(value is not None for value in placement))
        before, settings = record["settings"], resolved.settings
        unchanged = (before["evaluations"], before["runs"]) == (settings.evaluations, settings.runs)
        if record["status"] == "finished" and unchanged:
            print_message(f"{resume}: already finished; raise --evaluations or --runs to continue")
            return
    else:
        if domain is None:
            raise TfsmError("tfsm run needs a DOMAIN, such as parity; or --resume DIR to resume a run")
        # Settings are checked before TensorFlow is imported, which takes seconds.
        resolved = options.resolve(plugins, domain, mutation or DEFAULT_MUTATION, **flags)

    with InterruptHandler() as interrupt, make_progress(resolved.settings, quiet=options.quiet) as progress:
        import_tensorflow_to_run(plugins, resolved.settings)
        from tfsm.runs.runner import run_experiment

        result = run_experiment(
            plugins,
            resolved,
            out=resume or out,
            resume=resume is not None,
            command=["tfsm", *sys.argv[1:]],
            observers=[progress],
            stop=interrupt.requested,
            notify=print_message,
            backend=backend,
            order=order,
        )
    if options.json:
        print_json(result.summary())
    else:
        _print_summary(result)
    if result.interrupted:
        print_message(f"interrupted; resume with: {shlex.join(['tfsm', 'run', '--resume', str(result.directory)])}")
        raise typer.Exit(INTERRUPTED)


def _print_summary(result: Result) -> None:
    from rich.table import Table

    console = make_console()
    table = Table(box=None, pad_edge=False)
    for column in ("run", "solved", "evaluations", "best fitness"):
        table.add_column(column, justify="right")
    for run_ in result.runs:
        solved = "yes" if run_.solved else "no"
        table.add_row(str(run_.run), solved, f"{run_.evaluations:,}", f"{run_.best_fitness:.4f}")
    console.print(table)
    prefix = "interrupted; " if result.interrupted else ""
    evolving = max(result.seconds - result.compile_seconds, 1e-9)
    console.print(
        f"\n{prefix}solved {result.solved} of {len(result.runs)} runs in {result.seconds:.1f} s "
        f"({result.compile_seconds:.1f} s compiling, then {result.evaluated / evolving:,.0f} evaluations/s)"
    )
    console.print(f"results in {result.directory}", soft_wrap=True)
