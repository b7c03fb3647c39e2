"""Load_model, package.module:function, custom layers."""

from __future__ import annotations

import hashlib
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
from keras import ops

from tfsm.errors import TfsmError, suggestion
from tfsm.models.genome import check_model
from tfsm.models.names import check_model_file, is_builder, summarize_error
from tfsm.models.safe_loading import check_config, check_size, read_archive


def load_model(path: str | Path, *, trust: bool = False) -> keras.Model:
    """Load a `.keras` file, refusing whatever could do harm, and check that there is something to mutate.

    Args:
        path: the file.
        trust: load it whatever is in it, a legacy `.h5` file too: code in it is run.
    """
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
    """Load a model file, or build a model.

    Args:
        name: a `.keras` file, or `package.module:function`; modules in the working directory are found.
        trust: load a file whatever is in it.
    """
    if not is_builder(name):
        return load_model(name, trust=trust)
    build = _find_builder(name)
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
    """Say which model this is, so that it can be told later whether it is still the same."""
    if is_builder(name):
        return name
    with Path(name).open("rb") as file:
        return f"{name}, sha256 {hashlib.file_digest(file, 'sha256').hexdigest()}"


def _find_builder(name: str) -> Callable[[], Any]:
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


@keras.saving.register_keras_serializable("tfsm")
class DualBiasLSTMCell(keras.layers.LSTMCell):
    """An LSTM cell with two bias vectors, as cuDNN and PyTorch have it: one more than Keras has, to no other effect.

    For `keras.layers.RNN(DualBiasLSTMCell(units))`.
    """

    def build(self, input_shape: Any) -> None:
        """Make the variables."""
        super().build(input_shape)
        self.recurrent_bias = self.add_weight(
            shape=(4 * self.units,), initializer="zeros", name="recurrent_bias", regularizer=None
        )

    def call(self, inputs: Any, states: Any, training: bool = False) -> Any:
        """Return the output and the next state; dropout is not supported."""
        hidden, carry = states
        z = ops.matmul(inputs, self.kernel) + ops.matmul(hidden, self.recurrent_kernel)
        i, f, c, o = ops.split(z + self.bias + self.recurrent_bias, 4, axis=-1)
        i, f, o = (self.recurrent_activation(gate) for gate in (i, f, o))
        carry = f * carry + i * self.activation(c)
        hidden = o * self.activation(carry)
        return hidden, [hidden, carry]
