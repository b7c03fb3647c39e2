from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers as kl

from tests.models.architectures import CASES
from tests.models.plain import drawn
from tfsm.errors import TfsmError
from tfsm.models.compatibility import check_differentiable
from tfsm.models.network import Network


def check(model: keras.Model, x: np.ndarray) -> None:
    network = Network(model)
    check_differentiable(network, tf.constant(network.genome[None]), [tf.constant(x[None])])


def with_head(head: Callable[[Any], Any], **options: Any) -> keras.Model:
    x = keras.Input((3,))
    return keras.Model(x, head(3.0 * kl.Dense(4, **options)(x)), name="mine")


STAIRS: dict[str, Callable[[Any], Any]] = {
    "round": keras.ops.round,
    "sign": keras.ops.sign,
    "floor": keras.ops.floor,
    "argmax": lambda y: keras.ops.argmax(y, axis=-1, keepdims=True),
    "comparison": lambda y: keras.ops.cast(y > 0, "float32"),
}


@pytest.mark.parametrize("name", STAIRS)
def test_a_staircase_is_refused_and_sm_r_named(name: str) -> None:
    with pytest.raises(TfsmError, match=r"the model 'mine' is not differentiable: .*use the mutation 'sm-r'"):
        check(with_head(STAIRS[name]), drawn(50, 3))


@pytest.mark.parametrize("name", ["dense", "lstm", "gru", "conv2d", "batch normalization", "subclassed"])
def test_ordinary_models_pass(name: str) -> None:
    check(CASES[name].build(), CASES[name].inputs[0])


@pytest.mark.parametrize("activation", ["softmax", "sigmoid", "relu", None])
def test_a_model_whose_outputs_are_all_zero_or_equal_passes(activation: str | None) -> None:
    model = keras.Sequential([keras.Input((3,)), kl.Dense(4, activation, kernel_initializer="zeros")])
    check(model, drawn(10, 3))


def test_units_that_happen_not_to_fire_pass() -> None:
    dead = keras.initializers.Constant(-0.01)
    model = keras.Sequential([keras.Input((3,)), kl.Dense(4, "relu", bias_initializer=dead), kl.Dense(2)])
    check(model, np.zeros((10, 3), np.float32))


def test_outputs_that_do_not_depend_on_the_weights_at_all_pass() -> None:
    # Nothing that an operator could do would matter, and that is no fault of the gradient.
    check(with_head(lambda y: 0.0 * y), drawn(10, 3))
