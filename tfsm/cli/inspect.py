"""Doctor, runs."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tfsm.cli.common import (
    DisablePlugin,
    Json,
    Layers,
    ModelName,
    Population,
    Sets,
    Trust,
    complete_parts,
    context,
    out,
    print_json,
    say,
)
from tfsm.cli.config import Config
from tfsm.errors import TfsmError

if TYPE_CHECKING:
    from tfsm.plugins import Plugins
    from tfsm.runs.doctor import LayerDiagnosis, ModelDiagnosis, RunDiagnosis


def doctor(
    ctx: typer.Context,
    domain: Annotated[
        str | None,
        typer.Argument(
            help="The domain of the run; may be left out where there is a --model.",
            autocompletion=complete_parts("domain"),
            show_default=False,
        ),
    ] = None,
    mutation: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The mutation operator.", autocompletion=complete_parts("mutation")),
    ] = None,
    runs: Annotated[int | None, typer.Option(metavar="N", help="Independent runs.")] = None,
    population: Population = None,
    model: ModelName = None,
    layers: Layers = None,
    trust_model: Trust = False,
    set_: Sets = None,
    config: Config = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    disable_plugin: DisablePlugin = None,
) -> None:
    """Show how a run would be compiled, or how a model's layers run, and what falls back to a slow path, and why."""
    if domain is None:
        if model is None:
            raise TfsmError("name the domain of a run, or a model with --model")
        if any(given is not None for given in (mutation, runs, population, set_, config)):
            raise TfsmError("a model alone has no run: leave the other settings out, or name a domain")
        _print(_anatomy(model, layers, trust_model), json)
        return
    if mutation is None:
        raise TfsmError("a run needs an operator: give --mutation; `tfsm mutations` lists them")
    overrides = {
        "runs": runs,
        "population": population,
        "model": model,
        "mutated_layers": layers,
        "trust_model": trust_model or None,
    }
    plugins = context(ctx, disable_plugin).plugins()
    _print(_diagnosis(plugins, domain, mutation, overrides, set_ or (), config), json)


def _anatomy(model: str, layers: str | None, trust: bool) -> ModelDiagnosis:
    from tfsm.models.names import check_model_name, parse_patterns
    from tfsm.utils.tf_startup import import_tensorflow

    check_model_name(model, trust=trust)
    parse_patterns(layers or ())
    import_tensorflow()
    from tfsm.models.loading import load_or_build_model
    from tfsm.models.network import build_network
    from tfsm.runs.doctor import diagnose_model

    return diagnose_model(build_network(load_or_build_model(model, trust=trust), layers or ()))


def _diagnosis(
    plugins: Plugins, domain: str, mutation: str, overrides: dict[str, Any], sets: Sequence[str], config: Path | None
) -> RunDiagnosis:
    from tfsm.cli.common import import_for
    from tfsm.settings import resolve
    from tfsm.utils.tf_startup import import_tensorflow

    import_for(plugins.domains[domain], plugins.mutations[mutation])
    resolved = resolve(plugins, domain=domain, mutation=mutation, overrides=overrides, sets=sets, config=config)
    import_tensorflow()
    from tfsm.runs.build import build_engine
    from tfsm.runs.doctor import diagnose_run

    return diagnose_run(build_engine(plugins, resolved.settings))


def _print(found: ModelDiagnosis | RunDiagnosis, json: bool) -> None:
    if json:
        print_json(found)
        return
    from rich.table import Table

    console = out()
    facts = Table(box=None, show_header=False, pad_edge=False)
    for name, value in found.facts():
        facts.add_row(name, value)
    console.print(facts)
    console.print()
    console.print(_table(found.layers))
    console.print()
    for line in (*found.notes(), *(found.slow or ("nothing falls back to a slow path",))):
        console.print(f"slow: {line}" if line in found.slow else line, soft_wrap=True)


def _table(layers: Sequence[LayerDiagnosis]) -> Any:
    from rich.table import Table

    from tfsm.report.formatting import replace_unprintable

    table = Table("layer", "class", box=None, pad_edge=False)
    table.add_column("mutated weights", justify="right")
    for title in ("runs", "gradients of single experiences"):
        table.add_column(title)
    for layer in layers:
        weights = f"{layer.weights:,}" if layer.weights else "-"
        table.add_row(replace_unprintable(layer.name), layer.kind, weights, layer.way, layer.per_experience)
    return table


app = typer.Typer(no_args_is_help=True, help="List, show and remove what was run.", rich_markup_mode=None)

Top = Annotated[Path, typer.Argument(metavar="[DIR]", help="Where to look, folders below included.")]
RUNS = Path("runs")


