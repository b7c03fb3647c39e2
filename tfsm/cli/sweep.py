"""`tfsm sweep`: the paper's grid search over intensities."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from tfsm.cli.arguments import (
    Address,
    Backend,
    CheckpointEvery,
    Domain,
    Evaluations,
    EvaluationTimeout,
    Grain,
    Json,
    Layers,
    ModelName,
    Mutations,
    Observers,
    Population,
    Quiet,
    Seed,
    Selection,
    Sets,
    StudyOut,
    Trust,
    Workers,
)
from tfsm.cli.config import Config
from tfsm.cli.console import out as console
from tfsm.cli.console import print_json
from tfsm.cli.context import DisablePlugin, context
from tfsm.cli.studies import INTERRUPTED, mutations_of, prepare, settings_of, study
from tfsm.errors import TfsmError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfsm.experiments.sweep import Choice

FRAGMENT = "tfsm.toml"
PAPERS = "0.1,0.05,0.01,0.005,0.001,0.0001"


def sweep(
    ctx: typer.Context,
    domain: Domain,
    mutation: Mutations = None,
    grid: Annotated[
        str, typer.Option(metavar="X,...", help="Intensities to try, with commas between them: the paper's.")
    ] = PAPERS,
    runs: Annotated[int, typer.Option(metavar="N", help="Independent runs of each intensity.")] = 8,
    seed: Seed = None,
    evaluations: Evaluations = None,
    population: Population = None,
    selection: Selection = None,
    model: ModelName = None,
    layers: Layers = None,
    trust_model: Trust = False,
    observer: Observers = None,
    set_: Sets = None,
    config: Config = None,
    out: StudyOut = None,
    checkpoint_every: CheckpointEvery = None,
    evaluation_timeout: EvaluationTimeout = None,
    backend: Backend = None,
    workers: Workers = None,
    address: Address = None,
    grain: Grain = None,
    json: Json = False,
    quiet: Quiet = False,
    disable_plugin: DisablePlugin = None,
) -> None:
    """Try several intensities of mutation operators on a domain, and choose the best for each.

    Interrupted, it goes on where it stopped if it is given the same --out again.
    """
    from tfsm.experiments.places.where import where

    place = where(backend, workers, address, grain)
    plugins = context(ctx, disable_plugin).plugins()
    names, intensities = mutations_of(plugins, mutation), _intensities(grid)
    prepare(plugins, domain, names, observer or ())
    resolved = settings_of(
        plugins,
        domain,
        sets=set_ or (),
        config=config,
        runs=runs,
        seed=seed,
        evaluations=evaluations,
        population=population,
        selection=selection,
        model=model,
        mutated_layers=layers,
        trust_model=trust_model or None,
        checkpoint_every=checkpoint_every,
        evaluation_timeout=evaluation_timeout,
        observers=observer or None,
    )
    tried = [(name, x, f"{name}-{x:g}") for name in names for x in intensities]
    experiments = [(label, resolved(name, intensity=x)) for name, x, label in tried]
    result = study(plugins, experiments, kind="sweep", out=out, quiet=quiet, extra={"grid": intensities}, where=place)

    from tfsm.experiments.collect import collect
    from tfsm.experiments.record import write_text
    from tfsm.experiments.sweep import choose, fragment

    (found,) = collect([result.directory])
    choices = []
    for name in names:
        own = {x: method for other, x, label in tried if other == name and (method := found.method(label)) is not None}
        if own:
            choices.append(choose(name, own))
    text = fragment(domain, choices, ["tfsm", *sys.argv[1:]])
    if not result.interrupted:
        write_text(result.directory / FRAGMENT, text)
    if json:
        print_json({"domain": domain, "directory": result.directory, "choices": choices, "fragment": text})
    else:
        _print(choices)
        if not result.interrupted:
            console().print(f"\n{text}\nwritten to {result.directory / FRAGMENT}", soft_wrap=True)
    if result.interrupted:
        raise typer.Exit(INTERRUPTED)


def _intensities(grid: str) -> list[float]:
    try:
        found = [float(text) for text in grid.split(",") if text.strip()]
    except ValueError:
        raise TfsmError(f"--grid {grid}: expected numbers with commas between them, such as {PAPERS}") from None
    if not found or any(not 0 <= x < float("inf") for x in found) or len(set(found)) < len(found):
        raise TfsmError(f"--grid {grid}: expected different numbers >= 0, such as {PAPERS}")
    return found


def _print(choices: Sequence[Choice]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in ("method", "intensity", "solved", "mean evaluations", "mean best fitness", "chosen", "sure"):
        table.add_column(column, justify="left" if column in ("method", "chosen") else "right")
    for choice in choices:
        for score in choice.scores:
            chosen = score is choice.best
            note = f"by {choice.by}" + (", at the grid's edge" if choice.at_the_edge else "") if chosen else ""
            table.add_row(
                choice.mutation,
                f"{score.intensity:g}",
                f"{score.solved}/{score.runs}",
                f"{score.evaluations:,.0f}",
                f"{score.fitness:.4f}",
                note,
                f"{score.sure:.0%}",
            )
    console().print(table)
