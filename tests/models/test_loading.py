"""Loading models from files and by function name."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers as kl

from tests.models.architectures import CASES, subclassed
from tfsm.errors import TfsmError
from tfsm.models.genome import flatten
from tfsm.models.loading import check_compatible, describe_model, load_model, load_or_build_model
from tfsm.models.names import check_model_name, is_builder

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


@pytest.mark.sample(7)
@pytest.mark.parametrize("name", PLAIN)
def test_a_saved_model_is_loaded(name: str, tmp_path: Path) -> None:
    model = CASES[name].build()
    model.save(tmp_path / "model.keras")
    for path in (tmp_path / "model.keras", str(tmp_path / "model.keras")):
        np.testing.assert_array_equal(flatten(load_model(path)), flatten(model))


def test_the_training_configuration_does_not_matter(tmp_path: Path) -> None:
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


def test_an_unregistered_class_is_named(tmp_path: Path) -> None:
    @keras.saving.register_keras_serializable("passing")
    class Passing(keras.layers.Layer):
        def call(self, x: object) -> object:
            return x

    model = keras.Sequential([keras.Input((2,)), kl.Dense(2), Passing()])
    model.save(tmp_path / "model.keras")
    np.testing.assert_array_equal(flatten(load_model(tmp_path / "model.keras")), flatten(model))
    del keras.saving.get_custom_objects()["passing>Passing"]
    with pytest.raises(TfsmError, match=r"the class 'Passing' .* import the module that registers it"):
        load_model(tmp_path / "model.keras")
    with keras.saving.custom_object_scope({"passing>Passing": Passing}):
        assert isinstance(load_model(tmp_path / "model.keras").layers[-1], Passing)


def test_a_model_with_nothing_to_mutate_is_refused(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((2,)), kl.Dense(2)])
    model.trainable = False
    model.save(tmp_path / "frozen.keras")
    with pytest.raises(TfsmError, match="no trainable variables"):
        load_model(tmp_path / "frozen.keras")


SOURCE = """
import keras

def build():
    return keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])

class Nets:
    @staticmethod
    def small():
        return build()

def broken():
    raise ValueError("no such size")

def unbuilt():
    return keras.Sequential([keras.layers.Dense(2)])

def nothing():
    return 5

WIDTH = 3
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a working directory with modules."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "own_nets.py").write_text(SOURCE)
    (tmp_path / "own_bad.py").write_text("import no_such_library_at_all\n")
    yield tmp_path
    for name in ("own_nets", "own_bad"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("name", ["own_nets:build", "own_nets:Nets.small"])
def test_a_function_in_the_working_directory_builds(folder: Path, name: str) -> None:
    assert load_or_build_model(name).input_shape == (None, 3)
    assert describe_model(name) == name


def test_a_file_is_loaded_and_identified_by_its_content(folder: Path) -> None:
    load_or_build_model("own_nets:build").save("m.keras")
    assert not is_builder("m.keras")
    assert load_or_build_model("m.keras").output_shape == (None, 2)
    first = describe_model("m.keras")
    assert len(first.rpartition(" ")[2]) == 64
    load_or_build_model("own_nets:build").save("m.keras")
    assert describe_model("m.keras") != first, "other weights, another file"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("own_nets:biuld", "own_nets has no 'biuld', did you mean 'build'?"),
        ("own_net:build", "there is no module 'own_net'"),
        ("own_bad:build", "there is no module 'no_such_library_at_all'; own_bad imports it"),
        ("own_nets:broken", "own_nets:broken failed: ValueError: no such size"),
        ("own_nets:unbuilt", "is not built"),
        ("own_nets:nothing", "expected a Keras model, got int"),
        ("own_nets:WIDTH", "expected a function that builds a model, got int"),
        ("missing.keras", "missing.keras: no such file"),
        ("own_nets.py", "expected a .keras file"),
    ],
)
def test_mistakes_are_reported(folder: Path, name: str, says: str) -> None:
    with pytest.raises(TfsmError) as caught:
        load_or_build_model(name)
    assert says in str(caught.value)


def test_a_missing_file_is_reported_before_any_import(folder: Path) -> None:
    with pytest.raises(TfsmError, match="no such file"):
        check_model_name("missing.keras")
    check_model_name("own_bad:build")


def net(inputs: Any, outputs: int, *between: keras.layers.Layer) -> keras.Model:
    return keras.Sequential([keras.Input(inputs), *between, kl.Dense(outputs)])


def test_a_variable_length_fits_any_length() -> None:
    check_compatible(net((None, 3), 2, kl.LSTM(2)), net((7, 3), 2, kl.LSTM(4)), "mine")
    check_compatible(subclassed(), net((3,), 2), "mine")


def test_inputs_are_matched_by_name() -> None:
    def named(*names: str) -> keras.Model:
        inputs = {name: keras.Input((3,), name=name) for name in names}
        return keras.Model(inputs, kl.Dense(2)(kl.Add()(list(inputs.values()))))

    check_compatible(named("a", "b"), named("b", "a"), "mine")
    with pytest.raises(TfsmError, match=r"its inputs are a: \(N, 3\), c: \(N, 3\), the domain's are a: \(N, 3\), b:"):
        check_compatible(named("a", "c"), named("a", "b"), "mine")


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (lambda: net((4,), 2), r"its inputs are \(N, 4\), the domain's are \(N, 3\)"),
        (lambda: net((3,), 5), r"its outputs are \(N, 5\), the domain's are \(N, 2\)"),
        (lambda: net((6, 3), 2), r"its inputs are \(N, 6, 3\)"),
    ],
)
def test_mismatching_shapes_are_both_reported(model: Any, says: str) -> None:
    with pytest.raises(TfsmError, match=says):
        check_compatible(model(), net((3,), 2), "mine")


def test_a_subclassed_model_is_called_for_its_shapes() -> None:
    with pytest.raises(TfsmError, match=r"cannot take inputs \(N, 4\) \(Input 0"):
        check_compatible(subclassed(), net((4,), 2), "mine")
    with pytest.raises(TfsmError, match=r"its outputs are \(N, 2\), the domain's are \(N, 3\)"):
        check_compatible(subclassed(), net((3,), 3), "mine")
