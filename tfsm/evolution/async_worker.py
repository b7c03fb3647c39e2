"""ChildRequest, ChildResult; make one child.

Plain arrays alone, so that it can be sent anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from tfsm.evolution.compile_plan import TracedFunction
from tfsm.evolution.variation import Brood, Variation
from tfsm.interfaces import Evaluation, Tensor


@dataclass(frozen=True, eq=False)
class Individual:
    """Somebody who breeds."""

    genome: np.ndarray
    """`[P]`"""
    experience: tuple[np.ndarray, ...]
    """What it saw: the leaves of an evaluation's experience, in `tf.nest`'s order, without an axis for individuals."""


@dataclass(frozen=True, eq=False)
class ChildRequest:
    """One individual to be made and evaluated."""

    run: int
    number: int
    """Which of the run's evaluations it is, counted from 0: with the run and the seed all that is random about it."""
    parent: Individual | None = field(default=None, repr=False)
    """None: one of the first individuals."""
    mate: Individual | None = field(default=None, repr=False)
    """The second parent, for an operator that recombines."""
    intensity_scale: float = 1.0
    """How many times the intensity it gets."""


@dataclass(frozen=True, eq=False)
class ChildResult:
    """One individual, made and evaluated."""

    run: int
    number: int
    genome: np.ndarray = field(repr=False)
    """`[P]`"""
    found: tuple[np.ndarray, ...] = field(repr=False)
    """The leaves of its evaluation, in `tf.nest`'s order, without an axis for individuals."""
    diagnostics: Mapping[str, float] = field(default_factory=dict, repr=False)
    """What the operator has to say, by name."""
    moved: float = -1.0
    """How far it moved its parent's outputs, where intensities adapt to that; below 0 where nobody knows."""

    @property
    def solves(self) -> bool:
        """Whether it solves the task; who is broken does not."""
        fitness, solved = self.found[:2]
        return bool(solved) and bool(np.isfinite(fitness))


class ChildWorker:
    """Makes what is ordered.

    Args:
        variation: who does it; planned for one run, so that nothing wider is traced or evaluated.
    """

    def __init__(self, variation: Variation) -> None:
        self._variation = variation
        # As narrow as the lock step may be, and no narrower: its last digits are the same then.
        self._width = variation.plan.least_width
        self._live = tf.range(self._width) < 1
        self._first, self._child = TracedFunction(self._made_first), TracedFunction(self._made_child)

    def make(self, order: ChildRequest) -> ChildResult:
        """Make and evaluate an individual."""
        key = self._wide(np.int32(order.run)), self._wide(np.int32(order.number))
        if order.parent is None:
            made = self._first(*key)
        else:
            parents = [self._wide(leaf) for one in (order.parent, order.mate) if one for leaf in _leaves(one)]
            made = self._child(*key, self._wide(np.float32(order.intensity_scale)), *parents)
        genome, found, diagnostics, moved = tf.nest.map_structure(lambda x: x[0].numpy(), made)
        return ChildResult(
            run=order.run,
            number=order.number,
            genome=genome,
            found=tuple(tf.nest.flatten(found)),
            diagnostics={name: float(value) for name, value in diagnostics.items()},
            moved=float(moved),
        )

    def _wide(self, leaf: Any) -> Tensor:
        return tf.constant(np.repeat(np.asarray(leaf)[None], self._width, axis=0))

    def _made_first(self, runs: Tensor, number: Tensor) -> tuple[Tensor, Evaluation, dict[str, Tensor], Tensor]:
        draw_seed, evaluate_seed = self._variation.initial_seeds(runs, number)
        genomes, found = self._variation.first(draw_seed, evaluate_seed, self._live)
        return genomes, found, {}, _unknown(runs)

    def _made_child(
        self, runs: Tensor, number: Tensor, intensity_scale: Tensor, *leaves: Tensor
    ) -> tuple[Tensor, Evaluation, dict[str, Tensor], Tensor]:
        variation = self._variation
        _, mutate_seed, evaluate_seed = variation.seeds(runs, number)
        individual = (0, variation.template.experience)
        one, *second = tf.nest.pack_sequence_as([individual] * (1 + variation.recombines), leaves)
        parents, experience = one
        child = variation.children(parents, experience, intensity_scale, mutate_seed, second[0] if second else ())
        found = variation.evaluate(child.genome, evaluate_seed, self._live)
        brood = Brood(parents, experience, child, intensity_scale)
        moved = variation.moved(brood) if variation.adaptation.mode == "divergence" else _unknown(runs)
        return child.genome, found, dict(child.diagnostics), moved


def _leaves(individual: Individual) -> tuple[np.ndarray, ...]:
    return individual.genome, *individual.experience


def _unknown(runs: Tensor) -> Tensor:
    return tf.fill(tf.shape(runs), -1.0)
