"""Operators that are wrong in one respect each."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from tfsm.interfaces import Child
from tfsm.kernels.random import gaussian
from tfsm.testing.check_runs import StubMutation


@dataclass(frozen=True, kw_only=True)
class Restless(StubMutation):
    """Changes weights even with intensity 0."""

    def __call__(self, network: Any, parent: Any, experience: Any, intensity: Any, seed: Any) -> Any:
        return parent + (0.01 + intensity) * network.noise(seed)


@dataclass(frozen=True, kw_only=True)
class Moody(StubMutation):
    """Draws from TensorFlow's global generator."""

    def __call__(self, network: Any, parent: Any, experience: Any, intensity: Any, seed: Any) -> Any:
        return parent + intensity * tf.random.normal([network.size])


@dataclass(frozen=True, kw_only=True)
class Deaf(StubMutation):
    """Makes the same change whatever the seed."""

    def __call__(self, network: Any, parent: Any, experience: Any, intensity: Any, seed: Any) -> Any:
        return parent + intensity * network.noise(tf.zeros_like(seed))


@dataclass(frozen=True, kw_only=True)
class Sociable(StubMutation):
    """Looks at the whole batch."""

    batched: ClassVar[bool] = True

    def __call__(self, network: Any, parent: Any, experience: Any, intensity: Any, seed: Any) -> Any:
        noise = network.noise(seed)
        return parent + intensity * noise / tf.math.reduce_std(noise)


@dataclass(frozen=True, kw_only=True)
class Short(StubMutation):
    """Omits a weight."""

    def __call__(self, network: Any, parent: Any, experience: Any, intensity: Any, seed: Any) -> Any:
        return (parent + intensity * network.noise(seed))[1:]


@dataclass(frozen=True, kw_only=True)
class Explosive(StubMutation):
    """Overflows with a large intensity."""

    def __call__(self, network: Any, parent: Any, experience: Any, intensity: Any, seed: Any) -> Any:
        return parent + tf.math.expm1(intensity * 100.0) * network.noise(seed)


@dataclass(frozen=True, kw_only=True)
class Talkative(StubMutation):
    """Reports a vector."""

    def __call__(self, network: Any, parent: Any, experience: Any, intensity: Any, seed: Any) -> Any:
        return Child(parent + intensity * network.noise(seed), {"noise": network.noise(seed)})


@dataclass(frozen=True, kw_only=True)
class Dividing(StubMutation):
    """Divides by its experience."""

    def __call__(self, network: Any, parent: Any, experience: Any, intensity: Any, seed: Any) -> Any:
        return parent + intensity * network.noise(seed) / tf.reduce_mean(tf.abs(experience))


@dataclass(frozen=True, kw_only=True)
class Secret(StubMutation):
    """Draws from the global generators of Python and NumPy."""

    def __call__(self, network: Any, parent: Any, experience: Any, intensity: Any, seed: Any) -> Any:
        return parent + intensity * network.noise(seed) * (1.0 + 0.0 * random.random() * np.random.rand())  # noqa: NPY002


@dataclass(frozen=True, kw_only=True)
class Hasty(StubMutation):
    """Changes the model that it is given."""

    batched: ClassVar[bool] = True

    def __call__(self, network: Any, parent: Any, experience: Any, intensity: Any, seed: Any) -> Any:
        network.model.trainable_variables[0].assign_add(tf.ones_like(network.model.trainable_variables[0]))
        return parent + intensity * network.noise(seed)


@dataclass(frozen=True, kw_only=True)
class Even(StubMutation):
    """Ignores layers."""

    def __call__(self, network: Any, parent: Any, experience: Any, intensity: Any, seed: Any) -> Any:
        return parent + intensity * gaussian(seed, network.size)


@dataclass(frozen=True, kw_only=True)
class Untraceable(StubMutation):
    """Looks at a value with NumPy."""

    batched: ClassVar[bool] = True

    def __call__(self, network: Any, parent: Any, experience: Any, intensity: Any, seed: Any) -> Any:
        return parent + float(intensity.numpy()) * network.noise(seed)


@dataclass(frozen=True, kw_only=True)
class Reminded(StubMutation):
    """Makes other children after it was pickled."""

    scale: float = 1.0

    def __call__(self, network: Any, parent: Any, experience: Any, intensity: Any, seed: Any) -> Any:
        return parent + getattr(self, "_secret", 1.0) * intensity * network.noise(seed)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _secret=2.0)


@dataclass(frozen=True, kw_only=True)
class Crowded(StubMutation):
    """Behaves differently in large batches."""

    batched: ClassVar[bool] = True

    def __call__(self, network: Any, parent: Any, experience: Any, intensity: Any, seed: Any) -> Any:
        return parent + intensity * network.noise(seed) * (1.0 + 0.001 * parent.shape[0])
