"""Populations for tests of selection schemes."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tfsm.abilities import Candidate, Population, SelectionContext
from tfsm.kernels.random import fold_in, root_seed
from tfsm.plugins import load_plugins
from tfsm.plugins.registry import build_part


def build_scheme(name: str, **options: Any) -> Any:
    return build_part(load_plugins().selections[name], options)


def seeds(count: int, first: int = 0) -> tf.Tensor:
    return fold_in(root_seed(3), first + tf.range(count))


def make_context(
    population: int, behavior: int = 2, cases: int = 0, bounds: tuple[tuple[float, float], ...] | None = None
) -> SelectionContext:
    return SelectionContext("Somewhere", population, behavior, cases, bounds)


def make_population(part: Any, fitness: Any, behavior: Any = None, cases: Any = None, **context: Any) -> Population:
    """Return populations `[B, N]` with the initial state of a scheme."""
    fitness = np.asarray(fitness, np.float32)
    lanes, number = fitness.shape
    behavior = np.zeros([lanes, number, 2]) if behavior is None else np.asarray(behavior)
    cases = np.zeros([lanes, number, 0]) if cases is None else np.asarray(cases)
    state = part.init(make_context(number, behavior.shape[-1], cases.shape[-1], **context))
    wide = tf.nest.map_structure(lambda x: tf.repeat(tf.convert_to_tensor(x)[None], lanes, axis=0), state)
    return Population(tf.constant(fitness), tf.constant(behavior, tf.float32), tf.constant(cases, tf.float32), wide)


def make_candidate(fitness: Any, behavior: Any = None, slot: Any = 0, cases: int = 0) -> Candidate:
    """Return candidates `[B]`."""
    fitness = np.atleast_1d(np.asarray(fitness, np.float32))
    behavior = np.zeros([len(fitness), 2]) if behavior is None else np.asarray(behavior)
    slots = np.broadcast_to(slot, fitness.shape)
    return Candidate(
        tf.constant(fitness),
        tf.constant(behavior, tf.float32),
        tf.zeros([len(fitness), cases]),
        tf.constant(slots, tf.int32),
    )


def apply_admission(population: Population, candidate: Candidate, admission: Any) -> Population:
    """Put accepted candidates in their slots, as the engine does."""
    fitness, behavior = population.fitness.numpy(), population.behavior.numpy()
    for b in range(len(fitness)):
        if bool(admission.accepted[b]) and np.isfinite(candidate.fitness[b]):
            place = int(admission.slot[b])
            fitness[b, place], behavior[b, place] = candidate.fitness[b], candidate.behavior[b]
    return population._replace(fitness=tf.constant(fitness), behavior=tf.constant(behavior), state=admission.state)
