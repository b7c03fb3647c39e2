"""`tfsm sensitivity`: which weights of a user's own model the outputs depend on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tfsm.cli.arguments import Trust
from tfsm.cli.console import out, print_json, say
from tfsm.cli.context import context
from tfsm.cli.own_model import Experience, Model, Mutation, opened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfsm.experiments.sensitivities import Spread


def sensitivity(
    ctx: typer.Context,
    model: Model,
    experience: Experience,
    mutation: Mutation = "sm-g-sum",
    by_layer: Annotated[bool, typer.Option("--by-layer", help="One row and one histogram for each layer.")] = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Save a histogram as .png or .svg; needs the extra `plot`.")
    ] = None,
    trust_model: Trust = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Tell how sensitive a model's outputs are to its weights, before any guard of the operators."""
    context(ctx).plugins().mutations[mutation]
    if plot is not None:
        from tfsm.extras import optional

        optional("matplotlib", extra="plot", purpose="a histogram")
        from tfsm.experiments.report.figures.sensitivity import check_plot

        check_plot(plot)
    parent, inputs = opened(model, experience, trust=trust_model)
    from tfsm import api
    from tfsm.experiments.sensitivities import spread
    from tfsm.models.sections import sections

    values = api.sensitivity(parent, inputs, mutation)
    layers = {section.name: section.of(values) for section in sections(parent)}
    whole = spread("all layers", values)
    rows = [spread(name, own) for name, own in layers.items()]
    if plot is not None:
        from tfsm.experiments.report.figures.sensitivity import save_sensitivity

        save_sensitivity(plot, mutation, layers if by_layer else {whole.name: values})
        say(f"wrote {plot}")
    if json:
        print_json({"model": model, "mutation": mutation, "whole": whole, "layers": rows})
    else:
        _show([*rows, whole] if by_layer else [whole])


def _show(rows: Sequence[Spread]) -> None:
    from rich.table import Table

    from tfsm.experiments.report.words import number, percent, printable
    from tfsm.experiments.sensitivities import FLOOR

    table = Table("layer", box=None, pad_edge=False)
    for title in ("weights", "median", "5%", "95%", "at 0", f"below {FLOOR:g}"):
        table.add_column(title, justify="right")
    for row in rows:
        table.add_row(
            printable(row.name),
            f"{row.weights:,}",
            *map(number, (row.median, row.low, row.high)),
            percent(row.zero),
            percent(row.floored),
        )
    out().print(table)
