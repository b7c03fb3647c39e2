"""`tfsm doctor` and `tfsm runs`: look at a planned run, and at finished ones."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tfsm.cli.common import get_plugins, import_tensorflow_to_run, make_console, print_json, print_message
from tfsm.cli.options import (
    EXPERIMENT,
    SEARCH,
    MutationName,
    PanelCommand,
    SharedOptions,
    complete_parts,
    shared_options,
)
from tfsm.cli.progress import WIDE, show_steps
from tfsm.errors import TfsmError
from tfsm.utils.tf_startup import import_tensorflow

if TYPE_CHECKING:
    from tfsm.plugins import Plugins
    from tfsm.runs.doctor import LayerDiagnosis, ModelDiagnosis, RunDiagnosis
    from tfsm.settings import Settings


@shared_options(
    "population",
    "offspring",
    "model",
    "layers",
    "trust_model",
    "set_",
    "profile",
    "config",
    "json",
    "quiet",
    "disable_plugin",
)
def doctor(
    ctx: typer.Context,
    domain: Annotated[
        str | None,
        typer.Argument(
            metavar="DOMAIN",
            help="Domain of the run; optional with --model",
            autocompletion=complete_parts("domain"),
            show_default=False,
            rich_help_panel=EXPERIMENT,
        ),
    ] = None,
    mutation: MutationName = None,
    runs: Annotated[
        int | None, typer.Option(metavar="N", help="Number of independent runs", rich_help_panel=SEARCH)
    ] = None,
    *,
    options: SharedOptions,
) -> None:
    """Show how a run or a model is executed, and what is slow.

    Shows how a run would be compiled, or how a model's layers run, and what falls back to a slow path and why.
    """
    result: ModelDiagnosis | RunDiagnosis
    plugins, settings = None, None
    if domain is None:
        if options.model is None:
            raise TfsmError("name the DOMAIN of a run, or a model with --model")
        of_runs = (mutation, runs, options.population, options.set_, options.profile, options.config)
        if any(value is not None for value in of_runs):
            raise TfsmError("a model alone has no run: leave out the other settings, or name a DOMAIN")
    elif mutation is None:
        raise TfsmError("a run needs an operator: give --mutation; see `tfsm mutations`")
    else:
        plugins = get_plugins(ctx, options.disable_plugin)
        settings = options.resolve(plugins, domain, mutation, runs=runs).settings
    with show_steps("doctor", quiet=options.quiet):
        if plugins is None or settings is None:
            result = _inspect_model(str(options.model), options.layers, options.trust_model)
        else:
            result = _inspect_run(plugins, settings)
    if options.json:
        print_json(result)
    else:
        _print_diagnosis(result)


def _inspect_model(model: str, layers: str | None, trust: bool) -> ModelDiagnosis:
    from tfsm.models.names import check_model_name, parse_patterns

    check_model_name(model, trust=trust)
    parse_patterns(layers or ())
    import_tensorflow()
    from tfsm.models.loading import load_or_build_model
    from tfsm.models.network import build_network
    from tfsm.runs.doctor import diagnose_model

    return diagnose_model(build_network(load_or_build_model(model, trust=trust), layers or ()))


def _inspect_run(plugins: Plugins, settings: Settings) -> RunDiagnosis:
    import_tensorflow_to_run(plugins, settings)
    from tfsm.runs.build import build_engine
    from tfsm.runs.doctor import diagnose_run

    return diagnose_run(build_engine(plugins, settings), settings.engine["memory"])


def _print_diagnosis(result: ModelDiagnosis | RunDiagnosis) -> None:
    from rich.table import Table

    console = make_console()
    facts = Table(box=None, show_header=False, pad_edge=False)
    for name, value in result.facts():
        facts.add_row(name, value)
    console.print(facts)
    console.print()
    console.print(_layer_table(result.layers))
    console.print()
    for line in (*result.notes(), *(result.slow or ("nothing falls back to a slow path",))):
        console.print(f"slow: {line}" if line in result.slow else line, soft_wrap=True)


def _layer_table(layers: Sequence[LayerDiagnosis]) -> Any:
    from rich.table import Table

    from tfsm.report.formatting import replace_unprintable

    table = Table("layer", "class", box=None, pad_edge=False)
    table.add_column("mutated weights", justify="right")
    for title in ("runs", "per-experience gradients"):
        table.add_column(title)
    for layer in layers:
        weights = f"{layer.weights:,}" if layer.weights else "-"
        table.add_row(replace_unprintable(layer.name), layer.kind, weights, layer.way, layer.per_experience)
    return table


app = typer.Typer(no_args_is_help=True, help="List, show and remove run directories.", rich_markup_mode=None)


@app.command("list", cls=PanelCommand)
@shared_options("json")
def list_(
    top: Annotated[Path, typer.Argument(metavar="DIR", help="Directory to search, including subdirectories")] = Path(
        "runs"
    ),
    domain: Annotated[str | None, typer.Option(metavar="NAME", help="Only this domain; * matches anything")] = None,
    mutation: Annotated[str | None, typer.Option(metavar="NAME", help="Only with this operator")] = None,
    status: Annotated[
        str | None,
        typer.Option(metavar="STATUS", help="Only finished, interrupted, failed, killed, running or damaged ones"),
    ] = None,
    kind: Annotated[str | None, typer.Option(metavar="KIND", help="Only run, compare or sweep")] = None,
    solved: Annotated[
        bool | None, typer.Option("--solved/--unsolved", help="Only with at least one solved run, or with none")
    ] = None,
    *,
    options: SharedOptions,
) -> None:
    """List run directories and studies, newest first."""
    from tfsm.runs.inventory import list_directories

    items = [
        item
        for item in list_directories(top)
        if (domain is None or fnmatchcase(item.domain, domain))
        and (mutation is None or any(fnmatchcase(name, mutation) for name in item.methods))
        and (status is None or item.status == status)
        and (kind is None or item.kind == kind)
        and (solved is None or (item.solved > 0) == solved)
    ]
    if options.json:
        print_json(items)
        return
    if not items:
        print_message(f"{top}: no matching runs")
        return
    from rich.table import Table

    rows = [
        {
            "directory": str(item.directory),
            "kind": item.kind,
            "domain": item.domain,
            "methods": ", ".join(item.methods),
            "status": item.status,
            "solved": f"{item.solved}/{item.runs}",
            "evaluations": f"{item.evaluations:,}",
            "size": _format_size(item.size),
            "started": item.started.replace("T", " ").removesuffix("+00:00"),
        }
        for item in items
    ]
    console, table = make_console(), Table(box=None, pad_edge=False)
    # A narrow terminal has no space for all of them; `tfsm runs show` and --json have the rest.
    columns = [name for name in rows[0] if console.width >= WIDE or name not in ("kind", "evaluations", "size")]
    for name in columns:
        numeric, long = name in ("solved", "evaluations", "size"), name in ("directory", "domain", "methods")
        table.add_column(name, justify="right" if numeric else "left", no_wrap=not long, overflow="fold")
    for row in rows:
        table.add_row(*(row[name] for name in columns))
    console.print(table)


@app.command(cls=PanelCommand)
@shared_options("json")
def show(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Run directory or study")],
    *,
    options: SharedOptions,
) -> None:
    """Show the record of a run directory or study."""
    from tfsm.analysis.results import load_studies
    from tfsm.runs.inventory import is_run_or_study, summarize_directory
    from tfsm.runs.records import RECORD, STUDY, read_valid_record, read_valid_study

    if not is_run_or_study(directory):
        raise TfsmError(f"{directory}: neither a run directory nor a study")
    item = summarize_directory(directory)
    if item.problem:
        raise TfsmError(item.problem)
    record = read_valid_study(directory) if (directory / STUDY).is_file() else read_valid_record(directory)
    if options.json:
        print_json(record | {"directory": directory})
        return
    from rich.table import Table

    console = make_console()
    solved = f"{item.solved} of {item.runs} runs solved"
    console.print(f"{item.kind} of {item.domain}, {item.status}, {solved}, {_format_size(item.size)}")
    console.print(f"started {item.started}, ended {record.get('ended')}")
    if item.kind == "run" and item.status in ("interrupted", "failed", "killed"):
        console.print(f"resume with: tfsm run --resume {directory}", soft_wrap=True)
    for command in record.get("commands", [record.get("command")]):
        console.print(f"$ {' '.join(command)}" if command else "", soft_wrap=True)
    table = Table(box=None, pad_edge=False)
    for column in ("method", "run", "solved", "evaluations", "best fitness"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for study in load_studies([directory], strict=False):
        for method in study.methods:
            for run in method.outcomes:
                fitness = "-" if run.best_fitness is None else f"{run.best_fitness:.4f}"
                table.add_row(method.name, str(run.run), "yes" if run.solved else "no", f"{run.evaluations:,}", fitness)
    console.print()
    console.print(table)
    if (directory / RECORD).is_file():
        console.print()
        for key, value in record["settings"].items():
            console.print(f"{key}: {value}", soft_wrap=True)


@app.command(cls=PanelCommand)
def rm(
    directories: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Run directories or studies")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also remove running ones and those with unknown files")
    ] = False,
) -> None:
    """Remove run directories and studies, and nothing else."""
    from tfsm.runs.inventory import is_run_or_study, remove, summarize_directory

    unknown = [directory for directory in directories if not is_run_or_study(directory)]
    if unknown:
        which = ", ".join(map(str, unknown))
        raise TfsmError(f"{which}: neither a run directory nor a study; nothing was removed")
    for directory in directories:
        item = summarize_directory(directory)
        solved = f"{item.solved} of {item.runs} solved"
        description = f"{directory}: {item.kind} of {item.domain}, {solved}, {_format_size(item.size)}"
        if not yes and not typer.confirm(f"remove {description}?", err=True):
            print_message("kept")
            continue
        remove(directory, force=force)
        print_message(f"removed {description}")


def _format_size(count: int) -> str:
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
