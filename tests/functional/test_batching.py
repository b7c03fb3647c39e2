"""How often functions are compiled, and which are cached."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import keras
import numpy as np
import pytest

from tests.functional.networks import linear, normal, pictures
from tfsm import functional
from tfsm.functional._batching import MAX_CACHED, LruCache, runner_for

X = normal(6, 3)


@pytest.fixture
def model() -> keras.Model:
    return linear(2)


@contextmanager
def expect_compilations(model: keras.Model, times: int) -> Iterator[None]:
    """Assert how often functions are compiled in the body."""
    before = runner_for(model).functions.misses
    yield
    assert runner_for(model).functions.misses - before == times


@pytest.mark.slow
def test_widths_are_powers_of_two(model: keras.Model) -> None:
    with expect_compilations(model, 1):
        for count in (5, 8, 7, 6, 5):
            functional.mutate(model, normal(count, 6), X, "control")
    with expect_compilations(model, 1):
        functional.mutate(model, normal(1, 6), X, "control")
        functional.mutate(model, normal(6), X, "control")
        functional.mutate(model, normal(2, 6), X, "control")
    with expect_compilations(model, 2):  # 256 at a time, and the remainder
        functional.mutate(model, normal(600, 6), X, "control")
        functional.mutate(model, normal(256, 6), X, "control")
        functional.mutate(model, normal(100, 6), X, "control")


def test_a_plain_graph_has_no_fixed_width() -> None:
    model = pictures()
    size = functional.initial(model, 1).shape[1]
    with expect_compilations(model, 1):
        for count in (1, 3, 5):
            functional.mutate(model, normal(count, size), normal(2, 6, 6, 1), "control")


def test_only_new_shapes_and_operators_are_compiled(model: keras.Model) -> None:
    genomes = normal(2, 6)
    with expect_compilations(model, 1):
        for intensity, seed in ((0.1, 0), (2, 7), (np.float32(0.3), 2**60)):
            functional.mutate(model, genomes, X * intensity, "control", intensity, seed)
    with expect_compilations(model, 1):
        for divergence, seed in (("1%", 0), ("2.5%", 7), ("10%", 2**60)):
            functional.mutate(model, genomes, X, "control", divergence=divergence, seed=seed)
    with expect_compilations(model, 1):
        functional.mutate(model, genomes, X[:4], "control")
    with expect_compilations(model, 1):
        functional.outputs(model, genomes, X)
        functional.divergence(model, genomes, genomes, X.astype(np.float64))
        functional.divergence(model, genomes[0], genomes, X[::-1])


def test_changing_what_is_trainable_compiles_again() -> None:
    kl = keras.layers
    model = keras.Sequential([keras.Input((3,)), kl.Dense(2), kl.Dense(1)])
    first = runner_for(model)
    assert runner_for(model) is first
    model.layers[0].trainable = False
    assert runner_for(model) is not first
    assert runner_for(model).network.size == 3


def test_the_least_recently_used_function_is_evicted() -> None:
    recent = LruCache()
    for i in range(MAX_CACHED):
        assert recent.get(i, lambda i=i: -i) == -i  # type: ignore[misc]
    assert recent.get(0, lambda: 99) == 0
    assert recent.get("new", lambda: 5) == 5
    assert len(recent) == MAX_CACHED
    assert recent.get(0, lambda: 99) == 0
    assert recent.get(1, lambda: 99) == 99, "the least recently used one"
    assert recent.misses == MAX_CACHED + 2


def test_a_failed_entry_is_not_cached() -> None:
    recent = LruCache()
    with pytest.raises(ZeroDivisionError):
        recent.get("key", lambda: 1 // 0)
    assert recent.get("key", lambda: 2) == 2
