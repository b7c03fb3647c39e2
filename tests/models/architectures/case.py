"""Cases of architectures, and functions that make them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from tests.models.plain import drawn

N = 4

Build = Callable[[], keras.Model]
Make = Callable[[], keras.layers.Layer]


@dataclass(frozen=True)
class Case:
    build: Build
    inputs: Sequence[np.ndarray]
    ways: str
    """The ways of the layers in order: n(ative), f(olded), m(apped)."""
    heavy: bool = False
    """Whether Keras takes seconds to map it, so that one way of giving inputs must do."""
    copied: bool = False
    """Whether sm-g-abs copies its weights although no layer is mapped."""
    stairs: bool = False
    """Whether its outputs are a staircase, so that there is no gradient."""
    exact: Build | None = None
    """For a model of lower precision: the same model without that."""
    tolerance: float = 1e-5
    """How far its outputs may be from those of plain Keras."""


def sequential(shape: tuple[int, ...], *made: Make, ways: str, **options: Any) -> Case:
    return Case(
        lambda: keras.Sequential([keras.Input(shape), *(make() for make in made)]), [drawn(N, *shape)], ways, **options
    )


def functional(*shapes: tuple[int, ...], ways: str, **options: Any) -> Callable[[Callable[..., Any]], Case]:
    """Make a case of a function from symbolic inputs to outputs."""

    def case(outputs: Callable[..., Any]) -> Case:
        def build() -> keras.Model:
            inputs = [keras.Input(shape) for shape in shapes]
            return keras.Model(inputs if len(inputs) > 1 else inputs[0], outputs(*inputs))

        return Case(build, [drawn(N, *shape, seed=i) for i, shape in enumerate(shapes)], ways, **options)

    return case


@contextmanager
def policy(name: str) -> Iterator[None]:
    """Use a dtype policy for layers created in the body."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def in_policy(name: str, build: Build) -> Build:
    """Return a function that builds a model under a dtype policy."""

    def built() -> keras.Model:
        with policy(name):
            return build()

    return built
