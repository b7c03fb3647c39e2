"""Loads or builds the user's model, and checks whether it fits a domain and is differentiable."""

from __future__ import annotations

import hashlib
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import shorten
from typing import Any, Final

import keras
import tensorflow as tf

from tfsm.errors import TfsmError, suggestion
from tfsm.interfaces import Nest, Tensor
from tfsm.models.genome import check_model
from tfsm.models.names import check_model_file, is_builder, summarize_error
from tfsm.models.network import Network
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


Shape = tuple[int | None, ...]


def check_compatible(model: keras.Model, reference: keras.Model, domain: str) -> None:
    """Raise an error if a model's input or output shapes differ from those of the domain's network.

    Args:
        model: the user's model.
        reference: the domain's network.
        domain: the domain's name, for the message.
    """
    expected = _shapes(_inputs(reference)), _shapes(_outputs(reference))
    if getattr(model, "inputs", None):
        actual = _shapes(_inputs(model)), _shapes(_outputs(model))
    else:  # the shapes of a subclassed model show when it is called
        try:
            actual = expected[0], _shapes(model.compute_output_spec(_inputs(reference)))
        except Exception as error:
            reason = shorten(str(error).strip().rpartition("\n")[2], 200, placeholder=" ...")
            raise TfsmError(
                f"the model does not fit the domain {domain!r}: it cannot take inputs "
                f"{_format_shapes(expected[0])} ({reason})"
            ) from error
    for what, given, needed in zip(("inputs", "outputs"), actual, expected, strict=True):
        if not _shapes_match(given, needed):
            raise TfsmError(
                f"the model does not fit the domain {domain!r}: its {what} are {_format_shapes(given)}, "
                f"the domain's are {_format_shapes(needed)}"
            )


def _inputs(model: keras.Model) -> Any:
    return model.inputs[0] if isinstance(model, keras.Sequential) else model.input


def _outputs(model: keras.Model) -> Any:
    return model.outputs[0] if isinstance(model, keras.Sequential) else model.output


def _shapes(tensors: Any) -> Any:
    return keras.tree.map_structure(lambda tensor: _Shape(tensor.shape), tensors)


class _Shape:
    """A shape as a leaf of a nested structure; Keras takes a tuple for a structure."""

    def __init__(self, shape: Any) -> None:
        self.dims: Shape = tuple(shape)

    def admits(self, other: _Shape) -> bool:
        # The first axis is that of the examples; None matches any size.
        pairs = zip(self.dims[1:], other.dims[1:], strict=False)
        return len(self.dims) == len(other.dims) and all(a == b or a is None or b is None for a, b in pairs)

    def __repr__(self) -> str:
        return "(" + ", ".join("N" if i == 0 else "any" if d is None else str(d) for i, d in enumerate(self.dims)) + ")"


def _shapes_match(given: Any, expected: Any) -> bool:
    first, second = keras.tree.flatten(given), keras.tree.flatten(expected)
    both_dicts = isinstance(given, dict) and isinstance(expected, dict)
    if len(first) != len(second) or (both_dicts and set(given) != set(expected)):
        return False
    return all(a.admits(b) for a, b in zip(first, second, strict=True))


def _format_shapes(shapes: Any) -> str:
    if isinstance(shapes, dict):
        return ", ".join(f"{name}: {shape}" for name, shape in shapes.items())
    return ", ".join(map(str, keras.tree.flatten(shapes)))


_layers = keras.layers
_DIFFERENTIABLE_LAYERS: Final = (
    *(_layers.Activation, _layers.Add, _layers.AveragePooling1D, _layers.AveragePooling2D, _layers.BatchNormalization),
    *(_layers.Concatenate, _layers.Conv1D, _layers.Conv2D, _layers.ConvLSTM2D, _layers.Dense, _layers.Dropout),
    *(_layers.Flatten, _layers.GlobalAveragePooling1D, _layers.GlobalAveragePooling2D, _layers.GRU, _layers.LSTM),
    *(_layers.LayerNormalization, _layers.MaxPooling1D, _layers.MaxPooling2D, _layers.PReLU, _layers.Reshape),
    *(_layers.SimpleRNN, _layers.TimeDistributed),
)
_DIFFERENTIABLE_ACTIVATIONS: Final = ("elu", "gelu", "linear", "relu", "selu", "sigmoid", "silu", "softmax", "tanh")


def is_known_differentiable(network: Network) -> bool:
    """Return whether a network has only layers and activations of Keras through which gradients certainly flow."""
    return not network.program.whole_model_reason and all(map(_lets_gradients_flow, network.program.operations()))


def _lets_gradients_flow(layer: Any) -> bool:
    if type(layer) not in _DIFFERENTIABLE_LAYERS:
        return False
    if isinstance(layer, keras.layers.TimeDistributed) and not _lets_gradients_flow(layer.layer):
        return False
    activations = (getattr(layer, name, None) for name in ("activation", "recurrent_activation"))
    return all(activation is None or _is_smooth(activation) for activation in activations)


def _is_smooth(activation: Any) -> bool:
    return any(activation is getattr(keras.activations, name) for name in _DIFFERENTIABLE_ACTIVATIONS)


def check_differentiable(network: Network, genomes: Tensor, inputs: Nest) -> None:
    """Raise an error for a network whose outputs depend on its weights although its gradient is zero.

    Args:
        network: the network.
        genomes: `[B, P]`.
        inputs: `[B, N, ...]` or `[1, N, ...]`.
    """
    rows, gradient = _gradient(network, genomes, inputs)
    if _is_nonzero(gradient):
        return
    nudged = genomes + 0.1 * tf.random.stateless_normal(genomes.shape, [0, 0], dtype=genomes.dtype)
    moved, gradient = _gradient(network, nudged, inputs)
    # A gradient of zero at one point may be bad luck, such as units that never fire; at two points it is a staircase.
    if gradient is None or (bool(tf.reduce_any(moved != rows)) and not _is_nonzero(gradient)):
        raise TfsmError(_message(network, "no gradient flows from its outputs to its weights"))


def _gradient(network: Network, genomes: Tensor, inputs: Nest) -> tuple[Tensor, Tensor | None]:
    with tf.GradientTape() as tape:
        tape.watch(genomes)
        rows = network.rows(genomes, inputs)
        # Unequal weights, so that outputs which always sum to one do not cancel.
        total = tf.reduce_sum(rows * tf.random.stateless_uniform(rows.shape, [0, 1], 0.5, 1.5, rows.dtype))
    try:
        return rows, tape.gradient(total, genomes)
    except LookupError as error:
        raise TfsmError(_message(network, f"an operation has no gradient ({error})")) from None


def _is_nonzero(gradient: Tensor | None) -> bool:
    return gradient is not None and bool(tf.reduce_any(gradient != 0))


def _message(network: Network, reason: str) -> str:
    return (
        f"the model {network.model.name!r} is not differentiable: {reason}; "
        "use the mutation 'sm-r', which needs no gradient"
    )
