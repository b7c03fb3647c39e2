"""Models that fit a domain, are differentiable, and can be mutated; and messages for those that cannot."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers as kl

from tests.models.architectures import CASES, N
from tests.models.plain import drawn
from tfsm.errors import TfsmError
from tfsm.models.inputs import prepare_inputs
from tfsm.models.loading import check_differentiable, is_known_differentiable
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
def test_a_staircase_is_refused_with_sm_r_suggested(name: str) -> None:
    with pytest.raises(TfsmError, match=r"the model 'mine' is not differentiable: .*use the mutation 'sm-r'"):
        check(with_head(STAIRS[name]), drawn(50, 3))


@pytest.mark.parametrize("name", ["dense", "lstm", "gru", "conv2d", "batch normalization", "subclassed"])
def test_ordinary_models_pass(name: str) -> None:
    check(CASES[name].build(), CASES[name].inputs[0])


@pytest.mark.parametrize("name", ["dense", "lstm", "gru", "conv2d", "batch normalization"])
def test_models_of_common_layers_are_known_to_be_differentiable(name: str) -> None:
    assert is_known_differentiable(Network(CASES[name].build()))


@pytest.mark.parametrize("name", STAIRS)
def test_a_staircase_is_never_known_to_be_differentiable(name: str) -> None:
    in_model, in_layer = with_head(STAIRS[name]), with_head(lambda y: y, activation=STAIRS[name])
    at_each_time = keras.Sequential(
        [keras.Input((5, 3)), kl.TimeDistributed(kl.Dense(4, activation=STAIRS[name])), kl.LSTM(2)]
    )
    assert not any(is_known_differentiable(Network(model)) for model in (in_model, in_layer, at_each_time))


@pytest.mark.parametrize("activation", ["softmax", "sigmoid", "relu", None])
def test_a_model_whose_outputs_are_all_zero_or_equal_passes(activation: str | None) -> None:
    model = keras.Sequential([keras.Input((3,)), kl.Dense(4, activation, kernel_initializer="zeros")])
    check(model, drawn(10, 3))


def test_units_that_happen_not_to_fire_pass() -> None:
    dead = keras.initializers.Constant(-0.01)
    model = keras.Sequential([keras.Input((3,)), kl.Dense(4, "relu", bias_initializer=dead), kl.Dense(2)])
    check(model, np.zeros((10, 3), np.float32))


def test_outputs_that_do_not_depend_on_the_weights_at_all_pass() -> None:
    # No operator could change the outputs, which is not a problem of the gradient.
    check(with_head(lambda y: 0.0 * y), drawn(10, 3))


def dense(*layers: Any) -> keras.Model:
    return keras.Sequential([keras.Input((4,)), *layers, kl.Dense(8, "relu", name="hidden"), kl.Dense(2, name="out")])


def quantized(mode: str = "int8") -> keras.Model:
    model = dense()
    with warnings.catch_warnings(action="ignore"):  # of the input layer, which has nothing to quantize
        model.quantize(mode)
    return model


def stateful(**options: Any) -> keras.Model:
    x = keras.Input(batch_shape=(N, 5, 3))
    return keras.Model(x, kl.GRU(2, stateful=True, name="memory", **options)(x))


def masked() -> keras.Model:
    x = keras.Input(batch_shape=(N, 5, 3))
    return keras.Model(x, kl.LSTM(2, stateful=True, name="memory")(kl.Masking()(x)))


def no_weights() -> keras.Model:
    return keras.Sequential([keras.Input((3,)), kl.ReLU()])


def never_called() -> keras.Model:
    return CASES["subclassed"].build().__class__(name="mine")


REFUSED: dict[str, tuple[Callable[[], keras.Model], str]] = {
    "quantized": (quantized, r"'hidden' is quantized to int8: .*Mutate the model first and quantize the child, or set"),
    "empty": (lambda: keras.Sequential(name="mine"), r"the model 'mine' is not built: give it an input shape"),
    "an input alone": (lambda: keras.Sequential([keras.Input((3,))]), r"not built|no trainable variables"),
    "without a shape": (lambda: keras.Sequential([kl.Dense(2)]), r"not built: give it an input shape"),
    "never called": (never_called, r"'mine' is not built: .*or call it once"),
    "nothing to learn": (no_weights, r"no trainable variables, so there is nothing to mutate: set layer.trainable"),
    "stateful by another formula": (
        lambda: stateful(reset_after=False),
        r"'memory' is stateful, .*\(reset_after=False\)\. Build the model with stateful=False",
    ),
    "stateful and masked": (masked, r"'memory' is stateful, .*makes a mask.*Build the model with stateful=False"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_model_is_refused_with_a_suggestion(name: str) -> None:
    build, message = REFUSED[name]
    with pytest.raises(TfsmError, match=message):
        Network(build())


def test_frozen_quantized_layers_do_not_matter() -> None:
    model = quantized()
    model.get_layer("hidden").trainable = False
    with pytest.raises(TfsmError, match="'out' is quantized"):
        Network(model)
    head = kl.Dense(1)
    model.get_layer("out").trainable = False
    network = Network(keras.Sequential([model, head]))
    assert network.size == 3
    x = drawn(N, 4)
    rows = network.rows(tf.constant(network.genome), tf.constant(x))
    np.testing.assert_allclose(rows, head(model(x)), rtol=1e-5, atol=1e-6)


def test_adapters_beside_quantized_layers_are_mutated() -> None:
    model = dense()
    for layer in model.layers:
        layer.enable_lora(2)
    with warnings.catch_warnings(action="ignore"):
        model.quantize("int8")
    x = drawn(N, 4)
    network = Network(model)
    np.testing.assert_allclose(network.rows(tf.constant(network.genome), tf.constant(x)), model(x), rtol=1e-5)


@pytest.mark.parametrize(
    "make", [lambda: kl.TextVectorization(vocabulary=["a"]), lambda: kl.StringLookup(vocabulary=["a"])]
)
def test_text_is_refused_and_the_model_after_it_named(make: Callable[[], Any]) -> None:
    text = keras.Input((1,), dtype="string")
    model = keras.Model(text, kl.Dense(2)(kl.GlobalAveragePooling1D()(kl.Embedding(4, 2)(make()(text)))))
    for words in (np.array([["a b"], ["c"]]), np.array([["a b"], ["c"]], object)):
        with pytest.raises(
            TfsmError, match=r"must be numbers, got .*: run the layers .*TextVectorization, StringLookup"
        ):
            prepare_inputs(model, words)


def test_the_model_behind_text_works() -> None:
    vectorize = kl.TextVectorization(vocabulary=["a", "b"], output_sequence_length=3)
    numbers = keras.Input((3,), dtype="int64")
    behind = keras.Model(numbers, kl.Dense(2)(kl.GlobalAveragePooling1D()(kl.Embedding(4, 2)(numbers))))
    x = vectorize(tf.constant([["a b"], ["b x a"]]))
    rows = Network(behind).rows(tf.constant(Network(behind).genome), prepare_inputs(behind, x))
    np.testing.assert_allclose(rows, behind(x), rtol=1e-5)
