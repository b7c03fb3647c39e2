from __future__ import annotations

import functools
import pickle
from collections.abc import Sequence

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.domains.hard_maze.mazes import room
from tests.reference import hard_maze as reference
from tfsm.evolution.initialization import Initializer
from tfsm.kernels.random import fold_in, root_seed
from tfsm.models.network import Network
from tfsm_domains.hard_maze.domain import HardMaze
from tfsm_domains.hard_maze.maze import Maze, read_maze
from tfsm_domains.hard_maze.robot import sense, simulate, start_robots

PAPER = read_maze()
EDGES = [[0.0, 0.0], [1.0, 1.0], [0.5, 1.0], [1.0, 0.5], [0.0, 1.0], [1.0, 0.0], [0.5, 0.5], [0.52, 1.0], [0.47, 0.9]]


@functools.cache
def constant_simulations(
    maze: Maze = PAPER, count: int = 64, hold: int = 3
) -> tf.types.experimental.PolymorphicFunction:
    return tf.function(
        lambda act: simulate(maze, lambda seen: act, count, hold, trail=True), jit_compile=True, autograph=False
    )


def reference_trail(outputs: Sequence[float], maze: Maze = PAPER) -> np.ndarray:
    poses = reference.rolled(
        maze.walls, maze.start, maze.heading, maze.goal, lambda seen: list(outputs), steps=maze.steps
    )
    return np.array(poses)


def test_the_first_reading_has_known_values() -> None:
    robot = start_robots(PAPER, 1)
    known = [1, 1, 0.81556, 0.55243, 0.24071, 0.17383, 0.29353, 0, 0, 0, 1]
    np.testing.assert_allclose(sense(PAPER, robot.position, robot.heading)[0], known, atol=5e-6)


def test_constant_actions_agree_with_the_reference() -> None:
    outputs = np.concatenate([EDGES, np.random.default_rng(0).random((24 - len(EDGES), 2))]).astype(np.float32)
    trails = constant_simulations(count=24)(tf.constant(outputs)).trail.numpy()
    for trail, own in zip(trails, outputs, strict=True):
        np.testing.assert_allclose(trail, reference_trail([float(o) for o in own]), atol=1e-9)


@settings(max_examples=30, deadline=None)
@given(st.floats(4, 195), st.floats(4, 203), st.floats(0, 360))
def test_sensors_agree_with_the_reference_everywhere(x: float, y: float, heading: float) -> None:
    found = sense(PAPER, tf.constant([[x, y]], tf.float64), tf.constant([heading], tf.float64)).numpy()[0]
    expected = reference.sensors(x, y, heading, PAPER.walls, PAPER.goal)
    np.testing.assert_array_equal(found[7:].sum(), 1)
    off = np.abs(found[1:7] - expected[1:7]) > 2e-4
    # A ray that passes close to the end of a wall may hit or miss it, so compare tiny offsets on both sides.
    for i in np.flatnonzero(off):
        sides = [reference.sensors(x, y, heading + turn, PAPER.walls, PAPER.goal)[1 + i] for turn in (-0.01, 0.01)]
        assert min(sides) - 1e-2 <= found[1 + i] <= max(sides) + 1e-2


@pytest.mark.parametrize(
    ("heading", "slice_"), [(0.0, 0), (315.0, 1), (270.0, 1), (180.0, 2), (90.0, 3), (45.0, 0), (44.0, 0), (46.0, 3)]
)
def test_the_compass_has_four_slices(heading: float, slice_: int) -> None:
    maze = room(start=(20.0, 50.0), goal=(80.0, 50.0))  # straight along the x axis
    seen = sense(maze, tf.constant([[20.0, 50.0]], tf.float64), tf.constant([heading], tf.float64)).numpy()[0, 7:]
    assert seen.argmax() == slice_


