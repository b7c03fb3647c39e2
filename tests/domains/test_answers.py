"""Films of the domains in which nothing moves: parity, the simple model and data."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfsm.abilities import SupportsFilm
from tfsm.models.network import Network, build_network
from tfsm_domains.dataset.arrays import Arrays, Examples
from tfsm_domains.dataset.domain import Dataset
from tfsm_domains.parity.parity import Parity
from tfsm_domains.toy.simple import SimpleWashout

pytest.importorskip("pygame")
SEEDS = np.zeros([3, 2], np.int32)


def make_film(domain: Any, genomes: np.ndarray | None = None, model: keras.Model | None = None) -> Any:
    assert isinstance(domain, SupportsFilm)
    network = Network(domain.network()) if model is None else build_network(model, ())
    drawn = np.random.default_rng(0).normal(size=[3, network.size]) if genomes is None else genomes
    film = domain.film(network, tf.constant(drawn, tf.float32), tf.constant(SEEDS[: len(drawn)]))
    picture = film.still()
    assert picture.dtype == np.uint8
    assert picture.shape[2] == 3
    return film


def make_dataset(x: Any, y: Any, **options: Any) -> Dataset:
    arrays = Arrays(Examples.of((np.asarray(x, np.float32), np.asarray(y)), "data"))
    return Dataset(data=arrays.digest, arrays=arrays, **options)


def test_parity_shows_the_probability_of_odd() -> None:
    domain = Parity(bits=3)
    film = make_film(domain)
    network = Network(domain.network())
    genomes = tf.constant(np.random.default_rng(0).normal(size=[3, network.size]), tf.float32)
    evaluation = domain.evaluate(network, genomes, SEEDS)
    np.testing.assert_allclose(film.answers, evaluation.behavior, rtol=1e-5)
    np.testing.assert_array_equal(film.targets, [0, 1, 1, 0, 1, 0, 0, 1])
    assert film.inputs.shape == (8, 1, 3)
    right = int(domain.performance(evaluation)[0])
    assert film.caption(8).startswith(f"{right} of 8 right, mutants ")


def test_long_sequences_are_thinned_out() -> None:
    assert make_film(Parity(bits=6)).answers.shape == (3, 16)


def test_the_simple_model_shows_both_outputs_of_all_pairs() -> None:
    film = make_film(SimpleWashout(), np.array([[0.01, 10.0]]))
    np.testing.assert_allclose(film.answers, [[1.0, 1.0, -1.0, -1.0]], rtol=1e-5)
    assert film.caption(4) == "squared error 0"


def test_classes_show_how_far_the_right_one_is_ahead() -> None:
    x = np.eye(3)[[0, 1, 2, 1]]
    domain = make_dataset(x, [0, 1, 2, 0])
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(3, "softmax", use_bias=False)])
    film = make_film(domain.for_model(model), 5.0 * np.eye(3).reshape(1, -1), model)
    assert film.caption(4) == "3 of 4 right"
    assert (film.answers[0, :3] > 0.9).all()
    assert film.answers[0, 3] < -0.9


@pytest.mark.parametrize(("y", "loss"), [([0, 1, 1], "binary_crossentropy"), ([[0.0], [4.0], [-2.0]], None)])
def test_probabilities_and_numbers_are_shown_as_they_are(y: Any, loss: str | None) -> None:
    domain = make_dataset([[0.0], [1.0], [2.0]], y, loss=loss, layers=1, units=2)
    film = make_film(domain)
    network = Network(domain.network())
    genomes = tf.constant(np.random.default_rng(0).normal(size=[3, network.size]), tf.float32)
    outputs = network.rows(genomes, tf.constant([[[0.0], [1.0], [2.0]]]))
    np.testing.assert_allclose(film.answers, outputs[..., 0], rtol=1e-5)
    np.testing.assert_array_equal(film.targets, np.ravel(y))
    assert (film.middle is None) == (loss is None)


def test_images_are_shown_as_images() -> None:
    x = np.random.default_rng(0).uniform(size=[5, 6, 4, 3])
    film = make_film(make_dataset(x, [0, 1, 0, 1, 0], layers=1))
    assert film.inputs.shape == (5, 6, 4)
    assert film.inputs.min() >= 0
    assert film.inputs.max() <= 1
