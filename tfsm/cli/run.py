"""`tfsm run`: evolve networks for a domain."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tfsm.cli.common import (
    Address,
    BackendOption,
    CheckpointEvery,
    DisablePlugin,
    Evaluations,
    EvaluationTimeout,
    Grain,
    Json,
    Layers,
    ModelName,
    Observers,
    Population,
    Quiet,
    Seed,
    Selection,
    Sets,
    Trust,
    Workers,
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
    from tfsm.runs.result import Result
    from tfsm.settings import ResolvedSettings


INTERRUPTED = 130


def run(
    ctx: typer.Context,
    domain: Annotated[
        str | None,
        typer.Argument(help="What to evolve for; `tfsm domains` lists them.", autocompletion=complete_parts("domain")),
    ] = None,
    mutation: Annotated[
        str | None,
        typer.Option(
            help="The mutation operator; `tfsm mutations` lists them.",
            metavar="NAME",
            autocompletion=complete_parts("mutation"),
        ),
    ] = None,
    intensity: Annotated[
        float | None,
        typer.Option(
            metavar="X", help="Standard deviation of the noise, for sm-r the divergence.  [default: the paper's]"
        ),
    ] = None,
    selection: Selection = None,
    runs: Annotated[int | None, typer.Option(metavar="N", help="Independent runs, evolved in lock step.")] = None,
    seed: Seed = None,
    evaluations: Evaluations = None,
    population: Population = None,
    model: ModelName = None,
    layers: Layers = None,
    trust_model: Trust = False,
    observer: Observers = None,
    set_: Sets = None,
    config: Config = None,
    out_: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="The run directory.  [default: a new one below runs/]")
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Go on with this run directory, from its last checkpoint, as if it had never stopped; more "
            "--evaluations and more --runs may be given.",
        ),
    ] = None,
    checkpoint_every: CheckpointEvery = None,
    evaluation_timeout: EvaluationTimeout = None,
    backend: BackendOption = None,
    workers: Workers = None,
    address: Address = None,
    grain: Grain = None,
    order: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Settle children in the order of this order.log, as --grain children wrote it: the same run again.",
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    disable_plugin: DisablePlugin = None,
) -> None:
    """Evolve networks for a domain with a mutation operator."""
    from tfsm.parallel.pool import choose_backend, resume_backend
    from tfsm.runs.records import read_record

    if order is not None and grain not in (None, "children"):
        raise TfsmError(f"--order {order}: only --grain children has an order, and this is --grain {grain}")
    place = choose_backend(backend, workers, address, "children" if order is not None else grain)
    plugins = context(ctx, disable_plugin).plugins()
    overrides = {
        "intensity": intensity,
        "selection": selection,
        "runs": runs,
        "seed": seed,
        "evaluations": evaluations,
        "population": population,
        "model": model,
        "trust_model": trust_model or None,
        "mutated_layers": layers,
        "checkpoint_every": checkpoint_every,
        "evaluation_timeout": evaluation_timeout,
        "observers": observer or None,
    }
    if resume is not None:
        also = {"DOMAIN": domain, "--mutation": mutation, "--set": set_, "--config": config, "--out": out_}
        resolved = _reopened(plugins, resume, overrides, [name for name, value in also.items() if value])
        said = any(value is not None for value in (backend, workers, address, grain, order))
        place = resume_backend(read_record(resume), resume, place, explicit=said)
        if _is_complete(resume, resolved):
            say(f"{resume}: finished already; --evaluations or --runs with a larger number goes on")
            return
    else:
        resolved = _resolved(plugins, domain, mutation, overrides, set_ or [], config)

    from tfsm.cli.common import Interrupt
    from tfsm.cli.progress import progress_of
    from tfsm.utils.tf_startup import import_tensorflow

    with Interrupt() as interrupt, progress_of(resolved.settings, quiet=quiet) as progress:
        import_tensorflow()
        from tfsm.runs.runner import run_experiment

        result = run_experiment(
            plugins,
            resolved,
            out=resume or out_,
            resume=resume is not None,
            command=["tfsm", *sys.argv[1:]],
            observers=[progress],
            stop=interrupt.asked,
            notify=say,
            backend=place,
            order=order,
        )
    if json:
        print_json(result.summary())
    else:
        _print_summary(result)
    if result.interrupted:
        say(f"interrupted; go on with: {shlex.join(['tfsm', 'run', '--resume', str(result.directory)])}")
        raise typer.Exit(INTERRUPTED)


def _resolved(
    plugins: Plugins,
    domain: str | None,
    mutation: str | None,
    overrides: dict[str, Any],
    sets: list[str],
    config: Path | None,
) -> ResolvedSettings:
    if domain is None or mutation is None:
        missing = "a DOMAIN, such as parity" if domain is None else "--mutation, such as --mutation sm-g-sum"
        raise TfsmError(f"tfsm run needs {missing}; or --resume DIR, to go on with a run directory")
    # Cheap checks come before TensorFlow is imported, which takes seconds.
    from tfsm.cli.common import import_for
    from tfsm.settings import resolve

    watching = [plugins.observers[name] for name in overrides["observers"] or ()]
    import_for(plugins.domains[domain], plugins.mutations[mutation], *watching)
    return resolve(plugins, domain=domain, mutation=mutation, overrides=overrides, sets=sets, config=config)


def _reopened(plugins: Plugins, directory: Path, overrides: dict[str, Any], also: list[str]) -> ResolvedSettings:
    if also:
        raise TfsmError(f"--resume: goes on with {directory} as it is, so {', '.join(also)} cannot be given with it")
    from tfsm.runs.resume import resume_settings

    return resume_settings(plugins, directory, overrides)


def _is_complete(directory: Path, resolved: ResolvedSettings) -> bool:
    from tfsm.runs.records import read_record

    record, wanted = read_record(directory), resolved.settings
    before = record["settings"]
    return record["status"] == "finished" and (before["evaluations"], before["runs"]) == (
        wanted.evaluations,
        wanted.runs,
    )


def _print_summary(result: Result) -> None:
    from rich.table import Table

    console = out()
    table = Table(box=None, pad_edge=False)
    for column in ("run", "solved", "evaluations", "best fitness"):
        table.add_column(column, justify="right")
    for run_ in result.runs:
        solved = "yes" if run_.solved else "no"
        table.add_row(str(run_.run), solved, f"{run_.evaluations:,}", f"{run_.best_fitness:.4f}")
    console.print(table)
    how = "interrupted; " if result.interrupted else ""
    evolving = max(result.seconds - result.compile_seconds, 1e-9)
    console.print(
        f"\n{how}solved {result.solved} of {len(result.runs)} runs in {result.seconds:.1f} s "
        f"({result.compile_seconds:.1f} s compiling, then {result.evaluated / evolving:,.0f} evaluations/s)"
    )
    console.print(f"results in {result.directory}", soft_wrap=True)
