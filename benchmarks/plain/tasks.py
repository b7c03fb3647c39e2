"""The tasks of tfsm's built-in domains, written out again for the plain loops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import tensorflow as tf


@dataclass(frozen=True)
class Task:
    """Inputs `[I, ...]`, and the fitness of a network from its outputs `[I, K]`."""

    inputs: np.ndarray
    fitness: Callable[[tf.Tensor], tf.Tensor]


def task_of(domain: str) -> Task | None:
    """Return the task of a domain; None for one that nobody has written out."""
    if domain == "parity":
        return _parity()
    pairs = {
        "simple-easy": [(0.0, 1.0)],
        "simple-medium": [(1.0, 1.0)],
        "simple-washout": [(1.0, 1.0), (-1.0, -1.0)],
    }.get(domain)
    return None if pairs is None else _simple(np.array(pairs, np.float32))


def _parity() -> Task:
    bits = np.array([[int(bit) for bit in f"{number:04b}"] for number in range(16)])
    right = tf.one_hot(bits.sum(axis=1) % 2, 2)

    def fitness(outputs: tf.Tensor) -> tf.Tensor:
        likelihood = tf.reduce_sum(outputs * right, axis=1)
        return tf.reduce_mean(tf.math.log(tf.maximum(likelihood, 1e-30)))

    return Task(bits[..., None].astype(np.float32), fitness)


def _simple(pairs: np.ndarray) -> Task:
    return Task(pairs, lambda outputs: -tf.reduce_mean(tf.reduce_sum(tf.square(outputs - pairs), axis=1)))
