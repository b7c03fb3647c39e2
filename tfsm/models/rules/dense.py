"""Rules for Dense, EinsumDense, Embedding, the normalization layers and PReLU."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from tfsm.interfaces import Tensor
from tfsm.models.weights import Weights, accepts_training, call_folded


def explain_unsupported(layer: Any) -> str | None:
    """Return why a Dense or similar layer is not supported, or None."""
    if getattr(layer, "lora_enabled", False):
        return "LoRA is enabled"
    if getattr(layer, "quantization_mode", None) is not None:
        return "the layer is quantized"
    return None


def explain_unsupported_embedding(layer: Any) -> str | None:
    """Return why an Embedding is not supported, or None."""
    return "it makes a mask" if layer.mask_zero else explain_unsupported(layer)


def apply_activation(layer: Any, z: Tensor, name: str = "activation") -> Tensor:
    """Apply a layer's activation, a function of examples without a genome axis."""
    activation = getattr(layer, name)
    # The number of examples is lost if the number of genomes is unknown, so state the shape again.
    return z if activation is None else tf.ensure_shape(call_folded(activation, (z,)), z.shape)


def dense(layer: Any, weights: Weights, x: Tensor) -> Tensor:
    """Run a Dense layer."""
    dtype = layer.compute_dtype
    z, _ = weights.linear(tf.cast(x, dtype), layer.kernel, layer.bias if layer.use_bias else None, dtype)
    return apply_activation(layer, z)


def einsum_dense(layer: Any, weights: Weights, x: Tensor) -> Tensor:
    """Run an EinsumDense layer by its own equation, with one more letter for the genomes."""
    dtype = layer.compute_dtype
    kernel = weights.widen(weights.of(layer.kernel, dtype))
    inputs, result = layer.equation.replace(" ", "").split("->")
    left, right = inputs.split(",")
    lane = next(letter for letter in "ZYXWVU" if letter not in layer.equation)
    z = tf.einsum(f"{lane}{left},{lane}{right}->{lane}{result}", weights.widen(tf.cast(x, dtype)), kernel)
    if layer.bias is not None:
        bias = weights.of(layer.bias, dtype)
        missing = z.shape.rank - bias.shape.rank
        z = z + tf.reshape(bias, [bias.shape[0] or -1, *[1] * missing, *bias.shape[1:]])
    return apply_activation(layer, z)


def embedding(layer: Any, weights: Weights, x: Tensor) -> Tensor:
    """Run an Embedding layer."""
    table = weights.widen(weights.of(layer.embeddings, layer.compute_dtype))
    return tf.gather(table, tf.cast(weights.widen(x), tf.int32), batch_dims=1)


def explain_unsupported_normalization(layer: Any) -> str | None:
    """Return why a normalization layer is not supported, or None."""
    rank = len(layer.get_build_config()["input_shape"])
    axes = sorted(axis % rank for axis in tf.nest.flatten(layer.axis))
    return None if axes == list(range(rank - len(axes), rank)) else "it normalizes other axes than the last"


def explain_unsupported_prelu(layer: Any) -> str | None:
    """Return why a PReLU is not supported, or None."""
    sizes = list(layer.alpha.shape)
    while sizes and sizes[0] == 1:
        sizes.pop(0)
    behind = range(len(layer.alpha.shape) - len(sizes) + 1, len(layer.alpha.shape) + 1)
    return "it shares weights along other axes than the first" if set(behind) & set(layer.shared_axes or ()) else None


def normalization(layer: Any, weights: Weights, x: Tensor) -> Tensor:
    """Run a Batch-, Layer-, Group- or RMSNormalization layer, as in inference."""
    scale, offset = _scale_variable(layer), getattr(layer, "beta", None)
    weightless = {id(scale): tf.ones, id(offset): tf.zeros}

    def neutral(variable: Any) -> Tensor:
        # Run the layer's own arithmetic with neutral weights; the weights of the genomes are applied afterwards.
        fill = weightless.get(id(variable))
        return tf.convert_to_tensor(variable.value) if fill is None else fill(variable.shape, variable.dtype)

    kinds = [[neutral(v) for v in kind] for kind in (layer.trainable_variables, layer.non_trainable_variables)]
    training = {"training": False} if accepts_training(layer.call) else {}
    normal = call_folded(lambda examples: layer.stateless_call(*kinds, examples, **training)[0], (x,))
    return _shift_by(weights, _scale_by(weights, normal, scale), offset)


def prelu(layer: Any, weights: Weights, x: Tensor) -> Tensor:
    """Run a PReLU layer."""
    x = tf.cast(x, layer.compute_dtype)
    return tf.nn.relu(x) + _scale_by(weights, -tf.nn.relu(-x), layer.alpha)


def _scale_variable(layer: Any) -> Any:
    gamma = getattr(layer, "gamma", None)
    # RMSNormalization calls it `scale`, which in the other layers is a switch.
    return layer.scale if gamma is None and hasattr(layer.scale, "shape") else gamma


def _scale_by(weights: Weights, x: Tensor, scale: Any) -> Tensor:
    """Multiply x `[B, N, ...]` by a variable with the shape of its last axes."""
    if scale is None:
        return x
    flat = _flatten_positions(weights, x, scale)
    s = _at_one_position(weights.of(scale, x.dtype))
    # A delta per position on the factor: its gradients add up to that of the factor, like those of a bias.
    return tf.reshape(flat * (s + _zero_delta(weights, flat, scale)), _shape(flat, x))


def _shift_by(weights: Weights, x: Tensor, offset: Any) -> Tensor:
    """Add a variable with the shape of its last axes to x `[B, N, ...]`."""
    if offset is None:
        return x
    flat = _flatten_positions(weights, x, offset)
    b = _at_one_position(weights.of(offset, x.dtype))
    return tf.reshape(flat + b + _zero_delta(weights, flat, offset), _shape(flat, x))


def _flatten_positions(weights: Weights, x: Tensor, variable: Any) -> Tensor:
    """Return x as `[B, N, M, size]`, where the last axis is that of the variable."""
    lanes, examples = (x.shape[i] if x.shape[i] is not None else tf.shape(x)[i] for i in range(2))
    return weights.widen(tf.reshape(x, [lanes, examples, -1, math.prod(variable.shape)]))


def _at_one_position(value: Tensor) -> Tensor:
    return tf.reshape(value, [value.shape[0] or tf.shape(value)[0], 1, 1, math.prod(value.shape[1:])])


def _zero_delta(weights: Weights, flat: Tensor, variable: Any) -> Tensor | float:
    if weights.per_example is None:
        return 0.0
    delta, number = weights.per_example.delta(flat)
    weights.per_example.record(variable, None, number)
    return delta


def _shape(flat: Tensor, x: Tensor) -> list[Any]:
    dynamic = tf.shape(x)
    sizes = [x.shape[i] if x.shape[i] is not None else dynamic[i] for i in range(1, x.shape.rank)]
    return [flat.shape[0] or tf.shape(flat)[0], *sizes]
