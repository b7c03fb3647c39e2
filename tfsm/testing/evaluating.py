"""Evaluating a few genomes for a domain's checks, as few times as possible: a simulation may take long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from tfsm.contracts import Evaluation, Tensor
from tfsm.testing.networks import genomes, seeds
from tfsm.testing.randomness import twice

if TYPE_CHECKING:
    from tfsm.testing.trying import Subject

LANES = 8


class Tried:
    """What a domain says of a few genomes, and how it came to say so.

    Args:
        subject: the domain.
    """

    def __init__(self, subject: Subject) -> None:
        self._subject, self.network = subject, subject.network
        self.genomes, self.seeds = genomes(subject.network, LANES), seeds(LANES)
        self.used: list[str] = []
        """The global generators that were used for it."""
        self.found, self.second = twice(self.again, self.used)
        """The evaluation of all genomes, two times."""

    def again(self, lanes: slice = slice(None), *, part: Any = None, changed: Tensor | None = None) -> Evaluation:
        """Evaluate once more: some of the genomes, or others instead, by the domain itself or by another one."""
        own = (self.genomes if changed is None else changed)[lanes]
        return evaluated(part or self._subject.part, self.network, own, self.seeds[lanes])


def evaluated(domain: Any, network: Any, own: Tensor, seed: Tensor) -> Evaluation:
    """Evaluate as the engine does: TensorFlow code is traced, plain Python gets arrays."""
    if not getattr(domain, "compiled", True):
        return domain.evaluate(network, np.asarray(own), np.asarray(seed))
    # One shape each: a function called with several would be warned of.
    traced = tf.function(lambda own, seed: domain.evaluate(network, own, seed))
    return traced.get_concrete_function(own, seed)(own, seed)
