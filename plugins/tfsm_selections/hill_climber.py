"""The supplement's selection: one champion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from tfsm.contracts import Choice, Tensor
from tfsm_selections.options import HillClimberOptions


@dataclass(frozen=True, kw_only=True)
class HillClimber(HillClimberOptions):
    """The champion is always the parent; a child takes its place only by being better."""

    batched: ClassVar[bool] = True

    def choose(self, fitness: Tensor, seed: Tensor) -> Choice:
        """Choose the only one there is, in populations `[B, 1]`."""
        champion = tf.zeros_like(fitness[..., 0], tf.int32)
        return Choice(champion, champion)

    def accepts(self, child: Tensor, replaced: Tensor) -> Tensor:
        """Let a better child in."""
        return child > replaced
