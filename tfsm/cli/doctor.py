"""`tfsm doctor`: how a run would be compiled, and what would slow it down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tfsm.cli.complete import complete_parts
from tfsm.cli.config import Config
from tfsm.cli.console import out, print_json
from tfsm.cli.context import DisablePlugin, context

if TYPE_CHECKING:
    from tfsm.experiments.doctor import Diagnosis


def doctor(
    ctx: typer.Context,
    domain: Annotated[str, typer.Argument(help="The domain of the run.", autocompletion=complete_parts("domain"))],
    mutation: Annotated[
        str,
        typer.Option(metavar="NAME", help="The mutation operator.", autocompletion=complete_parts("mutation")),
    ],
    runs: Annotated[int | None, typer.Option(metavar="N", help="Independent runs.")] = None,
    population: Annotated[int | None, typer.Option(metavar="N", help="Individuals of one run.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set an option, as for `tfsm run`.")
    ] = None,
    config: Config = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    disable_plugin: DisablePlugin = None,
) -> None:
    """Show how a run would be compiled, what it would keep in memory, and what falls back to a slow path, and why."""
    from tfsm.cli.tensorflow import import_for, import_quietly
    from tfsm.experiments.settings import resolve

    plugins = context(ctx, disable_plugin).plugins()
    import_for(plugins.domains[domain], plugins.mutations[mutation])
    overrides = {"runs": runs, "population": population}
    resolved = resolve(plugins, domain=domain, mutation=mutation, overrides=overrides, sets=set_ or (), config=config)
    import_quietly()
    from tfsm.experiments.doctor import diagnose
    from tfsm.experiments.parts import build_engine

    found = diagnose(build_engine(plugins, resolved.settings))
    if json:
        print_json(found)
    else:
        _show(found)


def _show(found: Diagnosis) -> None:
    from rich.table import Table

    console = out()
    facts = Table(box=None, show_header=False, pad_edge=False)
    lanes = " > ".join(str(width) for width in found.lanes) + (" as runs end" if len(found.lanes) > 1 else "")
    for name, value in (
        ("weights", f"{found.weights:,}"),
        ("compiled", f"{found.compile}: {found.why}"),
        ("evaluation", found.evaluation),
        ("runs at once", f"{found.runs_at_once}, in batches of {lanes}"),
        ("mutation", found.operator),
        ("sensitivities", found.sensitivities),
        ("memory", f"{found.memory_mib:,.1f} MiB for populations and what is kept with them"),
        ("cores", str(found.cores)),
    ):
        facts.add_row(name, value)
    console.print(facts)
    layers = Table("layer", "class", "runs", "gradients of single experiences", box=None, pad_edge=False)
    for layer in found.layers:
        layers.add_row(layer.name, layer.kind, layer.way, layer.per_experience)
    console.print()
    console.print(layers)
    console.print()
    if found.note:
        console.print(f"note: {found.note}", soft_wrap=True)
    for line in found.slow or ("nothing falls back to a slow path",):
        console.print(line if not found.slow else f"slow: {line}", soft_wrap=True)
