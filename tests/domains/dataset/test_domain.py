from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers as kl

from tfsm.errors import TfsmError
from tfsm.models.network import Network
from tfsm_domains.dataset import domain as module
from tfsm_domains.dataset.arrays import Arrays, Examples
from tfsm_domains.dataset.domain import Dataset, draw_evenly

RNG = np.random.default_rng(1)
X, Y = RNG.normal(size=(40, 3)).astype(np.float32), RNG.integers(0, 3, 40)
SEEDS = tf.constant([[1, 2], [3, 4], [5, 6]])


def make(x: Any = X, y: Any = Y, **options: Any) -> Dataset:
    arrays = Arrays(Examples(x, y), Examples(x, y) if options.pop("validates", False) else None)
    return Dataset(data=arrays.digest, arrays=arrays, **options)


def classifier() -> keras.Model:
    return keras.Sequential([keras.Input((3,)), kl.Dense(5, "tanh"), kl.Dense(3, "softmax")])


def convolutional() -> keras.Model:
    x = keras.Input((4, 4, 1))
    return keras.Model(x, kl.Dense(3)(kl.Flatten()(kl.Conv2D(2, 3, activation="relu")(x))))


def genomes(network: Network, count: int = 3) -> tf.Tensor:
    noise = np.random.default_rng(2).normal(size=(count, network.size))
    return tf.constant(network.genome + 0.3 * noise, network.dtype)


def expected_loss(model: keras.Model, x: Any = X, y: Any = Y) -> float:
    return float(np.mean(keras.losses.sparse_categorical_crossentropy(y, model(x))))


def test_fitness_is_minus_the_mean_loss_of_each_network() -> None:
    model = classifier()
    network, domain = Network(model), make().for_model(model)
    lanes = genomes(network)
    found = domain.evaluate(network, lanes, SEEDS)
    for i in range(3):
        child = network.child(lanes[i].numpy())
        assert float(found.fitness[i]) == pytest.approx(-expected_loss(child), rel=1e-5)
        right = np.asarray(child(X)).argmax(axis=1) == Y
        np.testing.assert_allclose(found.behavior[i], [expected_loss(child), right.mean()], rtol=1e-5)
        np.testing.assert_allclose(tf.reduce_mean(found.cases[i]), found.fitness[i], rtol=1e-5)
    assert not found.solved.numpy().any()


def test_chunks_do_not_change_the_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    model = classifier()
    network = Network(model)
    lanes = genomes(network)
    whole = make(batch=20).for_model(model)
    monkeypatch.setattr(module, "ACTIVATIONS", 40)
    parts = make(batch=20).for_model(model)
    assert whole.problem.chunk > 40
    assert parts.problem.chunk == 8
    for domain in (whole, parts):
        domain.observe(domain.evaluate(network, lanes, SEEDS).experience)
    np.testing.assert_allclose(
        whole.evaluate(network, lanes, SEEDS).fitness, parts.evaluate(network, lanes, SEEDS).fitness, rtol=1e-5
    )


@pytest.mark.parametrize("build", [classifier, convolutional])
def test_an_evaluation_does_not_depend_on_the_width(build: Callable[[], keras.Model]) -> None:
    model = build()
    network = Network(model)
    x = RNG.normal(size=(40, *model.input_shape[1:])).astype(np.float32)
    domain = make(x, batch=16, logits=build is convolutional).for_model(model)
    jit = not network.program.reason_against_xla()
    evaluate = tf.function(lambda g, s: domain.evaluate(network, g, s), jit_compile=jit)
    lanes = genomes(network)
    together = evaluate(lanes, SEEDS)
    for i in range(3):
        alone = evaluate(lanes[i : i + 1], SEEDS[i : i + 1])
        tf.nest.map_structure(lambda a, b, at=i: np.testing.assert_array_equal(a[0], b[at]), alone, together)


