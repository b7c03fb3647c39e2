"""Intensities that adapt while a run goes on, whatever the operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import tensorflow as tf

from tfsm.contracts import Tensor
from tfsm.kernels.noise import fold, gaussian

Mode = Literal["none", "self", "divergence"]

FURTHEST: Final = 1e4
"""Times the intensity, up or down, beyond which nothing adapts."""
_OWN: Final = 11
"""Keeps what is drawn here apart from what an operator draws by the same seed."""


@dataclass(frozen=True)
class Adaptation:
    r"""How intensities adapt.

    - `self`: each individual carries its own, :math:`\sigma' = \sigma \exp(\tau z)`, by which it was made itself; those
      that make good children spread with them.
    - `divergence`: all children of a run have one, which is corrected after each of them so that the outputs move by
      the wanted divergence `D`: :math:`\sigma' = \sigma (D / d)^{\tau / 2}` after a child that moved them by `d`.
    """

    mode: Mode = "none"
    rate: float = 0.2
    """:math:`\\tau`."""
    target: float = 0.0
    """The wanted divergence."""

    @property
    def on(self) -> bool:
        """Whether there is anything to do."""
        return self.mode != "none"

    def inherited(self, strength: Tensor, seed: Tensor) -> Tensor:
        """Return the strengths of children `[B]` from those of their parents, with seeds `[B, 2]`."""
        drawn = gaussian(fold(seed, _OWN), 1)[..., 0]
        return _bounded(strength * tf.exp(self.rate * drawn))

    def corrected(self, strength: Tensor, divergence: Tensor) -> Tensor:
        """Return the strengths `[B]` of the next children, after ones that moved the outputs so far."""
        moved = tf.cast(divergence, strength.dtype)
        # What moves nothing at all, or breaks, tells no more than that it was far too little or too much.
        known = tf.where(tf.math.is_finite(moved), tf.maximum(moved, 1e-30), 1e30)
        step = (self.rate / 2.0) * (tf.math.log(self.target) - tf.math.log(known))
        return _bounded(strength * tf.exp(tf.clip_by_value(step, -1.0, 1.0)))


def _bounded(strength: Tensor) -> Tensor:
    return tf.clip_by_value(strength, 1.0 / FURTHEST, FURTHEST)
