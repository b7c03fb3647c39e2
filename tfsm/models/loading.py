"""Models from files."""

from __future__ import annotations

from pathlib import Path

import keras

from tfsm.errors import TfsmError
from tfsm.models.genome import check_model


def load_model(path: str | Path) -> keras.Model:
    """Load a `.keras` file, refusing code in it, and check that there is something to mutate.

    Args:
        path: the file.
    """
    file = Path(path)
    if file.suffix != ".keras":
        raise TfsmError(f"{file}: expected a .keras file")
    if not file.is_file():
        raise TfsmError(f"{file}: {'is a directory' if file.is_dir() else 'no such file'}")
    try:
        model = keras.models.load_model(file, compile=False, safe_mode=True)
    except Exception as error:
        reason = " ".join(str(error).split())
        raise TfsmError(f"{file}: cannot load the model: {reason}") from error
    check_model(model)
    return model
