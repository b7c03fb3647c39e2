"""The operators as building blocks for other libraries: pure functions from NumPy arrays to NumPy arrays.

A genome is a vector `[P]`: the trainable weights of a Keras model, as `tfsm.flatten` orders them. `B` genomes of one
model are an array `[B, P]`. The model says the architecture only: its own weights are neither used nor changed.
"""

from __future__ import annotations

from tfsm.functional.functions import divergence, initial, mutate, outputs, sensitivity
from tfsm.functional.streams import streams

__all__ = ["divergence", "initial", "mutate", "outputs", "sensitivity", "streams"]
