"""Loads a model from a file, or builds it by calling `package.module:function`."""

from __future__ import annotations

import hashlib
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras

from tfsm.errors import TfsmError, suggestion
from tfsm.models.genome import check_model
from tfsm.models.names import check_model_file, is_builder, summarize_error
from tfsm.models.rules.recurrent import DualBiasLSTMCell  # noqa: F401  # registers it with Keras


def load_model(path: str | Path, *, trust: bool = False) -> keras.Model:
    """Load a `.keras` file. Files that could do harm, or that have nothing to mutate, are refused.

    Args:
        path: the file.
        trust: load the file whatever it contains, also a legacy `.h5` file; code in it runs.

    >>> import keras, tfsm
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    >>> model.save("model.keras")
    >>> bool((tfsm.flatten(tfsm.load_model("model.keras")) == tfsm.flatten(model)).all())
    True
    """
    from tfsm.models.safe_loading import check_config, read_archive

    file = Path(path)
    check_model_file(file, trust)
    try:
        if not trust:
            config = read_archive(file)
            check_config(config)
            _check_memory(config)
        model = _load(file, trust)
    except TfsmError as error:
        raise TfsmError(f"{file}: {error}") from error.__cause__
    check_model(model)
    return model


def _check_memory(config: dict[str, Any]) -> None:
    from tfsm.models.safe_loading import check_size

    try:
        check_size(config | {"compile_config": None})
    except TfsmError:
        raise
    except Exception as error:
        raise TfsmError(f"cannot load the model: {summarize_error(error)}") from error


def _load(file: Path, trust: bool) -> keras.Model:
    try:
        return keras.models.load_model(file, compile=False, safe_mode=not trust)
    except Exception as error:
        raise TfsmError(f"cannot load the model: {summarize_error(error)}") from error


def load_or_build_model(name: str, *, trust: bool = False) -> keras.Model:
    """Load a model from a file, or build it by calling a function.

    Args:
        name: a `.keras` file, or `package.module:function`; modules in the working directory are found.
        trust: load a file whatever it contains.
    """
    if not is_builder(name):
        return load_model(name, trust=trust)
    build = import_function(name, "a function that builds a model")
    try:
        model = build()
    except Exception as error:
        raise TfsmError(f"{name} failed: {type(error).__name__}: {error}") from error
    try:
        check_model(model)
    except TfsmError as error:
        raise TfsmError(f"{name}: {error}") from None
    return model


def describe_model(name: str) -> str:
    """Return a description that changes if the model does: its name, and for a file the hash of its content."""
    if is_builder(name):
        return name
    with Path(name).open("rb") as file:
        return f"{name}, sha256 {hashlib.file_digest(file, 'sha256').hexdigest()}"


def import_function(name: str, expected: str = "a function") -> Callable[..., Any]:
    """Import the function `package.module:function`; modules in the working directory are found.

    Args:
        name: the module and the function.
        expected: a description of the function, for the message if it is something else.
    """
    module_name, _, path = name.partition(":")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # like `python -m`
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = f"there is no module {error.name!r}"
        where = "" if error.name and module_name.startswith(error.name) else f"; {module_name} imports it"
        raise TfsmError(f"{name}: {missing}{where}") from error
    except Exception as error:
        raise TfsmError(f"{name}: cannot import {module_name}: {type(error).__name__}: {error}") from error
    for part in path.split("."):
        if not hasattr(found, part):
            known = [key for key, value in vars(found).items() if callable(value) and not key.startswith("_")]
            raise TfsmError(f"{name}: {module_name} has no {path!r}{suggestion(path, known)}")
        found = getattr(found, part)
    if not callable(found):
        raise TfsmError(f"{name}: expected {expected}, got {type(found).__name__}")
    function: Callable[..., Any] = found
    return function
