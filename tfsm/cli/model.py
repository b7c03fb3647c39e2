"""Mutate, sensitivity."""

from __future__ import annotations

import warnings
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from tfsm.cli.common import Layers, Trust, complete_parts, context, import_for, out, print_json, say
from tfsm.cli.common import out as stdout
from tfsm.errors import TfsmError
from tfsm.utils.atomic import atomic_write

if TYPE_CHECKING:
    from collections.abc import Sequence

    import keras

    from tfsm.analysis.robustness import SensitivitySummary
    from tfsm.plugins.registry import Entry


Model: TypeAlias = Annotated[
    str,
    typer.Argument(metavar="MODEL", help="The model: a .keras file, or package.module:function that builds one."),
]
Experience: TypeAlias = Annotated[
    Path,
    typer.Option(
        metavar="FILE",
        help="Inputs that the model saw: a .npy file of [N, ...], or a .npz file with one array for each input.",
    ),
]
Mutation: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="The operator; `tfsm mutations` lists them.",
        autocompletion=complete_parts("mutation"),
    ),
]


def opened(model: str, experience: Path, *, trust: bool) -> tuple[keras.Model, Any]:
    """Return the model and the experience; what is wrong with the files is told before TensorFlow has started."""
    from tfsm.models.inputs import read_experience
    from tfsm.models.names import check_model_name

    check_model_name(model, trust=trust)
    inputs = read_experience(experience)
    from tfsm.utils.tf_startup import import_tensorflow

    import_tensorflow()
    from tfsm.models.loading import load_or_build_model

    return load_or_build_model(model, trust=trust), inputs


MOST: Final = 100_000
"""Children of one command: files in one folder."""


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
    from tfsm.models.names import parse_patterns

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
    from tfsm.plugins.options import validate
    from tfsm.settings.sources import parse_assignments

    given = {assignment.key.removeprefix("mutation."): assignment.value for assignment in parse_assignments(sets)}
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
        from tfsm.utils.optional import optional

        optional("matplotlib", extra="plot", purpose="a histogram")
        from tfsm.report.plots import check_plot_path

        check_plot_path(plot)
    parent, inputs = opened(model, experience, trust=trust_model)
    from tfsm import api
    from tfsm.analysis.robustness import FLOOR, summarize_sensitivity
    from tfsm.models.genome import find_sections

    values = api.sensitivity(parent, inputs, mutation)
    layers = {section.name: section.of(values) for section in find_sections(parent)}
    overall = summarize_sensitivity("all layers", values)
    rows = [summarize_sensitivity(name, own) for name, own in layers.items()]
    if plot is not None:
        from tfsm.report.plots import save_sensitivity

        save_sensitivity(plot, mutation, layers if by_layer else {overall.name: values}, FLOOR)
        say(f"wrote {plot}")
    if json:
        print_json({"model": model, "mutation": mutation, "whole": overall, "layers": rows})
    else:
        _show_sensitivity([*rows, overall] if by_layer else [overall])


def _show_sensitivity(rows: Sequence[SensitivitySummary]) -> None:
    from rich.table import Table

    from tfsm.analysis.robustness import FLOOR
    from tfsm.report.formatting import format_number, format_percent, replace_unprintable

    table = Table("layer", box=None, pad_edge=False)
    for title in ("weights", "median", "5%", "95%", "at 0", f"below {FLOOR:g}"):
        table.add_column(title, justify="right")
    for row in rows:
        table.add_row(
            replace_unprintable(row.name),
            f"{row.weights:,}",
            *map(format_number, (row.median, row.low, row.high)),
            format_percent(row.zero),
            format_percent(row.floored),
        )
    out().print(table)


def child_files(out: Path, count: int) -> list[Path]:
    """Return where children go: one to the file itself, several to files with numbers; an error if one is there.

    Args:
        out: a `.keras` file.
        count: how many children.
    """
    if out.suffix != ".keras":
        raise TfsmError(f"{out}: a child is saved as a .keras file")
    if not out.parent.is_dir():
        raise TfsmError(f"{out}: there is no directory {str(out.parent)!r}")
    digits = len(str(count - 1))
    files = [out] if count == 1 else [out.with_name(f"{out.stem}-{i:0{digits}d}.keras") for i in range(count)]
    for file in files:
        # A link that leads nowhere would be replaced as well.
        if file.exists() or file.is_symlink():
            raise TfsmError(f"{file}: already there, and never overwritten: choose another --out")
    return files


def save_child(child: Any, file: Path) -> None:
    """Save a Keras model, so that nobody sees half of it."""
    try:
        with atomic_write(file) as draft:
            child.save(draft)
    except OSError as error:
        raise TfsmError(f"{file}: cannot be written: {error.strerror or error}") from None
