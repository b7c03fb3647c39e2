"""What the commands for a user's own model take, and how they open it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from tfsm.cli.complete import complete_parts

if TYPE_CHECKING:
    import keras

Model: TypeAlias = Annotated[Path, typer.Argument(metavar="MODEL.keras", help="The model.")]
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
Trust: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--trust-model", help="Load the model whatever is in it, a legacy .h5 file too: code in the file is run."
    ),
]


def opened(model: Path, experience: Path, *, trust: bool) -> tuple[keras.Model, Any]:
    """Return the model and the experience; what is wrong with the files is told before TensorFlow has started."""
    from tfsm.models.experience_file import read_experience
    from tfsm.models.untrusted.kind import check_kind

    check_kind(model, trust)
    inputs = read_experience(experience)
    from tfsm.cli.tensorflow import import_quietly

    import_quietly()
    from tfsm.api import load_model

    return load_model(model, trust=trust), inputs
