"""Noticing whether a global generator was used."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import tensorflow as tf

from tfsm.contracts import Nest
from tfsm.testing.comparing import differences
from tfsm.testing.failure import require

SEEDS = (11, 12)
"""Global seeds of TensorFlow, for doing something twice: whatever differs then depends on them."""


@contextmanager
def watched(seed: int = SEEDS[0]) -> Iterator[list[str]]:
    """Yield a list that holds, after the block, the names of the global generators that the block was seen to use.

    Operations that draw within a graph are not seen: for these, do it twice with different `SEEDS` and compare.
    """
    used: list[str] = []
    python, numpy = random.getstate(), _numpy_state()
    generator = tf.random.get_global_generator().state.numpy()
    # The eager operations without a seed of their own count on from the global seed: what comes next tells.
    tf.random.set_seed(seed)
    expected = tf.random.uniform([3]).numpy()
    tf.random.set_seed(seed)
    yield used
    if random.getstate() != python:
        used.append("random")
    if _numpy_state() != numpy:
        used.append("np.random")
    drawn = tf.random.uniform([3]).numpy()
    if (drawn != expected).any() or (tf.random.get_global_generator().state.numpy() != generator).any():
        used.append("tf.random")


def twice(make: Callable[[], Nest], used: list[str] | None = None) -> tuple[Nest, Nest]:
    """Do something twice, with different global seeds, and return both results."""
    results = []
    for seed in SEEDS:
        with watched(seed) as found:
            results.append(make())
        if used is not None:
            used += found
    return results[0], results[1]


def used_by(make: Callable[[], Nest]) -> list[str]:
    """Return the names of the global generators that something uses, which is done twice."""
    used: list[str] = []
    if differences(*twice(make, used), exact=True):
        used.append("tf.random")
    return list(dict.fromkeys(used))


def require_none(used: list[str]) -> None:
    """Fail where a global generator was used."""
    require(
        not used,
        f"it uses the global generators of {' and '.join(used)}",
        "draw from the seed that it is given: by split, uniform and gaussian of tfsm.kernels.noise, by "
        "tf.random.stateless_*, or in plain Python by np.random.default_rng(seed)",
    )


def _numpy_state() -> bytes:
    return pickle.dumps(np.random.get_state(legacy=False))  # noqa: NPY002
