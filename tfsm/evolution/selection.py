"""Selection schemes of either kind behind one interface: those that see fitness only, and stateful ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tfsm.abilities import Admission, Candidate, Population, SelectionContext, StatefulSelection
from tfsm.errors import TfsmError
from tfsm.interfaces import Choice, Domain, Evaluation, Nest, Selection, Tensor

KNOWN_NEEDS = ("behavior", "cases")
"""What a scheme may need to see besides fitness."""


def initial_population_size(selection: Selection | StatefulSelection, population: int) -> int:
    """Return the number of individuals that are drawn before the first child."""
    return int(getattr(selection, "beginners", None) or population)


def choose_batch(selection: Selection, fitness: Tensor, seed: Tensor) -> Choice:
    """Choose in populations `[B, N]` with seeds `[B, 2]`; indices are int32."""
    if getattr(selection, "batched", False):
        parent, replaced = selection.choose(fitness, seed)
    else:
        parent, replaced = tf.vectorized_map(lambda pair: selection.choose(*pair), (fitness, seed))
    return Choice(tf.cast(parent, tf.int32), tf.cast(replaced, tf.int32))


def choose(selection: Selection | StatefulSelection, population: Population, seed: Tensor) -> Choice:
    """Choose in populations with seeds `[B, 2]`; instead of a broken parent, the best individual is chosen."""
    if isinstance(selection, StatefulSelection):
        parent, replaced = (tf.cast(index, tf.int32) for index in selection.select(population, seed))
    else:
        parent, replaced = choose_batch(selection, population.fitness, seed)
    healthy = tf.math.is_finite(tf.gather(population.fitness, parent, batch_dims=1))
    best = tf.argmax(population.fitness, axis=-1, output_type=tf.int32)
    return Choice(tf.where(healthy, parent, best), replaced)


def admit(
    selection: Selection | StatefulSelection, population: Population, candidate: Candidate, seed: Tensor
) -> Admission:
    """Decide which children enter; a broken one never does, so that it cannot become a parent."""
    healthy = tf.math.is_finite(candidate.fitness)
    if isinstance(selection, StatefulSelection):
        slot, accepted, state = selection.admit(population, candidate, seed)
        return Admission(tf.cast(slot, tf.int32), healthy & accepted, state)
    replaced = tf.gather(population.fitness, candidate.slot, batch_dims=1)
    return Admission(candidate.slot, healthy & selection.accepts(candidate.fitness, replaced), ())


def admit_generation(selection: Any, population: Population, candidates: Candidate, counted: Tensor) -> Admission:
    """Decide at once which children `[K, W]` of a scheme with generations enter; see `StatefulSelection`."""
    slot, accepted, state = selection.admit_generation(population, candidates, counted)
    return Admission(tf.cast(slot, tf.int32), tf.math.is_finite(candidates.fitness) & accepted, state)


def admit_initial(
    selection: Selection | StatefulSelection, population: Population, candidate: Candidate, seed: Tensor
) -> Admission:
    """Decide which initial individuals enter: all of them, unless the scheme has its own places for them."""
    if isinstance(selection, StatefulSelection):
        return admit(selection, population, candidate, seed)
    return Admission(candidate.slot, tf.ones_like(candidate.slot, tf.bool), ())


def generation_size(selection: Selection | StatefulSelection, population: int) -> int | None:
    """Return the number of children per generation, where a scheme has generations."""
    return int(selection.generation(population)) if hasattr(selection, "generation") else None


class Selector:
    """Knows what a scheme needs of the individuals, and its state.

    Args:
        selection: the scheme.
        domain: the domain, which may state the bounds of its behavior.
        template: what an evaluation returns for one genome, as `tf.TensorSpec`s.
        population: N.
    """

    def __init__(
        self, selection: Selection | StatefulSelection, domain: Domain, template: Evaluation, population: int
    ) -> None:
        self._selection: Any = selection
        self.is_stateful = isinstance(selection, StatefulSelection)
        """Whether the scheme sees more than fitness, or has a state."""
        self.needs: frozenset[str] = (
            frozenset(selection.needs) if isinstance(selection, StatefulSelection) else frozenset()
        )
        """What has to be kept of individuals besides fitness."""
        self.initial_population = initial_population_size(selection, population)
        """Number of individuals that are drawn before the first child."""
        self.initial_state: Nest = ()
        """The scheme's initial state for one run."""
        if self.is_stateful:
            self.initial_state = tf.nest.map_structure(
                tf.convert_to_tensor, self._init_state(domain, template, population)
            )

    def cell_centers(self, state: Nest) -> np.ndarray | None:
        """Return the centers `[N, D]` of the cells by one run's state, where a scheme divides behavior into cells."""
        return np.asarray(self._selection.cell_centers(state)) if hasattr(self._selection, "cell_centers") else None

    def _init_state(self, domain: Domain, template: Evaluation, population: int) -> Nest:
        name = type(self._selection).__name__
        unknown = self.needs - set(KNOWN_NEEDS)
        if unknown:
            raise TfsmError(
                f"{name} needs {', '.join(sorted(unknown))}: only {' and '.join(KNOWN_NEEDS)} are available"
            )
        cases = 0 if isinstance(template.cases, tuple) else int(template.cases.shape[-1])
        if "cases" in self.needs and not cases:
            raise TfsmError(
                f"the selection scheme {name} compares individuals case by case, but the domain "
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
