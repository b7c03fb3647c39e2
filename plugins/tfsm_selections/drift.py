"""No selection at all: the baseline of baselines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import tensorflow as tf

from tfsm.contracts import Choice, Tensor
from tfsm.kernels.noise import split, uniform
from tfsm_selections.options import RandomOptions


@dataclass(frozen=True, kw_only=True)
class Drift(RandomOptions):
    """Anybody becomes the parent, anybody leaves, the child always enters."""

    batched: ClassVar[bool] = True

    def choose(self, fitness: Tensor, seed: Tensor) -> Choice:
        """Choose from populations `[B, N]`, of which all are equally likely."""
        population = fitness.shape[-1]
        parent, replaced = (tf.cast(uniform(own, 1)[..., 0] * population, tf.int32) for own in split(seed, 2))
        return Choice(parent, replaced)

    def accepts(self, child: Tensor, replaced: Tensor) -> Tensor:
        """Let every child in."""
        return tf.ones_like(child, tf.bool)
