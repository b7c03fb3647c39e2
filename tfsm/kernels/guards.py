"""The guards between a sensitivity and a perturbation."""

from __future__ import annotations

import tensorflow as tf

from tfsm.contracts import Tensor


def bounded(sensitivity: Tensor, zero: float, floor: float) -> Tensor:
    """Return the sensitivity with zeros replaced by `zero`, then nothing below `floor`."""
    replaced = tf.where(sensitivity == 0, tf.constant(zero, sensitivity.dtype), sensitivity)
    return tf.maximum(replaced, floor)


def clipped(change: Tensor, most: float | None) -> Tensor:
    """Return a perturbation in which no weight changes by more than `most`."""
    return change if most is None else tf.clip_by_value(change, -most, most)
