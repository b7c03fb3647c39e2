"""`tfsm doctor`: how a run would be compiled, how each layer runs, and what would slow it down."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tfsm.cli.arguments import Layers, ModelName, Population, Sets, Trust
from tfsm.cli.complete import complete_parts
from tfsm.cli.config import Config
from tfsm.cli.console import out, print_json
from tfsm.cli.context import DisablePlugin, context
from tfsm.errors import TfsmError

if TYPE_CHECKING:
    from tfsm.experiments.doctor import Anatomy, Diagnosis, Layer
    from tfsm.plugins import Plugins


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


def _anatomy(model: str, layers: str | None, trust: bool) -> Anatomy:
    from tfsm.cli.tensorflow import import_quietly
    from tfsm.models.names import check_name
    from tfsm.models.patterns import parse_patterns

    check_name(model, trust=trust)
    parse_patterns(layers or ())
    import_quietly()
    from tfsm.experiments.doctor import dissect
    from tfsm.models.named import named_model
    from tfsm.models.selecting import network_of

    return dissect(network_of(named_model(model, trust=trust), layers or ()))


def _diagnosis(
    plugins: Plugins, domain: str, mutation: str, overrides: dict[str, Any], sets: Sequence[str], config: Path | None
) -> Diagnosis:
    from tfsm.cli.tensorflow import import_for, import_quietly
    from tfsm.experiments.settings import resolve

    import_for(plugins.domains[domain], plugins.mutations[mutation])
    resolved = resolve(plugins, domain=domain, mutation=mutation, overrides=overrides, sets=sets, config=config)
    import_quietly()
    from tfsm.experiments.doctor import diagnose
    from tfsm.experiments.parts import build_engine

    return diagnose(build_engine(plugins, resolved.settings))


def _print(found: Anatomy | Diagnosis, json: bool) -> None:
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


def _table(layers: Sequence[Layer]) -> Any:
    from rich.table import Table

    from tfsm.experiments.report.words import printable

    table = Table("layer", "class", box=None, pad_edge=False)
    table.add_column("mutated weights", justify="right")
    for title in ("runs", "gradients of single experiences"):
        table.add_column(title)
    for layer in layers:
        weights = f"{layer.weights:,}" if layer.weights else "-"
        table.add_row(printable(layer.name), layer.kind, weights, layer.way, layer.per_experience)
    return table
