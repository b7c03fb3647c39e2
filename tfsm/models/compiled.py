"""Parts of a network that XLA compiles while the rest of it runs as a plain graph.

What XLA keeps of a loop for its backward pass cannot leave XLA, so that TensorFlow cannot differentiate a compiled loop
by itself. Here the backward pass is a compiled function of its own, which runs the loop again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

from tfsm.contracts import Tensor

Function = Callable[..., Sequence[Tensor]]
"""From tensors to tensors, all of them floating-point numbers, with nothing else that a gradient should reach."""


def compiled(function: Function, first: int | None = None) -> Function:
    """Return a function compiled by XLA that can be differentiated as often as the function itself.

    Args:
        function: the function.
        first: gradients of so many first arguments are computed together, and those of the others apart from them, so
            that neither is where nobody asks for it; all together unless given.
    """
    run = tf.function(function, jit_compile=True, autograph=False)
    backward: list[Function] = []

    @tf.custom_gradient
    def call(*given: Tensor) -> tuple[list[Tensor], Callable[..., list[Tensor]]]:
        def gradient(*cotangents: Tensor) -> list[Tensor]:
            if not backward:  # once for all cotangents, so that it is compiled once
                count = len(given)
                groups = [slice(0, count)] if first is None else [slice(0, first), slice(first, count)]
                backward.extend(_pullback(function, count, group) for group in groups)
            found = [gradient for part in backward for gradient in part(*given, *cotangents)]
            return [tf.ensure_shape(gradient, own.shape) for gradient, own in zip(found, given, strict=True)]

        return list(run(*given)), gradient

    # As a function of its own: else a tape would look inside, and want from XLA what cannot leave it.
    return tf.function(call, autograph=False)


def _pullback(function: Function, count: int, group: slice) -> Function:
    """Return the function from `count` arguments and the outputs' cotangents to the gradients of a group of them."""

    def pulled(*given: Tensor) -> Sequence[Tensor]:
        arguments, cotangents = list(given[:count]), list(given[count:])
        with tf.GradientTape() as tape:
            tape.watch(arguments[group])
            outputs = list(function(*arguments))
        found: Sequence[Tensor] = tape.gradient(
            outputs, arguments[group], output_gradients=cotangents, unconnected_gradients="zero"
        )
        return found

    return compiled(pulled, first=count)
