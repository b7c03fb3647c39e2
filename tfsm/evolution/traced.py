"""A compiled function for each shape of its arguments, traced once and then called without looking again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfsm.contracts import Tensor


class Traced:
    """Like `tf.function`, for a function of tensors whose shapes seldom change.

    Every engine has functions of its own, so that TensorFlow, which counts by the line of code, would warn of retracing
    where there is none.

    Args:
        function: a function of tensors.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = tf.function(function, autograph=False)
        self._concrete: dict[tuple[Any, ...], Any] = {}

    @property
    def traces(self) -> int:
        """How often the function was traced."""
        return int(self._function.experimental_get_tracing_count())

    def __call__(self, *tensors: Tensor) -> Any:
        """Call it, tracing first where these shapes are new."""
        key = tuple((tuple(tensor.shape), tensor.dtype) for tensor in tensors)
        if key not in self._concrete:
            specs = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in tensors]
            self._concrete[key] = self._function.get_concrete_function(*specs)
        return self._concrete[key](*tensors)
