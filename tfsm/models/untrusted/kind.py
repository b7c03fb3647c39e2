"""What kind of model a file is, by its name and before anything is imported."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tfsm.errors import TfsmError
from tfsm.models.untrusted.refusal import WAY_OUT

LEGACY: Final = (".h5", ".hdf5")


def check_kind(file: Path, trust: bool) -> None:
    """Refuse what is not a `.keras` file, or a legacy one that is trusted.

    Args:
        file: the model's file.
        trust: whether the user trusts whoever made it.
    """
    if (file / "saved_model.pb").is_file():
        raise TfsmError(
            f"{file}: a SavedModel: its graph can read and write files, and has no layers that could be mutated; "
            "load it where it was made, and save it again as .keras"
        )
    legacy = file.suffix.lower() in LEGACY
    if legacy and not trust:
        raise TfsmError(
            f"{file}: refused: a legacy HDF5 model: Keras loads it without its safe mode, so code in it would be run. "
            f"Save it again as .keras where it was made. {WAY_OUT}"
        )
    if not legacy and file.suffix != ".keras":
        raise TfsmError(f"{file}: expected a .keras file")
    if not file.is_file():
        raise TfsmError(f"{file}: {'is a directory' if file.is_dir() else 'no such file'}")
