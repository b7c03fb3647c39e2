"""Checks whether a model fits a domain, and whether it is differentiable."""

from __future__ import annotations

from textwrap import shorten
from typing import Any, Final

import keras
import tensorflow as tf

from tfsm.errors import TfsmError
from tfsm.interfaces import Nest, Tensor
from tfsm.models.network import Network

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
