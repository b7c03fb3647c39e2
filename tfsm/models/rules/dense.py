"""Rules for layers that are one product: Dense, EinsumDense, Embedding."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfsm.contracts import Tensor
from tfsm.models.folding import call_folded
from tfsm.models.weights import Weights


def why_not_dense(layer: Any) -> str | None:
    """Name what keeps a layer from its rule, or None."""
    if getattr(layer, "lora_enabled", False):
        return "LoRA is enabled"
    if getattr(layer, "quantization_mode", None) is not None:
        return "the layer is quantized"
    return None


def why_not_embedding(layer: Any) -> str | None:
    """Name what keeps an embedding from its rule, or None."""
    return "it makes a mask" if layer.mask_zero else why_not_dense(layer)


def activated(layer: Any, z: Tensor, name: str = "activation") -> Tensor:
    """Apply a layer's activation, which sees examples only."""
    activation = getattr(layer, name)
    # The shape is said again: how many examples there are is lost where the number of genomes is not known.
    return z if activation is None else tf.ensure_shape(call_folded(activation, (z,)), z.shape)


def dense(layer: Any, weights: Weights, x: Tensor) -> Tensor:
    """Run a Dense layer."""
    dtype = layer.compute_dtype
    z, _ = weights.linear(tf.cast(x, dtype), layer.kernel, layer.bias if layer.use_bias else None, dtype)
    return activated(layer, z)


def einsum_dense(layer: Any, weights: Weights, x: Tensor) -> Tensor:
    """Run an EinsumDense layer: its own equation, with a letter more for the genomes."""
    dtype = layer.compute_dtype
    kernel = weights.wide(weights.of(layer.kernel, dtype))
    inputs, result = layer.equation.replace(" ", "").split("->")
    left, right = inputs.split(",")
    lane = next(letter for letter in "ZYXWVU" if letter not in layer.equation)
    z = tf.einsum(f"{lane}{left},{lane}{right}->{lane}{result}", weights.wide(tf.cast(x, dtype)), kernel)
    if layer.bias is not None:
        bias = weights.of(layer.bias, dtype)
        missing = z.shape.rank - bias.shape.rank
        z = z + tf.reshape(bias, [bias.shape[0] or -1, *[1] * missing, *bias.shape[1:]])
    return activated(layer, z)


def embedding(layer: Any, weights: Weights, x: Tensor) -> Tensor:
    """Run an Embedding layer."""
    table = weights.wide(weights.of(layer.embeddings, layer.compute_dtype))
    return tf.gather(table, tf.cast(weights.wide(x), tf.int32), batch_dims=1)
