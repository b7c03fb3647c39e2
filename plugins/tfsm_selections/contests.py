"""Drawing among individuals, for the schemes that do so."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from tfsm.contracts import Tensor
from tfsm.kernels.noise import distinct_integers, uniform


def anybody(among: Tensor, seed: Tensor) -> Tensor:
    """Draw one of those marked in `[B, N]`, all equally likely, with seeds `[B, 2]`: `[B]`."""
    drawn = tf.where(among, uniform(seed, among.shape[-1]), -1.0)
    return tf.argmax(drawn, axis=-1, output_type=tf.int32)


def contest(score: Callable[[Tensor], Tensor], population: int, size: int, seed: Tensor) -> tuple[Tensor, Tensor]:
    """Draw a few without replacement; return the best `[B]` and the worst `[B]`, of equals the first and the last.

    Args:
        score: from who takes part, `[B, size]`, to how well they do.
        population: N.
        size: how many take part, all of them where there are no more.
        seed: `[B, 2]`
    """
    size = min(size, population)
    rivals = distinct_integers(seed, size, population)
    found = score(rivals)
    worst = size - 1 - tf.argmin(found[..., ::-1], axis=-1)
    best = tf.argmax(found, axis=-1)
    return tf.gather(rivals, best, batch_dims=1), tf.gather(rivals, worst, batch_dims=1)
