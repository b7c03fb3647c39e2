"""`tfsm compare`: the final runs of several methods."""

from __future__ import annotations

from typing import Annotated

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
from tfsm.cli.context import DisablePlugin, context
from tfsm.cli.studies import INTERRUPTED, mutations_of, prepare, settings_of, study
from tfsm.errors import TfsmError


def compare(
    ctx: typer.Context,
    domain: Domain,
    mutation: Mutations = None,
    runs: Annotated[int, typer.Option(metavar="N", help="Independent runs of each method.")] = 20,
    seed: Seed = None,
    evaluations: Evaluations = None,
    population: Population = None,
    selection: Selection = None,
    model: ModelName = None,
    layers: Layers = None,
    trust_model: Trust = False,
    observer: Observers = None,
    set_: Sets = None,
    at: Annotated[
        int | None, typer.Option(metavar="N", help="Compare how many are solved within so many evaluations, too.")
    ] = None,
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
    """Run several mutation operators on a domain, with one budget, and compare them.

    Interrupted, it goes on where it stopped if it is given the same --out again; operators may be added in this way.
    """
    from tfsm.experiments.places.where import where

    place = where(backend, workers, address, grain)
    plugins = context(ctx, disable_plugin).plugins()
    names = mutations_of(plugins, mutation)
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
    members = [(name, resolved(name)) for name in names]
    least = min(own.settings.evaluations for _, own in members)
    if at is not None and not 0 < at <= least:
        raise TfsmError(f"--at {at}: expected a number from 1 to {least:,}, the evaluations of a run")
    result = study(plugins, members, kind="compare", out=out, quiet=quiet, where=place)

    from tfsm.cli.report import show

    show([result.directory], at=at, json=json)
    if result.interrupted:
        raise typer.Exit(INTERRUPTED)
