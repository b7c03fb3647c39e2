from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfsm.errors import TfsmError
from tfsm_domains.dataset.objective import (
    Objective,
    check_measure,
    check_outputs,
    choose_accuracy,
    choose_loss,
    choose_metric,
    fit_targets,
    per_example,
)

LABELS = np.array([0, 2, 1, 2])
RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(4, 3)).astype(np.float32)
PROBABILITIES = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
ONE_HOT = np.eye(3, dtype=np.float32)[LABELS]


def value(objective: Objective, y: np.ndarray, outputs: np.ndarray) -> np.ndarray:
    fitted = fit_targets(objective, y, outputs.shape[1:])
    check_measure(objective, fitted, outputs)
    return np.asarray(per_example(objective.measure, tf.constant(fitted)[None], tf.constant(outputs)[None])[0])


def loss(name: Any, y: np.ndarray, outputs: np.ndarray, *, logits: bool = False) -> np.ndarray:
    return value(choose_loss(name, y, outputs.shape[1:], logits=logits), y, outputs)


def test_the_loss_of_labels_is_minus_the_log_probability() -> None:
    expected = -np.log(PROBABILITIES[np.arange(4), LABELS])
    for name in (None, "sparse_categorical_crossentropy", "SparseCategoricalCrossentropy"):
        np.testing.assert_allclose(loss(name, LABELS, PROBABILITIES), expected, rtol=1e-5)
        np.testing.assert_allclose(loss(name, LABELS[:, None], PROBABILITIES), expected, rtol=1e-5)
        np.testing.assert_allclose(loss(name, LABELS, LOGITS, logits=True), expected, rtol=1e-5)
    np.testing.assert_allclose(loss("categorical_crossentropy", ONE_HOT, PROBABILITIES), expected, rtol=1e-5)


def test_the_loss_of_numbers_is_the_squared_error() -> None:
    y, outputs = RNG.normal(size=4), RNG.normal(size=(4, 1)).astype(np.float32)
    np.testing.assert_allclose(loss(None, y, outputs), (y - outputs[:, 0]) ** 2, rtol=1e-4)
    y, outputs = RNG.normal(size=(4, 5, 2)), RNG.normal(size=(4, 5, 2)).astype(np.float32)
    np.testing.assert_allclose(loss("mse", y, outputs), ((y - outputs) ** 2).mean(axis=(1, 2)), rtol=1e-4)


def test_a_function_of_the_user_is_a_loss() -> None:
    found = loss(lambda y, outputs: tf.abs(tf.cast(y, tf.float32) - outputs[:, 0]), LABELS, LOGITS)
    np.testing.assert_allclose(found, np.abs(LABELS - LOGITS[:, 0]), rtol=1e-5)


def test_labels_of_sequences_have_one_loss_per_example() -> None:
    y = RNG.integers(0, 3, (4, 6))
    outputs = np.full((4, 6, 3), 1 / 3, np.float32)
    np.testing.assert_allclose(loss(None, y, outputs), np.full(4, np.log(3)), rtol=1e-5)


@pytest.mark.parametrize("lanes", [1, 3])
def test_each_lane_has_its_own_values(lanes: int) -> None:
    outputs = np.stack([np.roll(PROBABILITIES, i, axis=0) for i in range(lanes)])
    measure = keras.losses.sparse_categorical_crossentropy
    found = per_example(measure, tf.constant(LABELS)[None], tf.constant(outputs))
    for i in range(lanes):
        np.testing.assert_allclose(found[i], loss(None, LABELS, outputs[i]), rtol=1e-6)


DIRECTIONS = {
    "accuracy": True,
    "sparse_categorical_accuracy": True,
    "cosine_similarity": True,
    "mse": False,
    "mean_absolute_error": False,
    "sparse_categorical_crossentropy": False,
    "KLDivergence": False,
}


