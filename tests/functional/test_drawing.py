"""Streams of random numbers, and genomes to start from."""

from __future__ import annotations

import doctest
import importlib
import math

import keras
import numpy as np
import pytest

import tfsm
from tests.functional.networks import dense
from tfsm import functional
from tfsm.kernels.random import fold, root_seed


@pytest.fixture(scope="module")
def model() -> keras.Model:
    return dense()


@pytest.mark.parametrize("module", ["functions", "streams"])
def test_the_examples_in_the_docstrings_run(module: str) -> None:
    keras.utils.set_random_seed(1)
    found = doctest.testmod(importlib.import_module(f"tfsm.functional.{module}"), optionflags=doctest.ELLIPSIS)
    assert found.attempted > 0
    assert found.failed == 0


def test_a_stream_is_the_fold_of_a_seed_and_a_number() -> None:
    found = functional.streams(2**62 + 5, 300)
    assert found.dtype == np.int64
    for b in (0, 255, 256, 299):
        low, high = (int(word) & 0xFFFFFFFF for word in fold(root_seed(2**62 + 5), b).numpy())
        assert found[b] == low + ((high & 0x7FFFFFFF) << 32)
    assert len(set(found)) == 300
    assert not set(found) & set(functional.streams(2**62 + 6, 300))
    # Bits are as often one as zero: 300 of them, to within five standard deviations.
    ones = [((found >> bit) & 1).mean() for bit in range(63)]
    assert np.abs(np.array(ones) - 0.5).max() < 5 * 0.5 / math.sqrt(300)


def test_a_start_depends_on_the_seed_and_its_number(model: keras.Model) -> None:
    many = functional.initial(model, 9, seed=4)
    np.testing.assert_array_equal(functional.initial(model, 3, seed=4), many[:3])
    assert len(np.unique(many[:, 0])) == 9
    assert (functional.initial(model, 9, seed=5)[:, 0] != many[:, 0]).all()


def test_schemes_have_the_spread_that_they_say(model: keras.Model) -> None:
    kernel = slice(0, 12)  # three inputs to four units
    normal = functional.initial(model, 1000)
    assert normal[:, kernel].std() == pytest.approx(math.sqrt(2 / 7), rel=0.05)
    assert (normal[:, 12:16] == 0).all(), "biases as the model has them"
    half = math.sqrt(6 / 7)
    evenly = functional.initial(model, 1000, scheme="xavier-uniform", scale=2.0)[:, kernel]
    assert 0.99 * 2 * half < np.abs(evenly).max() <= 2 * half
    assert functional.initial(model, 1000, scheme="normal", scale=0.3).std() == pytest.approx(0.3, rel=0.05)
    assert 0.49 < np.abs(functional.initial(model, 1000, scheme="uniform", scale=0.5)).max() <= 0.5
    assert functional.initial(model, 1000, scheme="xavier-biased")[:, 12:16].std() > 0.1
    np.testing.assert_array_equal(functional.initial(model, 2, scheme="model"), [tfsm.flatten(model)] * 2)
