"""Selection schemes that are wrong in one respect each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from tests.testing.parts import GoodScheme
from tfsm.interfaces import Choice


@dataclass(frozen=True, kw_only=True)
class Beyond(GoodScheme):
    """Counts from 1."""

    def choose(self, fitness: Any, seed: Any) -> Choice:
        return Choice(tf.argmax(fitness) + 1, tf.argmin(fitness) + 1)


@dataclass(frozen=True, kw_only=True)
class Moody(GoodScheme):
    """Draws from TensorFlow's global generator."""

    def choose(self, fitness: Any, seed: Any) -> Choice:
        return Choice(tf.random.uniform([], maxval=fitness.shape[-1], dtype=tf.int32), tf.argmin(fitness))


@dataclass(frozen=True, kw_only=True)
class Sociable(GoodScheme):
    """Looks at all populations."""

    batched: ClassVar[bool] = True

    def choose(self, fitness: Any, seed: Any) -> Choice:
        best = tf.argmax(tf.reduce_sum(fitness, axis=0)) + tf.zeros_like(tf.argmin(fitness, axis=-1))
        return Choice(best, tf.argmin(fitness, axis=-1))


@dataclass(frozen=True, kw_only=True)
class Fragile(GoodScheme):
    """Chooses by shares of the sum, which may be minus infinity."""

    def choose(self, fitness: Any, seed: Any) -> Choice:
        shares = tf.cumsum(fitness / tf.reduce_sum(fitness))
        last = tf.where(tf.math.is_nan(shares[-1]), fitness.shape[-1], 0)
        return Choice(last, tf.argmin(fitness))


@dataclass(frozen=True, kw_only=True)
class Sweeping(GoodScheme):
    """Returns one decision for all populations."""

    def accepts(self, child: Any, replaced: Any) -> Any:
        return tf.reduce_all(child >= replaced)


@dataclass(frozen=True, kw_only=True)
class Perverse(GoodScheme):
    """Rejects better children."""

    def accepts(self, child: Any, replaced: Any) -> Any:
        return child < replaced


@dataclass(frozen=True, kw_only=True)
class Uncompiled(GoodScheme):
    """Looks at values with NumPy."""

    batched: ClassVar[bool] = True

    def choose(self, fitness: Any, seed: Any) -> Choice:
        return Choice(tf.constant(np.argmax(fitness.numpy(), axis=-1)), tf.argmin(fitness, axis=-1))


@dataclass(frozen=True, kw_only=True)
class Reminded(GoodScheme):
    """Chooses differently after it was pickled."""

    size: int = 1

    def choose(self, fitness: Any, seed: Any) -> Choice:
        best, worst = tf.argmax(fitness), tf.argmin(fitness)
        return Choice(worst, best) if hasattr(self, "_secret") else Choice(best, worst)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _secret=True)


@dataclass(frozen=True, kw_only=True)
class Crowded(GoodScheme):
    """Chooses differently in large batches."""

    batched: ClassVar[bool] = True

    def choose(self, fitness: Any, seed: Any) -> Choice:
        crowd = tf.zeros_like(tf.argmin(fitness, axis=-1)) + (fitness.shape[0] > 2)
        return Choice(crowd, tf.argmin(fitness, axis=-1))