@app.command("list")
def list_(
    top: Top = RUNS,
    domain: Annotated[str | None, typer.Option(metavar="NAME", help="Of this domain; * stands for anything.")] = None,
    mutation: Annotated[str | None, typer.Option(metavar="NAME", help="With this operator among its methods.")] = None,
    status: Annotated[
        str | None, typer.Option(metavar="WORD", help="finished, interrupted, failed, killed, running or damaged.")
    ] = None,
    kind: Annotated[str | None, typer.Option(metavar="WORD", help="run, compare or sweep.")] = None,
    solved: Annotated[
        bool | None, typer.Option("--solved/--unsolved", help="With a solved run, or without any.")
    ] = None,
    json: Json = False,
) -> None:
    """List run directories and studies, the newest first."""
    from tfsm.runs.inventory import list_directories

    found = [
        item
        for item in list_directories(top)
        if (domain is None or fnmatchcase(item.domain, domain))
        and (mutation is None or any(fnmatchcase(name, mutation) for name in item.methods))
        and (status is None or item.status == status)
        and (kind is None or item.kind == kind)
        and (solved is None or (item.solved > 0) == solved)
    ]
    if json:
        print_json(found)
        return
    if not found:
        say(f"{top}: nothing there that fits")
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in ("directory", "kind", "domain", "methods", "status", "solved", "evaluations", "size", "started"):
        table.add_column(column, justify="right" if column in ("solved", "evaluations", "size") else "left")
    for item in found:
        table.add_row(
            str(item.directory),
            item.kind,
            item.domain,
            ", ".join(item.methods),
            item.status,
            f"{item.solved}/{item.runs}",
            f"{item.evaluations:,}",
            _bytes(item.size),
            item.started.replace("T", " ").removesuffix("+00:00"),
        )
    out().print(table)


@app.command()
def show(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A run directory, or that of a study.")],
    json: Json = False,
) -> None:
    """Show what a run directory or study tells of itself."""
    from tfsm.analysis.results import load_studies
    from tfsm.runs.inventory import is_run_or_study, summarize_directory
    from tfsm.runs.records import RECORD, STUDY, read_valid_record, read_valid_study

    if not is_run_or_study(directory):
        raise TfsmError(f"{directory}: neither a run directory nor a study")
    told = summarize_directory(directory)
    if told.problem:
        raise TfsmError(told.problem)
    record = read_valid_study(directory) if (directory / STUDY).is_file() else read_valid_record(directory)
    if json:
        print_json(record | {"directory": directory})
        return
    from rich.table import Table

    console = out()
    words = (
        f"{told.kind} of {told.domain}, {told.status}, {told.solved} of {told.runs} runs solved, {_bytes(told.size)}"
    )
    console.print(words)
    console.print(f"started {told.started}, ended {record.get('ended')}")
    if told.kind == "run" and told.status in ("interrupted", "failed", "killed"):
        console.print(f"go on with: tfsm run --resume {directory}", soft_wrap=True)
    for command in record.get("commands", [record.get("command")]):
        console.print(f"$ {' '.join(command)}" if command else "", soft_wrap=True)
    table = Table(box=None, pad_edge=False)
    for column in ("method", "run", "solved", "evaluations", "best fitness"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for study in load_studies([directory], strict=False):
        for method in study.methods:
            for o in method.outcomes:
                fitness = "-" if o.best_fitness is None else f"{o.best_fitness:.4f}"
                table.add_row(method.name, str(o.run), "yes" if o.solved else "no", f"{o.evaluations:,}", fitness)
    console.print()
    console.print(table)
    if (directory / RECORD).is_file():
        console.print()
        for key, value in record["settings"].items():
            console.print(f"{key}: {value}", soft_wrap=True)


@app.command()
def rm(
    directories: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Run directories or studies.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Also what is running, or holds files of yours.")] = False,
) -> None:
    """Remove run directories and studies, and nothing else."""
    from tfsm.runs.inventory import is_run_or_study, remove, summarize_directory

    strange = [directory for directory in directories if not is_run_or_study(directory)]
    if strange:
        which = ", ".join(map(str, strange))
        raise TfsmError(f"{which}: neither a run directory nor a study; nothing was removed")
    for directory in directories:
        told = summarize_directory(directory)
        words = f"{directory}: {told.kind} of {told.domain}, {told.solved} of {told.runs} solved, {_bytes(told.size)}"
        if not yes and not typer.confirm(f"remove {words}?", err=True):
            say("kept")
            continue
        remove(directory, force=force)
        say(f"removed {words}")


def _bytes(count: int) -> str:
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
