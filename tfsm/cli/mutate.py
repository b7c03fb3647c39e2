"""`tfsm mutate`: children of a user's own model."""

from __future__ import annotations

import warnings
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tfsm.cli.arguments import Layers, Trust
from tfsm.cli.console import out as stdout
from tfsm.cli.console import print_json, say
from tfsm.cli.context import context
from tfsm.cli.own_model import Experience, Model, Mutation, opened
from tfsm.cli.tensorflow import import_for

MOST: Final = 100_000
"""Children of one command: files in one folder."""

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfsm.registry import Entry


def mutate(
    ctx: typer.Context,
    model: Model,
    experience: Experience,
    out: Annotated[
        Path, typer.Option(metavar="CHILD.keras", help="Where to; several children become CHILD-0.keras and so on.")
    ],
    mutation: Mutation = "sm-g-sum",
    intensity: Annotated[
        float, typer.Option(metavar="S", help="Standard deviation of the noise; for sm-r the wanted divergence.")
    ] = 0.01,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="The first child's; the next has the next.")] = 0,
    count: Annotated[int, typer.Option(metavar="N", min=1, max=MOST, help="How many children.")] = 1,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set an option of the operator.")
    ] = None,
    layers: Layers = None,
    trust_model: Trust = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Make mutated copies of a model, and tell how far their outputs are from its own."""
    from tfsm.experiments.children import child_files, save_child
    from tfsm.models.patterns import parse_patterns

    entry = context(ctx).plugins().mutations[mutation]
    import_for(entry)
    options = _options(entry.with_options(), set_ or ())
    parse_patterns(layers or ())
    files = child_files(out, count)
    parent, inputs = opened(model, experience, trust=trust_model)
    from tfsm import api

    children = []
    for number, file in enumerate(files):
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always", UserWarning)
            child = api.mutate(parent, inputs, mutation, intensity, seed + number, layers=layers, **options)
        for warning in warned:
            say(f"warning: {file}: {warning.message}")
        moved = api.divergence(parent, child, inputs)
        if not isfinite(moved):
            say(f"warning: {file}: the child's outputs are not finite: give a smaller --intensity")
        save_child(child, file)
        children.append({"file": str(file), "seed": seed + number, "divergence": moved})
    if json:
        settings = {"model": model, "mutation": mutation, "intensity": intensity, "layers": layers, "options": options}
        print_json(settings | {"children": children})
    else:
        _show(children)


def _options(entry: Entry, sets: Sequence[str]) -> dict[str, Any]:
    from tfsm.experiments.settings.assignments import parse
    from tfsm.options import validate

    given = {assignment.key.removeprefix("mutation."): assignment.value for assignment in parse(sets)}
    if entry.options is None:
        return given
    return validate(entry.options, given, where=f"--set: mutation {entry.name!r}:")


def _show(children: list[dict[str, Any]]) -> None:
    from rich.table import Table

    table = Table("child", "seed", box=None, pad_edge=False)
    table.add_column("divergence", justify="right")
    for child in children:
        table.add_row(child["file"], str(child["seed"]), f"{child['divergence']:.4g}")
    stdout().print(table)
