"""Valid parts, from which each part of `broken_*.py` differs in one respect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import keras
import tensorflow as tf
from annotated_types import Ge
from typing_extensions import Doc

from tfsm.interfaces import Evaluation, Nest, Observer, Tensor
from tfsm.models.network import Network
from tfsm.plugins.registry import Entry, Kind
from tfsm.testing.check_runs import StubMutation, StubSelection
from tfsm.testing.suite import PartUnderTest


@dataclass(frozen=True, kw_only=True)
class SizeOptions:
    """Options with one valid option."""

    size: Annotated[int, Ge(1), Doc("how many")] = 3


@dataclass(frozen=True, kw_only=True)
class GoodNoise(SizeOptions, StubMutation):
    """Add noise."""


@dataclass(frozen=True, kw_only=True)
class Add:
    """Add two numbers."""

    def network(self) -> keras.Model:
        """Return a network of one linear unit."""
        return keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])

    def evaluate(self, network: Network, genomes: Tensor, seed: Tensor) -> Evaluation:
        """Compare the sum of the inputs with the output."""
        seen = tf.random.stateless_uniform([4, 2], [1, 2]) + tf.zeros([tf.shape(genomes)[0], 1, 1])
        errors = tf.abs(network.rows(genomes, seen)[..., 0] - tf.reduce_sum(seen, axis=-1))  # [B, 4]
        worst = tf.reduce_max(errors, axis=-1)
        return Evaluation(-tf.reduce_sum(errors, axis=-1), worst < 0.01, errors, seen)

    def observe(self, experience: Nest) -> Nest:
        """Return the experience."""
        return experience


@dataclass(frozen=True, kw_only=True)
class GoodScheme(StubSelection):
    """Choose a random parent."""


class Ears(Observer):
    """Records the ends of runs."""

    def __init__(self) -> None:
        self.ends: list[Any] = []

    def on_run_end(self, result: Any) -> None:
        """Record a run."""
        self.ends.append(result)


def subject(
    kind: Kind, part: type, *, options: type | None = None, description: str = "what it does", **defaults: Any
) -> PartUnderTest:
    """Return a class as a part under test, as if a plugin had registered it."""
    return PartUnderTest(
        Entry(
            kind=kind,
            name=part.__name__.lower(),
            target=f"{part.__module__}:{part.__qualname__}",
            description=description,
            options=options,
            plugin="kit",
            distribution="kit",
            **defaults,
        )
    )
