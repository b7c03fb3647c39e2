"""Nothing but the return value comes out of a call, and nothing stays behind."""

from __future__ import annotations

import copy
import gc
import pickle
import random
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfsm
from tests.functional.networks import dense, linear, normal
from tfsm import functional

X = normal(6, 3)


def call_all(model: keras.Model, genomes: np.ndarray, x: np.ndarray, seed: int = 0) -> list[Any]:
    children = functional.mutate(model, genomes, x, seed=seed)
    return [
        children,
        functional.sensitivity(model, genomes, x),
        functional.divergence(model, genomes, children, x),
        functional.outputs(model, genomes, x),
        functional.initial(model, 2, seed),
        functional.streams(seed, 2),
    ]


@pytest.fixture(scope="module")
def model() -> keras.Model:
    return linear(2)


def test_arguments_and_model_are_not_changed(model: keras.Model) -> None:
    genomes, x = normal(2, 6), X.copy()
    own, before = genomes.copy(), [v.numpy().copy() for v in model.variables]
    found = call_all(model, genomes, x)
    np.testing.assert_array_equal(genomes, own)
    np.testing.assert_array_equal(x, X)
    for variable, value in zip(model.variables, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)
    for array in found:
        assert not np.shares_memory(array, genomes)
        array += 1  # whoever gets it may change it
    np.testing.assert_array_equal(genomes, own)
    empty = np.empty([0, 6], np.float32)
    assert functional.mutate(model, empty, X) is not empty


def test_the_same_arguments_give_the_same_and_turn_no_generator(model: keras.Model) -> None:
    genomes = normal(2, 6)

    def states() -> tuple[Any, ...]:
        return random.getstate(), np.random.get_state()[1].tolist(), tf.random.get_global_generator().state.numpy()  # type: ignore[index]  # noqa: NPY002

    before = states()
    first = call_all(model, genomes, X)
    keras.utils.set_random_seed(99)
    between = states()
    again = call_all(model, genomes, X)
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_equal(states(), between)
    assert before[0] != between[0]
    drawn = []
    for calls in (False, True):  # also what TensorFlow draws by an operation's number
        tf.random.set_seed(5)
        if calls:
            call_all(model, genomes, X)
        drawn.append(float(tf.random.uniform([])))
    assert drawn[0] == drawn[1]


def test_weights_of_the_model_are_not_used_but_for_what_is_frozen(model: keras.Model) -> None:
    kl = keras.layers
    other = keras.Sequential([keras.Input((3,)), kl.BatchNormalization(scale=False, center=False), kl.Dense(1)])
    genomes = normal(2, 4)
    before = functional.outputs(other, genomes, X)
    other.layers[-1].kernel.assign(np.ones([3, 1]))
    np.testing.assert_array_equal(functional.outputs(other, genomes, X), before)
    assert functional.initial(other, 1, scheme="model").tolist() == [[1.0, 1.0, 1.0, 0.0]]
    # Statistics are no part of a genome, and may have changed since the function was compiled.
    other.layers[0].moving_mean.assign([1.0, 2.0, 3.0])
    shifted = tfsm.unflatten(other, genomes[1])(X)
    np.testing.assert_allclose(functional.outputs(other, genomes, X)[1], shifted, rtol=1e-5, atol=1e-6)


def test_a_model_takes_what_was_compiled_for_it_to_the_grave() -> None:
    gone = []
    for _ in range(2):
        model = linear(1)
        functional.mutate(model, normal(2, 3), X, "control")
        gone.append(weakref.ref(model))
        del model
    gc.collect()
    assert [ref() for ref in gone] == [None, None]


def test_a_model_can_be_saved_copied_and_sent_as_before(model: keras.Model, tmp_path: Path) -> None:
    functional.mutate(model, normal(2, 6), X)
    model.save(tmp_path / "model.keras")
    for twin in (
        keras.models.load_model(tmp_path / "model.keras"),
        copy.deepcopy(model),
        pickle.loads(pickle.dumps(model)),
        keras.models.clone_model(model),
    ):
        assert "_tfsm_lanes" not in vars(twin)
        assert [w.shape for w in twin.variables] == [w.shape for w in model.variables]


def test_threads_may_share_a_model() -> None:
    """They have results of their own, and nothing is compiled twice."""
    model, genomes = dense(), normal(4, 26)
    with ThreadPoolExecutor(4) as pool:
        found = list(
            pool.map(lambda i: functional.mutate(model, genomes + i, X, "sm-g-abs", seed=i), range(8))  # type: ignore[operator]
        )
    for i, children in enumerate(found):
        np.testing.assert_array_equal(children, functional.mutate(model, genomes + i, X, "sm-g-abs", seed=i))
    assert vars(model)["_tfsm_lanes"].lanes.functions.made == 1
