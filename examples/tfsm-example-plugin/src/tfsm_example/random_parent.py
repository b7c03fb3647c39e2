"""The selection scheme, which is imported when it is used."""

from dataclasses import dataclass

import tensorflow as tf
from tfsm import Choice
from tfsm.interfaces import Tensor
from tfsm.kernels.random import uniform

from tfsm_example.options import RandomParentOptions


@dataclass(frozen=True, kw_only=True)
class RandomParent(RandomParentOptions):
    """Choose a random parent; the child replaces the worst individual."""

    def choose(self, fitness: Tensor, seed: Tensor) -> Choice:
        """Choose a parent and the individual to replace, from a population's fitness [N]."""
        parent = tf.cast(uniform(seed, 1)[0] * fitness.shape[-1], tf.int32)
        return Choice(parent=parent, replaced=tf.argmin(fitness))

    def accepts(self, child: Tensor, replaced: Tensor) -> Tensor:
        """Accept a child that is not worse."""
        return child >= replaced
