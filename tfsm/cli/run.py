"""`tfsm run`: evolve networks for a domain."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tfsm.cli.arguments import (
    Domain,
    Evaluations,
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
)
from tfsm.cli.complete import complete_parts
from tfsm.cli.config import Config
from tfsm.cli.console import out, print_json, say
from tfsm.cli.context import DisablePlugin, context

if TYPE_CHECKING:
    from tfsm.experiments.result import Result

INTERRUPTED = 130


def run(
    ctx: typer.Context,
    domain: Domain,
    mutation: Annotated[
        str,
        typer.Option(
            help="The mutation operator; `tfsm mutations` lists them.",
            metavar="NAME",
            autocompletion=complete_parts("mutation"),
        ),
    ],
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
    json: Json = False,
    quiet: Quiet = False,
    disable_plugin: DisablePlugin = None,
) -> None:
    """Evolve networks for a domain with a mutation operator."""
    # Cheap checks come before TensorFlow is imported, which takes seconds.
    from tfsm.cli.tensorflow import import_for, import_quietly
    from tfsm.experiments.settings import resolve

    plugins = context(ctx, disable_plugin).plugins()
    watching = [plugins.observers[name] for name in observer or ()]
    import_for(plugins.domains[domain], plugins.mutations[mutation], *watching)
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
        "observers": observer or None,
    }
    resolved = resolve(plugins, domain=domain, mutation=mutation, overrides=overrides, sets=set_ or (), config=config)

    from tfsm.cli.interrupt import Interrupt
    from tfsm.cli.progress import progress_of

    with Interrupt() as interrupt, progress_of(resolved.settings, quiet=quiet) as progress:
        import_quietly()
        from tfsm.experiments.run import run_experiment

        result = run_experiment(
            plugins,
            resolved,
            out=out_,
            command=["tfsm", *sys.argv[1:]],
            observers=[progress],
            stop=interrupt.asked,
            notify=say,
        )
    if json:
        print_json(result.summary())
    else:
        _print_summary(result)
    if result.interrupted:
        raise typer.Exit(INTERRUPTED)


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
    spent = sum(run_.evaluations for run_ in result.runs)
    evolving = max(result.seconds - result.compile_seconds, 1e-9)
    console.print(
        f"\n{how}solved {result.solved} of {len(result.runs)} runs in {result.seconds:.1f} s "
        f"({result.compile_seconds:.1f} s compiling, then {spent / evolving:,.0f} evaluations/s)"
    )
    console.print(f"results in {result.directory}", soft_wrap=True)
