"""Compare, sweep."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tfsm.cli.common import (
    Address,
    BackendOption,
    CheckpointEvery,
    DisablePlugin,
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
    context,
    print_json,
    say,
)
from tfsm.cli.common import out as console
from tfsm.cli.config import Config
from tfsm.errors import TfsmError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfsm.analysis.sweep import IntensityChoice
    from tfsm.parallel.pool import Backend
    from tfsm.plugins import Plugins
    from tfsm.runs.study import StudyResult
    from tfsm.settings import ResolvedSettings


INTERRUPTED = 130
PAPER: Final = ("control", "sm-r", "sm-g-sum", "sm-g-abs", "sm-g-so")
"""What is compared where nobody says what."""


def mutations_of(plugins: Plugins, text: str | None) -> list[str]:
    """Return the operators that were asked for; the paper's unless some were."""
    if text is None:
        return [name for name in PAPER if name in plugins.mutations]
    names = [name.strip() for name in text.split(",") if name.strip()]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise TfsmError(f"--mutation {text}: {', '.join(twice)} was given twice")
    if not names:
        raise TfsmError("--mutation: expected names with commas between them, such as control,sm-g-sum")
    for name in names:
        plugins.mutations[name]  # an unknown one is an error that suggests another
    return names


def prepare(plugins: Plugins, domain: str, mutations: Sequence[str], observers: Sequence[str]) -> None:
    """Look all parts up, and import TensorFlow now if one of them must be imported to be asked for its options."""
    from tfsm.cli.common import import_for

    operators = (plugins.mutations[name] for name in mutations)
    import_for(plugins.domains[domain], *operators, *(plugins.observers[name] for name in observers))


def settings_of(
    plugins: Plugins, domain: str, *, sets: Sequence[str] = (), config: Path | None = None, **flags: Any
) -> Callable[..., ResolvedSettings]:
    """Return a function from an operator, and flags that are special for it, to its settings; None is no flag."""
    from tfsm.settings import resolve

    def resolved(mutation: str, **special: Any) -> ResolvedSettings:
        return resolve(plugins, domain=domain, mutation=mutation, overrides=flags | special, sets=sets, config=config)

    return resolved


def study(
    plugins: Plugins,
    experiments: Sequence[tuple[str, ResolvedSettings]],
    *,
    kind: str,
    out: Path | None,
    quiet: bool,
    extra: dict[str, Any] | None = None,
    top: Path | None = None,
    backend: Backend | None = None,
) -> StudyResult:
    """Run all of them, with progress, and tell how to go on if it was interrupted.

    Args:
        plugins: where the parts come from.
        experiments: names and settings.
        kind: what the study is.
        out: its directory.
        quiet: show no progress.
        extra: what else to write into its record.
        top: the directory that the user would name to go on, if not the study's own.
        backend: where the experiments run.
    """
    from tfsm.cli.common import Interrupt
    from tfsm.cli.progress import progress_of
    from tfsm.runs.records import STUDY, read_valid_study
    from tfsm.utils.tf_startup import import_tensorflow

    count = len(experiments)
    if out is not None and (out / STUDY).is_file():
        read_valid_study(out)  # a damaged one cannot be gone on with, and that is told before TensorFlow has started

    with Interrupt() as interrupt:
        import_tensorflow()
        from tfsm.runs.study import Member, run_study

        def watch(number: int | None, member: Member) -> AbstractContextManager[Any]:
            settings = member.resolved.settings
            title = f"{kind} of {settings.domain}" if number is None else f"{number + 1}/{count} {member.name}"
            return progress_of(settings, quiet=quiet, title=title)

        result = run_study(
            plugins,
            [Member(name, resolved) for name, resolved in experiments],
            kind=kind,
            out=out,
            watch=watch,
            command=["tfsm", *sys.argv[1:]],
            extra=extra,
            stop=interrupt.asked,
            notify=say,
            backend=backend,
        )
    if result.interrupted:
        words = ["tfsm", *sys.argv[1:]]
        again = words if "--out" in words else [*words, "--out", str(top or result.directory)]
        say(f"interrupted; go on with: {shlex.join(again)}")
    return result


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
    backend: BackendOption = None,
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
    from tfsm.parallel.pool import choose_backend

    place = choose_backend(backend, workers, address, grain)
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
    result = study(plugins, members, kind="compare", out=out, quiet=quiet, backend=place)

    from tfsm.cli.report import show

    show([result.directory], at=at, json=json)
    if result.interrupted:
        raise typer.Exit(INTERRUPTED)


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
    backend: BackendOption = None,
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
    from tfsm.parallel.pool import choose_backend

    place = choose_backend(backend, workers, address, grain)
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
    result = study(plugins, experiments, kind="sweep", out=out, quiet=quiet, extra={"grid": intensities}, backend=place)

    from tfsm.analysis.results import load_studies
    from tfsm.analysis.sweep import choose_intensity, format_toml
    from tfsm.runs.records import write_text

    (found,) = load_studies([result.directory])
    choices = []
    for name in names:
        own = {x: method for other, x, label in tried if other == name and (method := found.method(label)) is not None}
        if own:
            choices.append(choose_intensity(name, own))
    text = format_toml(domain, choices, ["tfsm", *sys.argv[1:]])
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


def _print(choices: Sequence[IntensityChoice]) -> None:
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
