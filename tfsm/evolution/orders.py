"""What a driver that holds populations and workers that make individuals tell each other.

Plain arrays alone, so that it can be sent anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True, eq=False)
class Individual:
    """Somebody who breeds."""

    genome: np.ndarray
    """`[P]`"""
    experience: tuple[np.ndarray, ...]
    """What it saw: the leaves of an evaluation's experience, in `tf.nest`'s order, without an axis for individuals."""


@dataclass(frozen=True, eq=False)
class Order:
    """One individual to be made and evaluated."""

    run: int
    number: int
    """Which of the run's evaluations it is, counted from 0: with the run and the seed all that is random about it."""
    parent: Individual | None = field(default=None, repr=False)
    """None: one of the first individuals."""
    mate: Individual | None = field(default=None, repr=False)
    """The second parent, for an operator that recombines."""
    strength: float = 1.0
    """How many times the intensity it gets."""


@dataclass(frozen=True, eq=False)
class Bred:
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