def test_a_seed_draws_a_mini_batch_and_the_experience_from_it() -> None:
    model = classifier()
    network, domain = Network(model), make(batch=10, remembered=4).for_model(model)
    same = tf.repeat(genomes(network, 1), 3, axis=0)
    found = domain.evaluate(network, same, SEEDS)
    assert len(np.unique(found.fitness)) == 3
    index = draw_evenly(SEEDS, 10, 40).numpy()
    for i in range(3):
        child = network.child(same[i].numpy())
        assert float(found.fitness[i]) == pytest.approx(-expected_loss(child, X[index[i]], Y[index[i]]), rel=1e-5)
        assert set(found.experience[i].numpy()) <= set(index[i])
    assert found.experience.shape == (3, 4)
    np.testing.assert_array_equal(domain.observe(found.experience), X[found.experience.numpy()])


def test_the_experience_is_a_sample_of_the_data_stored_by_index() -> None:
    model = classifier()
    network = Network(model)
    few = make(remembered=7).for_model(model)
    found = few.evaluate(network, genomes(network), SEEDS).experience
    assert found.dtype == tf.int32
    assert few.observe(found).shape == (3, 7, 3)
    every = make(remembered=40).for_model(model)
    assert every.evaluate(network, genomes(network), SEEDS).experience == ()
    np.testing.assert_array_equal(every.observe(())[0], X)


@pytest.mark.parametrize(("count", "available"), [(1, 5), (5, 5), (7, 20), (3, 10)])
def test_draws_are_even_and_cover_everything(count: int, available: int) -> None:
    seeds = tf.constant(np.random.default_rng(0).integers(0, 2**31, (3000, 2)), tf.int32)
    drawn = draw_evenly(seeds, count, available).numpy()
    frequency = np.bincount(drawn.ravel(), minlength=available) / len(drawn)
    np.testing.assert_allclose(frequency, count / available, rtol=0.15)
    assert (np.diff(drawn, axis=1) >= 0).all()
    if available % count == 0:
        assert (np.diff(drawn, axis=1) > 0).all()


def test_a_lucky_mini_batch_is_not_a_solution() -> None:
    model = classifier()
    network = Network(model)
    # Many single examples: whatever the weights, some have a smaller loss than the average, and some a larger one.
    seeds = tf.constant([[i, 7] for i in range(32)])
    lanes = tf.repeat(genomes(network, 1), len(seeds), axis=0)
    losses = -make(batch=1).for_model(model).evaluate(network, lanes, seeds).fitness.numpy()
    average = expected_loss(network.child(lanes[0].numpy()))
    assert losses.min() < average < losses.max()
    lucky = make(batch=1, target=(losses.min() + average) / 2).for_model(model).evaluate(network, lanes, seeds)
    assert not lucky.solved.numpy().any()
    enough = make(batch=1, target=average * 1.01).for_model(model).evaluate(network, lanes, seeds)
    np.testing.assert_array_equal(enough.solved, losses <= average * 1.01)


def test_a_metric_is_the_fitness() -> None:
    model = classifier()
    network, domain = Network(model), make(metric="accuracy", target=0.0).for_model(model)
    found = domain.evaluate(network, genomes(network), SEEDS)
    child = network.child(genomes(network)[0].numpy())
    assert float(found.fitness[0]) == pytest.approx((np.asarray(child(X)).argmax(axis=1) == Y).mean())
    assert found.solved.numpy().all()


def test_validation_data_is_measured_and_not_used_for_fitness() -> None:
    model = classifier()
    network = Network(model)
    lanes = genomes(network)
    with_validation, without = make(validates=True).for_model(model), make().for_model(model)
    measured = with_validation.validate(network, lanes)
    fitness = with_validation.evaluate(network, lanes, SEEDS).fitness
    np.testing.assert_allclose(measured["validation_loss"], -fitness, rtol=1e-5)
    assert set(measured) == {"validation_loss", "validation_accuracy"}
    assert without.validate(network, lanes) == {}
    np.testing.assert_array_equal(without.evaluate(network, lanes, SEEDS).fitness, fitness)


def test_inputs_are_adapted_to_the_model_as_keras_does() -> None:
    model = convolutional()
    network = Network(model)
    x = RNG.normal(size=(40, 4, 4))
    domain = make(x, logits=True).for_model(model)
    assert domain.observe(domain.evaluate(network, genomes(network), SEEDS).experience).shape == (1, 40, 4, 4, 1)


