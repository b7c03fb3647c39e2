"""Domains that are wrong in one respect each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf

from tests.testing.parts import Add
from tfsm.interfaces import Evaluation


@cache
def only_model() -> keras.Model:
    return Add().network()


@dataclass(frozen=True, kw_only=True)
class Stingy(Add):
    """Shares one model between all calls."""

    def network(self) -> keras.Model:
        return only_model()


@dataclass(frozen=True, kw_only=True)
class Columns(Add):
    """Returns a column."""

    def evaluate(self, network: Any, genomes: Any, seed: Any) -> Evaluation:
        found = super().evaluate(network, genomes, seed)
        return found._replace(fitness=found.fitness[:, None])


@dataclass(frozen=True, kw_only=True)
class Misnamed(Add):
    """Names fewer numbers than the behavior has."""

    behavior_names: ClassVar[tuple[str, ...]] = ("x", "y")


@dataclass(frozen=True, kw_only=True)
class Dividing(Add):
    """Divides by zero."""

    def evaluate(self, network: Any, genomes: Any, seed: Any) -> Evaluation:
        found = super().evaluate(network, genomes, seed)
        return found._replace(behavior=found.behavior / 0.0)


@dataclass(frozen=True, kw_only=True)
class Moody(Add):
    """Draws from TensorFlow's global generator."""

    def evaluate(self, network: Any, genomes: Any, seed: Any) -> Evaluation:
        found = super().evaluate(network, genomes, seed)
        return found._replace(fitness=found.fitness + tf.random.normal([]))


@dataclass(frozen=True, kw_only=True)
class Ranking(Add):
    """Compares individuals with each other."""

    def evaluate(self, network: Any, genomes: Any, seed: Any) -> Evaluation:
        found = super().evaluate(network, genomes, seed)
        return found._replace(fitness=found.fitness - tf.reduce_mean(found.fitness))


@dataclass(frozen=True, kw_only=True)
class Hiding(Add):
    """Hides NaN."""

    def evaluate(self, network: Any, genomes: Any, seed: Any) -> Evaluation:
        found = super().evaluate(network, genomes, seed)
        return found._replace(fitness=tf.where(found.fitness > -9.0, found.fitness, -9.0))


@dataclass(frozen=True, kw_only=True)
class Generous(Add):
    """Counts NaN as a solution."""

    def evaluate(self, network: Any, genomes: Any, seed: Any) -> Evaluation:
        found = super().evaluate(network, genomes, seed)
        return found._replace(solved=tf.math.is_nan(found.fitness))


@dataclass(frozen=True, kw_only=True)
class Flat(Add):
    """Gives all genomes the same fitness."""

    def evaluate(self, network: Any, genomes: Any, seed: Any) -> Evaluation:
        found = super().evaluate(network, genomes, seed)
        return found._replace(fitness=0.0 * found.fitness)


@dataclass(frozen=True, kw_only=True)
class Wide(Add):
    """Observes more than the network takes."""

    def observe(self, experience: Any) -> Any:
        return tf.concat([experience, experience], axis=-1)


@dataclass(frozen=True, kw_only=True)
class Hosted(Add):
    """Draws from NumPy's global generator."""

    compiled: ClassVar[bool] = False

    def evaluate(self, network: Any, genomes: Any, seed: Any) -> Evaluation:
        np.random.rand()  # noqa: NPY002
        found = super().evaluate(network, tf.constant(genomes), seed)
        return Evaluation(*(np.asarray(x) for x in found[:4]))


@dataclass(frozen=True, kw_only=True)
class Reminded(Add):
    """Evaluates differently after it was pickled."""

    size: int = 1

    def evaluate(self, network: Any, genomes: Any, seed: Any) -> Evaluation:
        found = super().evaluate(network, genomes, seed)
        return found._replace(fitness=getattr(self, "_secret", 1.0) * found.fitness)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _secret=2.0)


@dataclass(frozen=True, kw_only=True)
class Crowded(Add):
    """Gives more fitness in large batches."""

    def evaluate(self, network: Any, genomes: Any, seed: Any) -> Evaluation:
        found = super().evaluate(network, genomes, seed)
        return found._replace(fitness=found.fitness + 0.01 * genomes.shape[0])