@pytest.mark.parametrize("name", DIRECTIONS)
def test_a_metric_has_the_direction_that_keras_declares(name: str) -> None:
    found = choose_metric(name, LABELS, (3,), logits=False)
    assert found.higher_is_better == DIRECTIONS[name]
    better, worse = (2.0, 1.0) if found.higher_is_better else (1.0, 2.0)
    assert found.fitness(better) > found.fitness(worse)
    assert found.reaches(better, 1.5)
    assert not found.reaches(worse, 1.5)
    assert not found.reaches(float("nan"), 1.5)


def test_accuracy_is_that_of_labels_classes_or_single_numbers() -> None:
    right = PROBABILITIES.argmax(axis=1) == LABELS
    for y in (LABELS, ONE_HOT):
        np.testing.assert_array_equal(value(choose_accuracy(y, (3,), logits=False), y, PROBABILITIES), right)
    y, outputs = np.array([0, 1, 1]), np.array([[0.4], [0.6], [0.3]], np.float32)
    np.testing.assert_array_equal(value(choose_accuracy(y, (1,), logits=False), y, outputs), [1, 1, 0])
    np.testing.assert_array_equal(value(choose_accuracy(y, (1,), logits=True), y, outputs), [0, 1, 1])


def probabilities(name: str, outputs: np.ndarray) -> None:
    check_outputs(choose_loss(name, LABELS, outputs.shape[1:], logits=False), outputs, logits=False)


WRONG: dict[str, tuple[Any, str]] = {
    "loss": (lambda: loss("mean_squared_eror", LABELS, LOGITS), "loss=mean_squared_eror: Keras has no such loss, did"),
    "metric": (lambda: choose_metric("acuracy", LABELS, (3,), logits=False), "did you mean 'accuracy'?"),
    "metric with a state": (lambda: choose_metric("AUC", LABELS, (3,), logits=False), "it has no value per example"),
    "metric with arguments": (lambda: choose_metric("MeanIoU", LABELS, (3,), logits=False), "no value per example"),
    "label too large": (lambda: loss(None, LABELS + 1, PROBABILITIES), "y has the label 3, but the network has 3"),
    "negative label": (lambda: loss(None, LABELS - 1, PROBABILITIES), "y has the label -1"),
    "half a label": (
        lambda: loss("sparse_categorical_crossentropy", LABELS + 0.5, PROBABILITIES),
        "y must be class labels 0, 1, ..., got 0.5",
    ),
    "one-hot labels": (
        lambda: loss("sparse_categorical_crossentropy", ONE_HOT, PROBABILITIES),
        "y has shape [3], expected one class label for each of the network's outputs [3]",
    ),
    "labels without sparse": (
        lambda: loss("categorical_crossentropy", LABELS, PROBABILITIES),
        "for class labels use sparse_categorical_crossentropy",
    ),
    "shapes": (lambda: loss("mse", np.zeros((4, 2)), LOGITS), "y has shape [2], but mean_squared_error compares it"),
    "loss of a batch": (lambda: loss("dice", ONE_HOT, PROBABILITIES), "expected a number for each"),
    "failing loss": (lambda: loss(lambda y, o: 1 / 0, LABELS, LOGITS), "ZeroDivisionError: division by zero"),
    "logits of mse": (lambda: loss("mse", ONE_HOT, LOGITS, logits=True), "loss=mse takes no logits"),
    "logits": (
        lambda: probabilities("sparse_categorical_crossentropy", LOGITS),
        "takes probabilities, and the network's outputs are not",
    ),
    "no sigmoid": (lambda: probabilities("binary_crossentropy", 3 * LOGITS[:, :1]), "end it with a sigmoid, or set"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_is_reported_in_one_line(name: str) -> None:
    call, message = WRONG[name]
    with pytest.raises(TfsmError) as caught:
        call()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_probabilities_are_accepted() -> None:
    probabilities("sparse_categorical_crossentropy", PROBABILITIES)
    probabilities("binary_crossentropy", PROBABILITIES[:, :1])
    probabilities("mean_squared_error", LOGITS)