def test_a_network_may_have_several_inputs() -> None:
    a, b = keras.Input((3,), name="a"), keras.Input((2,), name="b")
    model = keras.Model({"a": a, "b": b}, kl.Dense(1)(kl.Concatenate()([a, b])))
    x = {"b": RNG.normal(size=(40, 2)), "a": X}
    y = RNG.normal(size=40)
    network, domain = Network(model), make(x, y, remembered=5).for_model(model)
    found = domain.evaluate(network, genomes(network), SEEDS)
    child = network.child(genomes(network)[1].numpy())
    outputs = np.asarray(child({name: part.astype(np.float32) for name, part in x.items()}))
    assert float(found.fitness[1]) == pytest.approx(-((outputs[:, 0] - y) ** 2).mean(), rel=1e-4)
    assert [part.shape for part in domain.observe(found.experience)] == [(3, 5, 3), (3, 5, 2)]


@pytest.mark.parametrize(
    ("options", "y", "outputs", "activation"),
    [
        ({}, Y, 3, "softmax"),
        ({"logits": True}, Y, 3, "linear"),
        ({}, X, 3, "linear"),
        ({"loss": "mse"}, Y / 2, 1, "linear"),
        ({"loss": "binary_crossentropy"}, Y % 2, 1, "sigmoid"),
        ({"loss": "categorical_crossentropy"}, np.eye(3)[Y], 3, "softmax"),
        ({"metric": "accuracy"}, Y, 3, "softmax"),
    ],
)
def test_the_default_network_fits_the_data(options: Any, y: np.ndarray, outputs: int, activation: str) -> None:
    domain = make(y=y, **options)
    model = domain.network()
    assert model.output_shape == (None, outputs)
    assert model.layers[-1].activation.__name__ == activation
    assert np.isfinite(domain.evaluate(Network(model), genomes(Network(model)), SEEDS).fitness).all()


def test_a_copy_in_another_process_has_the_same_data() -> None:
    domain = make(batch=5).for_model(classifier())
    again = pickle.loads(pickle.dumps(domain))
    assert again == domain
    np.testing.assert_array_equal(again.examples.training.x, X)


def test_a_run_directory_gets_a_copy_of_the_data(tmp_path: Path) -> None:
    domain = make(validates=True)
    (file,) = domain.files().values()
    with np.load(file) as arrays:
        assert sorted(arrays.files) == ["x", "x_validation", "y", "y_validation"]
    saved = tmp_path / "mine.npz"
    np.savez(saved, x=X, y=Y)
    assert Dataset(data=str(saved), validation="0.5").files() == {"data": saved}


def two_outputs() -> keras.Model:
    x = keras.Input((3,))
    return keras.Model(x, [kl.Dense(1)(x), kl.Dense(1)(x)])


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "shape": (lambda: make(X[:, :2]).for_model(classifier()), "takes [N, 3], x has [40, 2]"),
    "labels": (lambda: make(y=Y + 1).for_model(classifier()), "y has the label 3"),
    "logits": (lambda: make().for_model(keras.Sequential([keras.Input((3,)), kl.Dense(3)])), "set logits=yes"),
    "outputs": (lambda: make().for_model(two_outputs()), "has 2 outputs, and a loss on data takes one"),
    "batch": (lambda: make(batch=41), "batch=41: the data has only 40 examples"),
    "both": (lambda: make(loss="mse", metric="mae"), "give a loss or a metric, not both"),
    "inputs": (lambda: make({"a": X, "b": X}).network(), "several inputs, for which there is no default network"),
    "file": (lambda: Dataset(data="none.npz"), "none.npz: no such file"),
    "loss": (lambda: Dataset.from_program((X, Y), None, 3), "loss: expected the name of a Keras loss or a function"),
    "arrays for a file": (lambda: Dataset.from_program("d.npz", (X, Y)), "give a file or a share"),
    "validation": (lambda: Dataset.from_program((X, Y), X), "validation: expected a pair (x, y)"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_is_reported_in_one_line(name: str) -> None:
    call, message = WRONG[name]
    with pytest.raises(TfsmError) as caught:
        call()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_validation_labels_are_checked_too() -> None:
    arrays = Arrays(Examples(X, Y), Examples(X, Y + 1))
    with pytest.raises(TfsmError, match="y_validation has the label 3"):
        Dataset(data="", arrays=arrays).for_model(classifier())
