"""Calling selection schemes of either kind: those that know fitness only, and those that survey."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfsm.contracts import Admission, Choice, Newcomer, Population, Surroundings, Surveying, Tensor
from tfsm.evolution.mapping import chosen
from tfsm.kernels.noise import fold, uniform

BEHAVIOR, CASES = 2, 3


def choose(part: Any, fitness: Tensor, seed: Tensor) -> Choice:
    """Choose in populations `[B, N]` by seeds `[B, 2]`; all else that a scheme may see is drawn by these, too."""
    if not isinstance(part, Surveying):
        return chosen(part, fitness, seed)
    parent, replaced = part.select(_population(part, fitness, seed), seed)
    return Choice(tf.cast(parent, tf.int32), tf.cast(replaced, tf.int32))


def admit(part: Surveying, fitness: Tensor, seed: Tensor) -> tuple[Admission, Population]:
    """Offer one more individual to each population, and return what is said of it, and the populations."""
    population = _population(part, fitness, seed)
    newcomer = Newcomer(
        fitness=uniform(fold(seed, 3), 1)[:, 0],
        behavior=uniform(fold(seed, 4), BEHAVIOR),
        cases=uniform(fold(seed, 5), CASES),
        slot=choose(part, fitness, seed).replaced,
    )
    return part.admit(population, newcomer, seed), population


def _population(part: Surveying, fitness: Tensor, seed: Tensor) -> Population:
    lanes, number = fitness.shape

    def drawn(what: str, word: int, size: int) -> Tensor:
        kept = number if what in part.needs else 0
        return tf.reshape(uniform(fold(seed, word), kept * size), [lanes, kept, size])

    surroundings = Surroundings("a made-up domain", number, BEHAVIOR, CASES, ((0.0, 1.0),) * BEHAVIOR)
    memory = tf.nest.map_structure(
        lambda x: tf.repeat(tf.convert_to_tensor(x)[None], lanes, axis=0), part.memory(surroundings)
    )
    return Population(fitness, drawn("behavior", 1, BEHAVIOR), drawn("cases", 2, CASES), memory)
