"""Selection schemes of either kind, seen by the engine as one: those that know fitness only, and those that survey."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tfsm.errors import TfsmError
from tfsm.evolution.variation import choose_batch
from tfsm.interfaces import (
    Admission,
    Candidate,
    Choice,
    Domain,
    Evaluation,
    Nest,
    Population,
    Selection,
    SelectionContext,
    StatefulSelection,
    Tensor,
)

SEEN = ("behavior", "cases")
"""What a scheme may need."""


def initial_population_size(selection: Selection | StatefulSelection, population: int) -> int:
    """Return how many individuals are drawn at first."""
    return int(getattr(selection, "beginners", None) or population)


class Selector:
    """Chooses parents and lets children in.

    Args:
        selection: the scheme.
        domain: the domain, which may say what behavior is like.
        template: what an evaluation gives for one genome, as `tf.TensorSpec`s.
        population: N.
    """

    def __init__(
        self, selection: Selection | StatefulSelection, domain: Domain, template: Evaluation, population: int
    ) -> None:
        self._selection: Any = selection
        self.is_stateful = isinstance(selection, StatefulSelection)
        """Whether the scheme looks at more than fitness."""
        self.needs: frozenset[str] = (
            frozenset(selection.needs) if isinstance(selection, StatefulSelection) else frozenset()
        )
        """What is to be kept of individuals."""
        self.initial_population = initial_population_size(selection, population)
        """How many individuals are drawn at first."""
        self.memory: Nest = ()
        """What one run's memory is at first."""
        if isinstance(selection, StatefulSelection):
            self.memory = tf.nest.map_structure(tf.convert_to_tensor, self._first_memory(domain, template, population))

    def _first_memory(self, domain: Domain, template: Evaluation, population: int) -> Nest:
        name = type(self._selection).__name__
        unknown = self.needs - set(SEEN)
        if unknown:
            raise TfsmError(f"{name} needs {', '.join(sorted(unknown))}: there is only {' and '.join(SEEN)} to be had")
        cases = 0 if isinstance(template.cases, tuple) else int(template.cases.shape[-1])
        if "cases" in self.needs and not cases:
            raise TfsmError(
                f"the selection scheme {name} compares individuals case by case, and the domain "
                f"{type(domain).__name__} reports no cases: choose another scheme, such as tournament"
            )
        return self._selection.init(
            SelectionContext(
                domain=type(domain).__name__,
                population=population,
                behavior=int(template.behavior.shape[-1]),
                cases=cases,
                bounds=getattr(domain, "behavior_bounds", None),
            )
        )

    def cells(self, memory: Nest) -> np.ndarray | None:
        """Return the middles of the cells `[N, D]` by one run's memory, where a scheme divides behavior into cells."""
        return np.asarray(self._selection.cell_centers(memory)) if hasattr(self._selection, "cell_centers") else None

    def choose(self, population: Population, seed: Tensor) -> Choice:
        """Choose in populations with seeds `[B, 2]`; who is broken has no children, the best does in its place."""
        if self.is_stateful:
            parent, replaced = (tf.cast(index, tf.int32) for index in self._selection.select(population, seed))
        else:
            parent, replaced = choose_batch(self._selection, population.fitness, seed)
        healthy = tf.math.is_finite(tf.gather(population.fitness, parent, batch_dims=1))
        best = tf.argmax(population.fitness, axis=-1, output_type=tf.int32)
        return Choice(tf.where(healthy, parent, best), replaced)

    def admit(self, population: Population, candidate: Candidate, seed: Tensor) -> Admission:
        """Say who of the children enters; a broken one is left out, so that it can never become a parent."""
        healthy = tf.math.is_finite(candidate.fitness)
        if self.is_stateful:
            slot, enters, memory = self._selection.admit(population, candidate, seed)
            return Admission(tf.cast(slot, tf.int32), healthy & enters, memory)
        replaced = tf.gather(population.fitness, candidate.slot, batch_dims=1)
        return Admission(candidate.slot, healthy & self._selection.accepts(candidate.fitness, replaced), ())

    def begin(self, population: Population, candidate: Candidate, seed: Tensor) -> Admission:
        """Say who of the first individuals enters: everybody, unless the scheme has places of its own for them."""
        if self.is_stateful:
            return self.admit(population, candidate, seed)
        return Admission(candidate.slot, tf.ones_like(candidate.slot, tf.bool), ())
