"""A model by its name: a file, or a function that builds one."""

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
from tfsm.models.loading import load_model
from tfsm.models.names import is_builder


def named_model(name: str, *, trust: bool = False) -> keras.Model:
    """Load a model file, or build a model.

    Args:
        name: a `.keras` file, or `package.module:function`; modules in the working directory are found.
        trust: load a file whatever is in it.
    """
    if not is_builder(name):
        return load_model(name, trust=trust)
    build = _builder(name)
    try:
        model = build()
    except Exception as error:
        raise TfsmError(f"{name} failed: {type(error).__name__}: {error}") from error
    try:
        check_model(model)
    except TfsmError as error:
        raise TfsmError(f"{name}: {error}") from None
    return model


def described(name: str) -> str:
    """Say which model this is, so that it can be told later whether it is still the same."""
    if is_builder(name):
        return name
    with Path(name).open("rb") as file:
        return f"{name}, sha256 {hashlib.file_digest(file, 'sha256').hexdigest()}"


def _builder(name: str) -> Callable[[], Any]:
    module_name, _, path = name.partition(":")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # as `python -m` has it
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
        raise TfsmError(f"{name}: expected a function that builds a model, got {type(found).__name__}")
    build: Callable[[], Any] = found
    return build
