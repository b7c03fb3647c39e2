from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers as kl

from tests.models.architectures import CASES, subclassed
from tests.models.plain import drawn
from tfsm.errors import TfsmError
from tfsm.models.inputs import prepare_inputs


def test_experience_is_read_without_tensorflow(tmp_path: Path) -> None:
    # Commands report a mistake in a file first, and then start TensorFlow with its notices switched off.
    np.save(tmp_path / "x.npy", drawn(4, 3))
    program = (
        "import sys; from tfsm.models.inputs import read_experience; print(read_experience('x.npy').shape, end=' ')"
    )
    program += "; print('tensorflow' in sys.modules, 'keras' in sys.modules)"
    environ = {"PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environ, capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("(4, 3) False False\n", "")


def dense(**inputs: Any) -> keras.Model:
    return keras.Sequential([keras.Input((3,), name="state", **inputs), kl.Dense(2)])


@pytest.mark.parametrize(
    "experience",
    [drawn(4, 3), drawn(4, 3).tolist(), drawn(4, 3).astype(np.float64), tf.constant(drawn(4, 3)), (drawn(4, 3),)],
)
def test_any_kind_of_array_becomes_a_tensor_of_the_models_type(experience: Any) -> None:
    (tensor,) = prepare_inputs(dense(), experience)
    assert tensor.dtype == tf.float32
    np.testing.assert_array_equal(tensor, drawn(4, 3))


def test_whole_numbers_and_bools_are_numbers() -> None:
    for array in (np.eye(3, dtype=int), np.eye(3, dtype=bool)):
        np.testing.assert_array_equal(prepare_inputs(dense(), array)[0], np.eye(3))


def test_the_models_type_is_kept() -> None:
    assert prepare_inputs(dense(dtype="float64"), drawn(4, 3))[0].dtype == tf.float64
    assert prepare_inputs(CASES["embedding"].build(), np.ones((2, 5)))[0].dtype == tf.int32


def test_a_missing_last_axis_of_one_is_added_as_keras_does() -> None:
    model = keras.Sequential([keras.Input((4, 1)), kl.SimpleRNN(2)])
    assert prepare_inputs(model, drawn(5, 4))[0].shape == (5, 4, 1)


def test_several_inputs_are_a_list_a_tuple_or_a_dictionary() -> None:
    model, a, b = CASES["two inputs"].build(), drawn(5, 4), drawn(5, 3)
    for experience in ([a, b], (a, b), {x.name: y for x, y in zip(model.inputs, (a, b), strict=True)}):
        for found, expected in zip(prepare_inputs(model, experience), (a, b), strict=True):
            np.testing.assert_array_equal(found, expected)


def test_names_are_put_in_the_models_order() -> None:
    model = CASES["inputs by name"].build()
    shapes = [tuple(x.shape) for x in prepare_inputs(model, {"b": drawn(5, 3), "a": drawn(5, 2)})]
    assert shapes == [(5, *x.shape[1:]) for x in model.inputs]


def test_a_subclassed_model_accepts_any_structure() -> None:
    np.testing.assert_array_equal(prepare_inputs(subclassed(), drawn(4, 3))[0], drawn(4, 3))


@pytest.mark.parametrize(
    ("experience", "message"),
    [
        (np.zeros((0, 3)), "the experience is empty"),
        (np.zeros((4, 2)), r"input 'state' of the model takes \[N, 3\], the experience has \[4, 2\]"),
        (np.zeros(3), r"takes \[N, 3\], the experience has \[3\]"),
        (np.zeros((4, 3, 1)), r"takes \[N, 3\], the experience has \[4, 3, 1\]"),
        (1.0, "got a single number"),
        ([[1.0, 2.0], [3.0]], "not an array"),
        ("abc", "must be numbers, got an array of"),
        ([["a", "b", "c"]], "must be numbers"),
        (None, "must be numbers, got an array of object"),
        (np.full((2, 3), np.nan), "NaN or infinite"),
        ([[0.0, 1.0, np.inf]], "NaN or infinite"),
        (np.full((2, 3), 1e300), "values too large for float32"),
        ((np.zeros((4, 3)), np.zeros((4, 3))), "takes 1 inputs, the experience has 2"),
        ({"stat": np.zeros((4, 3))}, "the model's inputs are state; the experience has stat"),
    ],
)
def test_mismatching_inputs_are_refused_with_the_expected_shape(experience: Any, message: str) -> None:
    with pytest.raises(TfsmError, match=message):
        prepare_inputs(dense(), experience)


def test_inputs_must_have_equal_numbers_of_examples() -> None:
    with pytest.raises(TfsmError, match="must have the same length, got 5, 6"):
        prepare_inputs(CASES["two inputs"].build(), [drawn(5, 4), drawn(6, 3)])
