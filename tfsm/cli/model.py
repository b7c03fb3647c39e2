"""`tfsm mutate` and `tfsm sensitivity`: the operators on a model of your own."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from tfsm.cli.common import get_plugins, import_tensorflow_for, make_console, print_json, print_message
from tfsm.cli.options import DEFAULT_MUTATION, EXPERIMENT, MODEL, OUTPUT, SharedOptions, complete_parts, shared_options
from tfsm.cli.progress import show_progress, show_steps
from tfsm.errors import TfsmError
from tfsm.utils.files import atomic_write
from tfsm.utils.tf_startup import import_tensorflow

if TYPE_CHECKING:
    from collections.abc import Sequence

    import keras

    from tfsm.analysis.robustness import SensitivitySummary
    from tfsm.plugins.registry import Entry


MAX_CHILDREN: Final = 100_000
"""Children per command: files in one folder."""

ModelArgument: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="Model: a .keras file, or package.module:function that builds one", rich_help_panel=MODEL
    ),
]
ExperienceFile: TypeAlias = Annotated[
    Path,
    typer.Option(
        metavar="FILE",
        help="Inputs that the model has seen: a .npy file of shape [N, ...], or a .npz file with one array per input",
        rich_help_panel=MODEL,
    ),
]
DefaultMutation: TypeAlias = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Mutation operator; see `tfsm mutations`",
        autocompletion=complete_parts("mutation"),
        rich_help_panel=EXPERIMENT,
    ),
]


@shared_options("divergence", "layers", "trust_model", "json", "quiet")
def mutate(
    ctx: typer.Context,
    model: ModelArgument,
    experience: ExperienceFile,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="CHILD.keras",
            help="Output file; several children become CHILD-0.keras and so on  [default: MODEL-child.keras, here]",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    mutation: DefaultMutation = DEFAULT_MUTATION,
    intensity: Annotated[
        float | None,
        typer.Option(
            metavar="S",
            help="Standard deviation of the noise; for sm-r, the divergence  [default: none, but --divergence 1%]",
            rich_help_panel=EXPERIMENT,
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, help="Random seed of the first child, then counting up", rich_help_panel=EXPERIMENT
        ),
    ] = 0,
    count: Annotated[
        int, typer.Option(metavar="N", min=1, max=MAX_CHILDREN, help="Number of children", rich_help_panel=EXPERIMENT)
    ] = 1,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Set an option of the operator; may be repeated",
            rich_help_panel=EXPERIMENT,
        ),
    ] = None,
    *,
    options: SharedOptions,
) -> None:
    """Make mutated copies of a model and show their divergence."""
    from tfsm.models.names import parse_patterns

    layers = options.layers
    entry = get_plugins(ctx).mutations[mutation]
    import_tensorflow_for(entry)
    operator_options = _parse_options(entry.with_options(), set_ or ())
    parse_patterns(layers or ())
    _check_strength(intensity, options.divergence)
    files = _child_files(out or _default_file(model), count)
    parent, inputs = _load_model_and_experience(model, experience, trust=options.trust_model)
    from tfsm import api

    children = []
    for number, file in enumerate(show_progress(files, "mutating", quiet=options.quiet)):
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always", UserWarning)
            child = api.mutate(
                parent,
                inputs,
                mutation,
                intensity,
                seed + number,
                divergence=options.divergence,
                layers=layers,
                **operator_options,
            )
        for warning in warned:
            print_message(f"warning: {file}: {warning.message}")
        divergence = api.divergence(parent, child, inputs)
        _save_child(child, file)
        children.append({"file": str(file), "seed": seed + number, "divergence": divergence})
    if options.json:
        print_json(
            {
                "model": model,
                "mutation": mutation,
                "intensity": intensity,
                "divergence": options.divergence,
                "layers": layers,
                "options": operator_options,
                "children": children,
            }
        )
    else:
        _print_children(children)


def _check_strength(intensity: float | None, divergence: str | None) -> None:
    """Raise an error for a wrong intensity or divergence, before TensorFlow starts."""
    from tfsm.plugins.options import parse_divergence

    if intensity is not None and divergence is not None:
        raise TfsmError("--intensity and --divergence exclude each other, give one of them")
    if divergence is not None:
        parse_divergence(divergence)


def _load_model_and_experience(model: str, experience: Path, *, trust: bool) -> tuple[keras.Model, Any]:
    """Load the model and the experience; a mistake in the files is reported before TensorFlow starts."""
    from tfsm.models.inputs import read_experience
    from tfsm.models.names import check_model_name

    check_model_name(model, trust=trust)
    inputs = read_experience(experience)
    import_tensorflow()
    from tfsm.models.loading import load_or_build_model

    return load_or_build_model(model, trust=trust), inputs


def _parse_options(entry: Entry, sets: Sequence[str]) -> dict[str, Any]:
    from tfsm.plugins.options import validate
    from tfsm.settings.sources import parse_assignments

    given = {assignment.key.removeprefix("mutation."): assignment.value for assignment in parse_assignments(sets)}
    if entry.options is None:
        return given
    return validate(entry.options, given, where=f"--set: mutation {entry.name!r}:")


def _print_children(children: list[dict[str, Any]]) -> None:
    from rich.table import Table

    table = Table("child", "seed", box=None, pad_edge=False)
    table.add_column("divergence", justify="right")
    for child in children:
        table.add_row(child["file"], str(child["seed"]), f"{child['divergence']:.4g}")
    make_console().print(table)


@shared_options("trust_model", "json", "quiet")
def sensitivity(
    ctx: typer.Context,
    model: ModelArgument,
    experience: ExperienceFile,
    mutation: DefaultMutation = DEFAULT_MUTATION,
    by_layer: Annotated[bool, typer.Option("--by-layer", help="One row and one histogram per layer")] = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Save a histogram as .png or .svg; needs the extra `plot`")
    ] = None,
    *,
    options: SharedOptions,
) -> None:
    """Show how sensitive a model's outputs are to its weights.

    Shows the raw sensitivities, and the share of weights that each guard acts on: `below 0.01` with an intensity (the
    paper's guard), `guarded` with a divergence (the relative guard).
    """
    get_plugins(ctx).mutations[mutation]  # an unknown name raises an error that suggests another
    if plot is not None:
        from tfsm.errors import import_optional

        import_optional("matplotlib", extra="plot", purpose="a histogram")
        from tfsm.report.plots import check_plot_path

        check_plot_path(plot)
    with show_steps("sensitivity", quiet=options.quiet) as update:
        parent, inputs = _load_model_and_experience(model, experience, trust=options.trust_model)
        from tfsm import api
        from tfsm.analysis.robustness import FLOOR, summarize_sensitivity
        from tfsm.models.genome import find_sections

        update(0, None, f"measuring by {mutation}")
        values = api.sensitivity(parent, inputs, mutation)
    layers = {section.name: section.of(values) for section in find_sections(parent)}
    overall = summarize_sensitivity("all layers", values, values)
    rows = [summarize_sensitivity(name, of_layer, values) for name, of_layer in layers.items()]
    if plot is not None:
        from tfsm.report.plots import save_sensitivity

        save_sensitivity(plot, mutation, layers if by_layer else {overall.name: values}, FLOOR)
        print_message(f"wrote {plot}")
    if options.json:
        print_json({"model": model, "mutation": mutation, "whole": overall, "layers": rows})
    else:
        _print_sensitivity([*rows, overall] if by_layer else [overall])


def _print_sensitivity(rows: Sequence[SensitivitySummary]) -> None:
    from rich.table import Table

    from tfsm.analysis.robustness import FLOOR
    from tfsm.report.formatting import format_number, format_percent, replace_unprintable

    table = Table("layer", box=None, pad_edge=False)
    for title in ("weights", "median", "5%", "95%", "at 0", f"below {FLOOR:g}", "guarded"):
        table.add_column(title, justify="right")
    for row in rows:
        table.add_row(
            replace_unprintable(row.name),
            f"{row.weights:,}",
            *map(format_number, (row.median, row.low, row.high)),
            format_percent(row.zero),
            format_percent(row.floored),
            format_percent(row.guarded),
        )
    make_console().print(table)


def _default_file(model: str) -> Path:
    """Return the file of a child in the current directory, by the name of the model's file or function."""
    name = Path(model).stem if model.endswith(".keras") else model.rpartition(":")[2]
    return Path(f"{Path(name).name}-child.keras")


def _child_files(out: Path, count: int) -> list[Path]:
    """Return a file per child: `out` itself for one, numbered files for several; none of them may exist."""
    if out.suffix != ".keras":
        raise TfsmError(f"{out}: children are saved as .keras files")
    if not out.parent.is_dir():
        raise TfsmError(f"{out}: there is no directory {str(out.parent)!r}")
    digits = len(str(count - 1))
    files = [out] if count == 1 else [out.with_name(f"{out.stem}-{i:0{digits}d}.keras") for i in range(count)]
    for file in files:
        # A dangling link would be replaced as well.
        if file.exists() or file.is_symlink():
            raise TfsmError(f"{file} already exists and is never overwritten; choose another --out")
    return files


def _save_child(child: keras.Model, file: Path) -> None:
    """Save a Keras model atomically."""
    try:
        with atomic_write(file) as temporary:
            child.save(temporary)
    except OSError as error:
        raise TfsmError(f"{file}: cannot be written: {error.strerror or error}") from None
