from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers as kl

from tests.models.architectures import CASES
from tfsm.errors import TfsmError
from tfsm.models.genome import flatten
from tfsm.models.loading import load_model

PLAIN = [
    "dense",
    "nested",
    "batch normalization",
    "inputs by name",
    "operations",
    "a constant of the graph",
    "masked embedding",
    "attention by keywords",
    "subclassed",
    "two biases",
    "conv lstm",
]


@pytest.mark.parametrize("name", PLAIN)
def test_a_saved_model_comes_back(name: str, tmp_path: Path) -> None:
    model = CASES[name].build()
    model.save(tmp_path / "model.keras")
    for path in (tmp_path / "model.keras", str(tmp_path / "model.keras")):
        np.testing.assert_array_equal(flatten(load_model(path)), flatten(model))


def test_what_a_model_was_trained_with_does_not_matter(tmp_path: Path) -> None:
    def own_loss(y: Any, z: Any) -> Any:
        return keras.ops.mean(keras.ops.square(y - z))

    model = keras.Sequential([keras.Input((2,)), kl.Dense(2, activation="gelu", kernel_regularizer="l2")])
    model.compile("adam", own_loss)
    model.fit(np.ones((2, 2)), np.ones((2, 2)), verbose=0)
    model.save(tmp_path / "trained.keras")
    np.testing.assert_array_equal(flatten(load_model(tmp_path / "trained.keras")), flatten(model))


def test_words_of_a_vocabulary_may_look_like_paths(tmp_path: Path) -> None:
    words = ["..", "/etc/passwd", "http://x"]
    inputs = keras.Input((1,), dtype="string")
    numbers = kl.StringLookup(vocabulary=words)(inputs)
    model = keras.Model(inputs, kl.Dense(1)(kl.Embedding(4, 2)(numbers)))
    model.save(tmp_path / "words.keras")
    lookup = next(layer for layer in load_model(tmp_path / "words.keras").layers if isinstance(layer, kl.StringLookup))
    assert lookup.get_vocabulary(include_special_tokens=False) == words


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TfsmError, match=r"model\.txt: expected a \.keras file"):
        load_model(tmp_path / "model.txt")
    with pytest.raises(TfsmError, match=r"model\.keras: no such file"):
        load_model(tmp_path / "model.keras")
    (tmp_path / "folder.keras").mkdir()
    with pytest.raises(TfsmError, match=r"folder\.keras: is a directory"):
        load_model(tmp_path / "folder.keras")
    (tmp_path / "junk.keras").write_bytes(b"junk")
    with pytest.raises(TfsmError, match=r"junk\.keras: cannot load the model: not a \.keras archive"):
        load_model(tmp_path / "junk.keras")


def test_a_class_that_nobody_registered_is_named(tmp_path: Path) -> None:
    @keras.saving.register_keras_serializable("passing")
    class Passing(keras.layers.Layer):
        def call(self, x: object) -> object:
            return x

    model = keras.Sequential([keras.Input((2,)), kl.Dense(2), Passing()])
    model.save(tmp_path / "model.keras")
    np.testing.assert_array_equal(flatten(load_model(tmp_path / "model.keras")), flatten(model))
    del keras.saving.get_custom_objects()["passing>Passing"]
    with pytest.raises(TfsmError, match=r"the class 'Passing' .* Import what registers it"):
        load_model(tmp_path / "model.keras")
    with keras.saving.custom_object_scope({"passing>Passing": Passing}):
        assert isinstance(load_model(tmp_path / "model.keras").layers[-1], Passing)


def test_a_model_with_nothing_to_mutate_is_refused(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((2,)), kl.Dense(2)])
    model.trainable = False
    model.save(tmp_path / "frozen.keras")
    with pytest.raises(TfsmError, match="no trainable variables"):
        load_model(tmp_path / "frozen.keras")
