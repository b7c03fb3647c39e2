from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers as kl

from tfsm.models.genome import Section, flatten, sections
from tfsm.models.loading import DualBiasLSTMCell


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


CASES: dict[Callable[[], keras.Model], dict[str, int]] = {
    plain: {"first": 16, "second": 10},
    recurrent: {"memory": 12 * 2 + 12 * 3 + 24, "both": 2 * (6 * 3 + 6 * 2 + 2 * 6), "x": 5},
    frozen: {"second": 10},
    nested: {"left/dense": 12, "left_last": 12, "dense": 12, "right/dense": 12, "right_last": 12, "out": 4},
    wrapped: {"dense": 12, "eye_last": 12, "out": 4},
    shared: {"twice": 12, "out": 4},
    subclassed: {"own": 1, "same": 10, "same:2": 9},
}


@pytest.mark.parametrize("build", CASES, ids=lambda build: build.__name__)
def test_every_layer_with_weights_is_named_and_has_its_own(build: Callable[[], keras.Model]) -> None:
    found = {section.name: section.size for section in sections(build())}
    assert found == CASES[build]


@pytest.mark.parametrize("build", CASES, ids=lambda build: build.__name__)
def test_together_they_are_the_genome_and_none_of_it_twice(build: Callable[[], keras.Model]) -> None:
    model = build()
    genome = flatten(model)
    places = np.concatenate([section.of(np.arange(len(genome))) for section in sections(model)])
    assert sorted(places) == list(range(len(genome)))


def test_the_weights_cut_out_are_the_layers_own() -> None:
    model = nested()
    layer = model.get_layer("right").get_layer("dense")
    (section,) = [section for section in sections(model) if section.name == "right/dense"]
    own = np.concatenate([np.ravel(variable) for variable in layer.trainable_variables])
    np.testing.assert_array_equal(section.of(flatten(model)), own)
    np.testing.assert_array_equal(section.of(np.stack([flatten(model)] * 2)), np.stack([own] * 2))


def test_places_apart_are_joined() -> None:
    assert Section("a", ((0, 2), (3, 4))).of(np.array([5, 6, 7, 8])).tolist() == [5, 6, 8]
    assert Section("a", ((0, 2), (3, 4))).size == 3
