"""The genome's layout, flatten and unflatten, copies of models, and the sections of layers."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers as kl

from tests.models.architectures import CASES, Subclassed
from tests.models.plain import drawn, run
from tfsm.errors import TfsmError
from tfsm.models.genome import Layout, Section, find_sections, flatten, unflatten
from tfsm.models.rules.recurrent import DualBiasLSTMCell


class Unconfigured(keras.Model):
    def __init__(self, units: int) -> None:
        super().__init__()
        self.out = kl.Dense(units)

    def call(self, x: Any) -> Any:
        return self.out(x)


def values(variables: list[keras.Variable]) -> list[np.ndarray]:
    return [variable.numpy().copy() for variable in variables]


def same(mine: list[np.ndarray], theirs: list[np.ndarray]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(mine, theirs, strict=True))


@pytest.mark.sample(15)
@pytest.mark.parametrize("name", CASES)
def test_unflatten_makes_a_new_model_of_the_genome_and_flatten_gives_it_back(name: str) -> None:
    model = CASES[name].build()
    before = values(model.variables)
    held = tf.cast(drawn(len(flatten(model)), seed=3), model.trainable_variables[0].dtype)  # as variables can hold it
    genome = tf.cast(held, tf.float64).numpy()
    child = unflatten(model, genome)
    assert child is not model
    assert type(child) is type(model)
    np.testing.assert_array_equal(flatten(child), genome)
    assert same(values(model.variables), before)
    assert not any(mine is theirs for mine in child.variables for theirs in model.variables)


@pytest.mark.parametrize("name", ["dense", "lstm", "nested", "shared layer", "inputs by name", "subclassed", "dropout"])
def test_a_new_model_has_the_outputs_of_the_old_one_with_its_weights(name: str) -> None:
    model, inputs = CASES[name].build(), CASES[name].inputs
    genome = drawn(len(flatten(model)), seed=3)
    child = unflatten(model, genome)
    for mine, theirs in zip(run(child, genome, inputs), run(model, genome, inputs), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-6)


def test_a_genome_is_the_trainable_variables_in_order_each_row_by_row() -> None:
    model = keras.Sequential([keras.Input((2,)), kl.Dense(3), kl.Dense(1, use_bias=False)])
    model.set_weights([np.float32([[0, 1, 2], [3, 4, 5]]), np.float32([6, 7, 8]), np.float32([[9], [10], [11]])])
    np.testing.assert_array_equal(flatten(model), np.arange(12))
    slots = Layout.of(model).slots
    assert [(slot.offset, slot.shape, slot.size) for slot in slots] == [(0, (2, 3), 6), (6, (3,), 3), (9, (3, 1), 3)]
    assert [slot.path.rsplit("/")[-1] for slot in slots] == ["kernel", "bias", "kernel"]


def test_a_layout_cuts_genomes_into_the_variables_values() -> None:
    layout = Layout.of(keras.Sequential([keras.Input((2,)), kl.Dense(3)]))
    kernel, bias = layout.split(tf.reshape(tf.range(18.0), [2, 9]))
    np.testing.assert_array_equal(kernel[1], [[9, 10, 11], [12, 13, 14]])
    np.testing.assert_array_equal(bias, [[6, 7, 8], [15, 16, 17]])


def test_variables_that_are_not_trainable_are_copied() -> None:
    model = keras.Sequential(
        [keras.Input((3,)), kl.Dense(4), kl.BatchNormalization(), kl.Dropout(0.5), kl.Dense(2), kl.Dense(2)]
    )
    model.layers[3].trainable = False
    for variable in model.non_trainable_variables:
        if variable.dtype == "float32":
            variable.assign(drawn(*variable.shape, seed=5))
    child = unflatten(model, flatten(model) + 1)
    assert len(child.non_trainable_variables) == len(model.non_trainable_variables) == 5
    assert same(values(child.non_trainable_variables), values(model.non_trainable_variables))
    assert [v.path for v in child.trainable_variables] == [v.path for v in model.trainable_variables]


def test_frozen_layers_and_variables_are_not_part_of_a_genome() -> None:
    for name in ("frozen layers", "frozen variables"):
        model = CASES[name].build()
        size = sum(int(np.prod(v.shape)) for v in model.trainable_variables)
        assert len(flatten(model)) == size < model.count_params()
        child = unflatten(model, np.zeros(size))
        assert [v.trainable for v in child.variables] == [v.trainable for v in model.variables]
        assert same(values(child.non_trainable_variables), values(model.non_trainable_variables))


def test_shared_layers_count_once_and_stay_shared() -> None:
    model = CASES["shared layer"].build()
    assert len(flatten(model)) == 3 * 3 + 3 + 3 * 2 + 2
    assert len(unflatten(model, flatten(model)).trainable_variables) == 4


def test_a_trained_model_can_be_copied() -> None:
    model = keras.Sequential([keras.Input((3,)), kl.Dense(2)])
    model.compile("adam", "mse", metrics=["mae"])
    model.train_on_batch(drawn(4, 3), drawn(4, 2))
    np.testing.assert_array_equal(flatten(unflatten(model, np.arange(8))), np.arange(8))


def test_copying_does_not_use_global_generators() -> None:
    states = random.getstate(), np.random.get_state()[1].copy()  # noqa: NPY002
    model = CASES["dropout"].build()
    random.setstate(states[0])
    unflatten(model, flatten(model))
    assert random.getstate() == states[0]
    np.testing.assert_array_equal(np.random.get_state()[1], states[1])  # noqa: NPY002


def test_float64_stays_float64() -> None:
    model = keras.Sequential([keras.Input((2,), dtype="float64"), kl.Dense(1, dtype="float64")])
    genome = np.array([1 / 3, 1 / 7, 1 / 9])
    assert flatten(model).dtype == np.float64
    np.testing.assert_array_equal(flatten(unflatten(model, genome)), genome)


@pytest.mark.parametrize("shape", [(0,), (8,), (10,), (9, 1), (1, 9), ()])
def test_a_genome_of_the_wrong_size_is_refused(shape: tuple[int, ...]) -> None:
    model = keras.Sequential([keras.Input((2,)), kl.Dense(3)])
    with pytest.raises(TfsmError, match=r"a vector of 9 numbers, got an array of shape \("):
        unflatten(model, np.zeros(shape))


def test_an_unbuilt_model_is_refused() -> None:
    for model in (keras.Sequential([kl.Dense(3)]), Subclassed()):
        with pytest.raises(TfsmError, match="is not built"):
            flatten(model)


def test_a_model_without_trainable_variables_is_refused() -> None:
    model = keras.Sequential([keras.Input((2,)), kl.Dense(3)])
    model.trainable = False
    for bare in (model, keras.Sequential([keras.Input((2,)), kl.Flatten()])):
        with pytest.raises(TfsmError, match="no trainable variables"):
            flatten(bare)


def test_other_objects_are_refused() -> None:
    with pytest.raises(TfsmError, match="expected a Keras model, got Dense"):
        flatten(kl.Dense(3))


def test_a_subclassed_model_that_keras_cannot_rebuild_is_refused_with_advice() -> None:
    model = Unconfigured(3)
    model(drawn(1, 2))
    assert len(flatten(model)) == 9
    with pytest.raises(TfsmError, match=r"cannot be copied: give its class Unconfigured a get_config\(\)"):
        unflatten(model, np.zeros(9))


def inner(name: str) -> keras.Model:
    return keras.Sequential([keras.Input((3,)), kl.Dense(3, name="dense"), kl.Dense(3, name=f"{name}_last")], name=name)


def plain() -> keras.Model:
    return keras.Sequential([keras.Input((3,)), kl.Dense(4, name="first"), kl.ReLU(), kl.Dense(2, name="second")])


def recurrent() -> keras.Model:
    cell = kl.RNN(DualBiasLSTMCell(3), name="memory", return_sequences=True)
    return keras.Sequential(
        [keras.Input((5, 2)), cell, kl.Bidirectional(kl.GRU(2), name="both"), kl.Dense(1, name="x")]
    )


def frozen() -> keras.Model:
    model = plain()
    model.layers[0].trainable = False
    return model


def nested() -> keras.Model:
    x = keras.Input((3,))
    y = kl.Dense(3, name="dense")(inner("left")(x)) + inner("right")(x)
    return keras.Model(x, kl.Dense(1, name="out")(y))


def wrapped() -> keras.Model:
    eye = kl.TimeDistributed(inner("eye"), name="each")
    return keras.Sequential([keras.Input((5, 3)), eye, kl.TimeDistributed(kl.Dense(1), name="out")])


def shared() -> keras.Model:
    x, twice = keras.Input((3,)), kl.Dense(3, name="twice")
    return keras.Model(x, kl.Dense(1, name="out")(twice(twice(x))))


@keras.saving.register_keras_serializable("tests")
class Own(keras.Model):
    """Holds a weight itself, and two layers of one name."""

    def __init__(self) -> None:
        super().__init__(name="own")
        self.one, self.two = kl.Dense(2, name="same"), kl.Dense(3, name="same")
        self.scale = self.add_weight(shape=(1,), initializer="ones", name="scale")

    def call(self, x: Any) -> Any:
        return self.two(self.one(x)) * self.scale


def subclassed() -> keras.Model:
    model = Own()
    model(np.zeros((1, 4), np.float32))
    return model


CASES_SECTIONS: dict[Callable[[], keras.Model], dict[str, int]] = {
    plain: {"first": 16, "second": 10},
    recurrent: {"memory": 12 * 2 + 12 * 3 + 24, "both": 2 * (6 * 3 + 6 * 2 + 2 * 6), "x": 5},
    frozen: {"second": 10},
    nested: {"left/dense": 12, "left_last": 12, "dense": 12, "right/dense": 12, "right_last": 12, "out": 4},
    wrapped: {"dense": 12, "eye_last": 12, "out": 4},
    shared: {"twice": 12, "out": 4},
    subclassed: {"own": 1, "same": 10, "same:2": 9},
}


@pytest.mark.parametrize("build", CASES_SECTIONS, ids=lambda build: build.__name__)
def test_every_layer_with_weights_has_a_section(build: Callable[[], keras.Model]) -> None:
    found = {section.name: section.size for section in find_sections(build())}
    assert found == CASES_SECTIONS[build]


@pytest.mark.parametrize("build", CASES_SECTIONS, ids=lambda build: build.__name__)
def test_sections_partition_the_genome(build: Callable[[], keras.Model]) -> None:
    model = build()
    genome = flatten(model)
    places = np.concatenate([section.of(np.arange(len(genome))) for section in find_sections(model)])
    assert sorted(places) == list(range(len(genome)))


def test_a_section_selects_the_weights_of_its_layer() -> None:
    model = nested()
    layer = model.get_layer("right").get_layer("dense")
    (section,) = [section for section in find_sections(model) if section.name == "right/dense"]
    own = np.concatenate([np.ravel(variable) for variable in layer.trainable_variables])
    np.testing.assert_array_equal(section.of(flatten(model)), own)
    np.testing.assert_array_equal(section.of(np.stack([flatten(model)] * 2)), np.stack([own] * 2))


def test_separate_ranges_are_concatenated() -> None:
    assert Section("a", ((0, 2), (3, 4))).of(np.array([5, 6, 7, 8])).tolist() == [5, 6, 8]
    assert Section("a", ((0, 2), (3, 4))).size == 3