def test_a_network_steers_as_in_the_reference() -> None:
    rng = np.random.default_rng(1)
    weights = tf.constant(rng.normal(size=(4, 11, 2)))
    steer = tf.function(
        lambda: simulate(
            PAPER, lambda s: tf.sigmoid(tf.einsum("bi,bio->bo", tf.cast(s, tf.float64), weights)), 4, 3, trail=True
        ),
        jit_compile=True,
        autograph=False,
    )
    trails = steer().trail.numpy()
    for trail, own in zip(trails, weights.numpy(), strict=True):
        expected = reference.rolled(
            PAPER.walls,
            PAPER.start,
            0.0,
            PAPER.goal,
            lambda seen, own=own: (1 / (1 + np.exp(-np.asarray(seen) @ own))).tolist(),  # type: ignore[misc]
        )
        np.testing.assert_allclose(trail, np.array(expected), atol=1e-3)


def test_the_network_is_called_every_third_step_and_its_inputs_are_recorded() -> None:
    found = constant_simulations()(tf.fill([64, 2], 0.8))
    assert found.seen.shape == (64, 134, 11)
    every_third = sense(PAPER, found.trail[:, 0:400:3, :2], found.trail[:, 0:400:3, 2])
    np.testing.assert_allclose(found.seen, every_third, atol=1e-6)


@pytest.mark.parametrize(("steps", "hold"), [(7, 3), (1, 3), (6, 1), (5, 10)])
def test_a_roll_out_has_exactly_its_steps(steps: int, hold: int) -> None:
    maze = room(steps=steps)
    found = simulate(maze, lambda seen: tf.fill([2, 2], 1.0), 2, hold, trail=True)
    assert found.trail.shape == (2, steps + 1, 3)
    assert found.seen.shape[1] == -(-steps // hold)
    np.testing.assert_array_equal(found.trail[:, -1, :2], found.end.position)
    np.testing.assert_allclose(found.end.speed, min(3.0, 0.2 * steps))


@pytest.mark.slow
def test_a_robot_stops_before_a_wall_but_keeps_its_speed_and_turns() -> None:
    maze = room(steps=200, goal=(20.0, 80.0))
    end = simulate(maze, lambda seen: tf.constant([[0.5, 1.0]] * 2), 2, 3).end
    assert 100 - 8 - 3 < float(end.position[0, 0]) <= 92
    assert float(end.speed[0]) == 3.0
    turned = simulate(maze, lambda seen: tf.constant([[0.6, 1.0]] * 2), 2, 3).end
    np.testing.assert_allclose(turned.turning, 0.6, rtol=1e-6)


def test_passing_the_goal_once_solves_the_maze() -> None:
    maze = room(steps=100)  # drives past the goal and on to the wall
    found = simulate(maze, lambda seen: tf.constant([[0.5, 1.0], [0.5, 0.5]]), 2, 3)
    assert found.reached.numpy().tolist() == [True, False]
    assert abs(float(found.end.position[0, 0]) - 80) > maze.reach


@pytest.mark.slow
@pytest.mark.parametrize(
    "how", ["xla", pytest.param("graph", marks=pytest.mark.slow), pytest.param("eager", marks=pytest.mark.slow)]
)
def test_a_robot_moves_identically_alone_and_in_a_batch(how: str) -> None:
    domain = HardMaze()
    network = Network(domain.network())
    genomes = Initializer().genomes(network, fold_in(root_seed(0), 0, tf.range(5)))

    def roll_out(own: tf.Tensor) -> tf.Tensor:
        return domain.simulate(network, own, trail=True).trail

    call = roll_out if how == "eager" else tf.function(roll_out, jit_compile=how == "xla", autograph=False)
    together = call(genomes).numpy()
    np.testing.assert_array_equal(call(genomes[4:]).numpy()[0], together[4])
    np.testing.assert_array_equal(call(genomes[2:4]).numpy(), together[2:4])
    assert len(np.unique(together[:, -1], axis=0)) == 5


@pytest.mark.slow
def test_a_domain_can_be_pickled() -> None:
    domain = HardMaze(hold=5)
    domain.evaluate(network := Network(domain.network()), tf.zeros([2, network.size]), tf.zeros([2, 2], tf.int32))
    assert pickle.loads(pickle.dumps(domain)) == domain
