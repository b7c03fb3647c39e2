"""Models from files, which are not trusted unless the user says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras

import tfsm.models.layers  # noqa: F401  registers our own layers, so that they are known
from tfsm.errors import TfsmError
from tfsm.models.genome import check_model
from tfsm.models.untrusted.archive import read_archive
from tfsm.models.untrusted.config import check_config
from tfsm.models.untrusted.kind import check_kind
from tfsm.models.untrusted.refusal import reason
from tfsm.models.untrusted.size import check_size


def load_model(path: str | Path, *, trust: bool = False) -> keras.Model:
    """Load a `.keras` file, refusing whatever could do harm, and check that there is something to mutate.

    Args:
        path: the file.
        trust: load it whatever is in it, a legacy `.h5` file too: code in it is run.
    """
    file = Path(path)
    check_kind(file, trust)
    try:
        if not trust:
            config = read_archive(file)
            check_config(config)
            _measure(config)
        model = _loaded(file, trust)
    except TfsmError as error:
        raise TfsmError(f"{file}: {error}") from error.__cause__
    check_model(model)
    return model


def _measure(config: dict[str, Any]) -> None:
    try:
        check_size(config | {"compile_config": None})
    except TfsmError:
        raise
    except Exception as error:
        raise TfsmError(f"cannot load the model: {reason(error)}") from error


def _loaded(file: Path, trust: bool) -> keras.Model:
    try:
        return keras.models.load_model(file, compile=False, safe_mode=not trust)
    except Exception as error:
        raise TfsmError(f"cannot load the model: {reason(error)}") from error
