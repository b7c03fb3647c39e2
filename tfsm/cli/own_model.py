"""What the commands for a user's own model take, and how they open it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from tfsm.cli.complete import complete_parts

if TYPE_CHECKING:
    import keras

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
    from tfsm.models.experience_file import read_experience
    from tfsm.models.names import check_name

    check_name(model, trust=trust)
    inputs = read_experience(experience)
    from tfsm.cli.tensorflow import import_quietly

    import_quietly()
    from tfsm.models.named import named_model

    return named_model(model, trust=trust), inputs
