from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.domains.hard_maze.mazes import ROOM_FILE
from tfsm.evolution.initialization import Initializer
from tfsm.kernels.random import fold_in, root_seed
from tfsm.models.network import Network
from tfsm_domains.hard_maze import domain as hardmaze
from tfsm_domains.hard_maze.domain import HardMaze


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> HardMaze:
    file: Path = tmp_path_factory.mktemp("maze") / "room.toml"
    file.write_text(ROOM_FILE)
    return HardMaze(maze=str(file), remembered=4)


def draw_genomes(network: Network, count: int) -> tf.Tensor:
    return Initializer().genomes(network, fold_in(root_seed(0), 0, tf.range(count)))


@pytest.mark.parametrize(
    ("name", "weights", "layers"),
    [
        ("HardMaze", 1_266, 18),
        ("HardMaze32", 505_752, 34),
        ("HardMaze64", 1_009_752, 66),
        ("HardMaze101", 238_226, 103),
    ],
)
def test_the_networks_are_the_papers(name: str, weights: int, layers: int) -> None:
    model = getattr(hardmaze, name)().network()
    assert model.count_params() == weights
    assert sum("dense" in type(layer).__name__.lower() for layer in model.layers) == layers
    assert (model.input_shape, model.output_shape) == ((None, 11), (None, 2))


@pytest.mark.sample(5)
@pytest.mark.parametrize("name", ["HardMaze32", "HardMaze101"])
def test_skip_connections_span_four_layers(name: str) -> None:
    model = getattr(hardmaze, name)().network()
    skips = [layer for layer in model.layers if type(layer).__name__ == "Add"]
    assert len(skips) == getattr(hardmaze, name).layers // 4
    # With zero weights and biases all tanh layers output 0, so only the skip connections reach the output.
    weights = model.get_weights()
    for i, array in enumerate(weights):
        if 1 < i < len(weights) - 2:
            weights[i] = np.zeros_like(array)
    model.set_weights(weights)
    outputs = model.predict(np.eye(11, dtype=np.float32), verbose=0)
    carried = len(np.unique(outputs[:, 0])) > 1
    assert carried == (getattr(hardmaze, name).layers % 4 == 0)


@pytest.mark.slow
def test_fitness_is_the_remaining_path_and_behavior_the_final_position(small: HardMaze) -> None:
    network = Network(small.network())
    genomes = draw_genomes(network, 3)
    found = small.evaluate(network, genomes, tf.zeros([3, 2], tf.int32))
    rolled = small.simulate(network, genomes)
    np.testing.assert_allclose(found.behavior, rolled.end.position, rtol=1e-6)
    np.testing.assert_allclose(-found.fitness.numpy(), small.path_length.at(rolled.end.position), rtol=1e-6)


@pytest.mark.slow
def test_recorded_inputs_were_observed_and_depend_on_the_seed(small: HardMaze) -> None:
    network = Network(small.network())
    genomes = draw_genomes(network, 2)
    seen = small.simulate(network, genomes).seen.numpy()
    assert seen.shape == (2, 7, 11)
    kept = [small.evaluate(network, genomes, tf.constant([[s, 0]] * 2)).experience.numpy() for s in (0, 1)]
    for one in kept:
        assert one.shape == (2, 4, 11)
        for lane in range(2):
            rows = [tuple(row) for row in seen[lane]]
            assert all(tuple(row) in rows for row in one[lane])
    assert any(not np.array_equal(*(one[lane] for one in kept)) for lane in range(2))


@pytest.mark.slow
def test_a_network_with_outputs_that_are_not_finite_is_broken(small: HardMaze) -> None:
    network = Network(small.network())
    genomes = draw_genomes(network, 2).numpy()
    genomes[1] = np.nan
    found = small.evaluate(network, tf.constant(genomes), tf.zeros([2, 2], tf.int32))
    assert np.isfinite(found.fitness[0])
    assert np.isnan(found.fitness[1])


@pytest.mark.slow
def test_a_film_shows_the_evaluated_episode(small: HardMaze) -> None:
    network = Network(small.network())
    genomes = draw_genomes(network, 3)
    film = small.film(network, genomes, tf.zeros([3, 2], tf.int32))
    found = tf.function(
        lambda own: small.evaluate(network, own, tf.zeros([3, 2], tf.int32)), jit_compile=True, autograph=False
    )(genomes)
    np.testing.assert_array_equal(film.trails[:, -1, :2].astype(np.float32), found.behavior)  # type: ignore[attr-defined]
    assert len(film) == 21
    first, last = film.frame(0), film.frame(20)
    assert first.shape == last.shape == film.still().shape
    assert first.dtype == np.uint8
    assert (first != last).any()
    assert first.shape[0] % 2 == first.shape[1] % 2 == 0, "video formats need even sizes"


@pytest.mark.slow
def test_a_robot_is_drawn_where_it_is(small: HardMaze) -> None:
    network = Network(small.network())
    film = small.film(network, draw_genomes(network, 1), tf.zeros([1, 2], tf.int32))
    blue = (np.abs(film.frame(0).astype(int) - [0, 90, 170]) < 12).all(axis=-1)
    rows, columns = np.nonzero(blue)
    height, width = blue.shape
    # The start is (20, 50) in a room of 100 by 100, under a line of text.
    assert columns.mean() / width == pytest.approx(0.21, abs=0.04)
    assert rows.mean() / height == pytest.approx(0.53, abs=0.04)


def test_end_points_are_drawn_from_light_to_dark(small: HardMaze) -> None:
    blank = small.picture(np.array([10, 20]), np.zeros([2, 0, 2])).astype(int)
    places = np.array([[[20.0, 20.0]], [[80.0, 80.0]]])
    picture = small.picture(np.array([10, 20]), places).astype(int)
    height, width, _ = picture.shape
    drawn = np.abs(picture - blank).sum(axis=-1) > 60
    halves = {"early": np.s_[: height // 2, : width // 2], "late": np.s_[height // 2 :, width // 2 :]}
    brightness = {name: picture[half][drawn[half]].mean() for name, half in halves.items()}
    assert drawn.sum() == sum(drawn[half].sum() for half in halves.values()) > 8
    assert brightness["late"] < brightness["early"] - 40
