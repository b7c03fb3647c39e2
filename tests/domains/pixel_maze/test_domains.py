"""Both mazes as domains: networks, episodes, films and evolution."""

from __future__ import annotations

import itertools
import math
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.domains.pixel_maze.scripted import Scripted
from tests.domains.pixel_maze.test_layout import SMALL
from tests.helpers.engines import Recorder
from tfsm.abilities import SupportsBehaviorMap, SupportsFilm
from tfsm.errors import TfsmError
from tfsm.evolution.initialization import Initializer
from tfsm.evolution.lockstep_loop import LockstepLoop
from tfsm.kernels.random import fold_in, root_seed
from tfsm.models.network import Network
from tfsm.plugins import load_plugins
from tfsm.plugins.registry import build_part
from tfsm.runs.build import build_engine
from tfsm.settings import resolve
from tfsm_domains.pixel_maze.first_person import FirstPersonMaze
from tfsm_domains.pixel_maze.layout import Square
from tfsm_domains.pixel_maze.raycast import FORWARD, LEFT, NONE, RIGHT, TURN, move, start_poses
from tfsm_domains.pixel_maze.topdown import MOVES, TopdownMaze

Maze = TopdownMaze | FirstPersonMaze
SEED = tf.zeros([1, 2], tf.int32)


def make_tiny_network(times: int) -> keras.Model:
    """Return a small network of the same kind as those of the mazes."""
    kl = keras.layers
    eye = keras.Sequential(
        [keras.Input((64, 64, 1)), kl.AveragePooling2D(8), kl.Conv2D(3, 3, activation="tanh"), kl.Flatten()]
    )
    memory = kl.LSTM(4, return_sequences=True)
    return keras.Sequential([keras.Input((times, 64, 64, 1)), kl.TimeDistributed(eye), memory, kl.Dense(5, "sigmoid")])


def draw_genomes(network: Network, count: int) -> tf.Tensor:
    return Initializer("xavier-normal", 3.0).genomes(network, fold_in(root_seed(0), 0, tf.range(count)))


@pytest.mark.parametrize(
    ("maze", "dual_bias", "weights"),
    [
        (TopdownMaze, False, 25_645),
        (TopdownMaze, True, 25_805),
        (FirstPersonMaze, False, 20_413),
        (FirstPersonMaze, True, 20_573),
    ],
)
def test_the_networks_are_the_papers(maze: type[Maze], dual_bias: bool, weights: int) -> None:
    model = maze(dual_bias=dual_bias).network()
    assert model.count_params() == weights
    assert model.output_shape[1:] == (40 if maze is TopdownMaze else 100, 5)
    network = Network(model)
    assert network.program.native
    assert network.has_per_example_gradients


@pytest.mark.parametrize("maze", [TopdownMaze, FirstPersonMaze])
def test_the_alternative_is_a_stack_of_conv_lstms(maze: type[Maze]) -> None:
    network = Network(maze(network="convlstm").network())
    assert [plan.kind for plan in network.program.layers if plan.kind == "ConvLSTM2D"] == ["ConvLSTM2D"] * 2
    assert network.program.native


def list_moves(maze: TopdownMaze) -> list[int]:
    walk = maze.layout.route()
    return [MOVES.index((b.row - a.row, b.column - a.column)) for a, b in itertools.pairwise(walk)]


def list_actions(maze: FirstPersonMaze) -> list[int]:
    """Return the actions of a controller that knows the path: turn towards the next square, then go."""
    pose, touched, actions = start_poses(maze.layout, 1), {maze.layout.start}, []
    while not touched >= maze.layout.path:
        x, y = pose.position.numpy()[0]
        ahead = next(square for square in maze.layout.route() if square not in touched)
        bearing = math.degrees(math.atan2(ahead.row + 0.5 - y, ahead.column + 0.5 - x))
        off = (bearing - float(pose.heading[0]) + 180) % 360 - 180
        actions.append(FORWARD if abs(off) < maze.options.hold * TURN / 2 else RIGHT if off > 0 else LEFT)
        for _ in range(maze.options.hold):
            pose = move(maze.walls, pose, tf.constant(actions[-1:]))
            x, y = pose.position.numpy()[0]
            touched.add(Square(int(y), int(x)))
    return actions


def test_only_walking_the_path_solves_the_topdown_maze() -> None:
    maze = TopdownMaze()
    path = list_moves(maze)
    network: Any = Scripted(path, path[:-1], [], [1] * 40, steps=40, idle=4)
    found = maze.evaluate(network, network.genomes, SEED)
    assert found.fitness.numpy().tolist() == [27.0, 26.0, 1.0, 11.0]
    assert found.solved.numpy().tolist() == [True, False, False, False]
    assert found.behavior.numpy()[0].tolist() == [maze.layout.end.column + 0.5, maze.layout.end.row + 0.5]
    assert found.behavior.numpy()[2].tolist() == [1.5, 1.5]
    assert found.experience.shape == (4, 40)


@pytest.mark.slow
def test_only_walking_the_path_solves_the_first_person_maze() -> None:
    maze = FirstPersonMaze()
    path = list_actions(maze)
    assert len(path) * maze.options.hold <= maze.options.frames
    network: Any = Scripted(path, path[:10], [], [FORWARD] * 100, steps=100, idle=NONE)
    found = maze.evaluate(network, network.genomes, SEED)
    assert found.solved.numpy().tolist() == [True, False, False, False]
    assert found.fitness.numpy()[0] == 19.0
    assert found.fitness.numpy()[2:].tolist() == [1.0, 5.0]
    assert found.experience.shape == (4, 100, 3)
    np.testing.assert_allclose(found.experience[0, 0], [1.5, 1.5, 0.0])


def test_an_agent_that_stands_still_sees_one_frame() -> None:
    maze = FirstPersonMaze(frames=80)
    network: Any = Scripted([FORWARD] * 20, [LEFT, *[NONE] * 18, LEFT], steps=20, idle=NONE)
    poses = maze.evaluate(network, network.genomes, SEED).experience
    for lane, count in enumerate(len(np.unique(agent, axis=0)) for agent in poses.numpy()):
        distinct = tf.function(maze.observe_distinct, autograph=False)(poses[lane : lane + 1])
        assert distinct.table.shape[0] == count < 20
        np.testing.assert_allclose(distinct.to_dense(), maze.observe(poses[lane : lane + 1]), rtol=1e-6)


@pytest.mark.parametrize("name", ["sm-g-sum", pytest.param("sm-g-so", marks=pytest.mark.slow)])
def test_distinct_frames_have_the_same_sensitivity(name: str) -> None:
    maze = FirstPersonMaze()
    network = Network(make_tiny_network(10))
    poses = np.repeat([[[1.5, 1.5, 0.0], [2.5, 1.5, 10.0], [1.5, 1.5, 0.0]]], [4, 2, 4], axis=1)
    mutation = build_part(load_plugins().mutations[name], {})
    genome, seed = draw_genomes(network, 1), tf.constant([[1, 2]])
    dense, distinct = (
        tf.function(
            lambda poses, observe=observe: mutation(network, genome, observe(poses), 0.01, seed), autograph=False
        )(tf.constant(poses))
        for observe in (maze.observe, maze.observe_distinct)
    )
    assert np.abs(dense - genome).max() > 1e-3
    np.testing.assert_allclose(distinct, dense, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_progress_counts_path_squares_in_order_only() -> None:
    above = TopdownMaze(maze="long", scoring="progress")
    inside = FirstPersonMaze(maze="long", scoring="progress")
    path = list_moves(above)
    down_first = [2, 2, 2, 2, 0, 0, 0, 0, *path[:28]]  # to the end of the path, back, and along it again
    network: Any = Scripted(path, path[:-1], down_first, [1] * 40, steps=40, idle=4)
    found = above.evaluate(network, network.genomes, SEED)
    assert found.fitness.numpy().tolist() == [33.0, 32.0, 29.0, 7.0]
    assert found.solved.numpy().tolist() == [True, False, False, False]
    touched = TopdownMaze(maze="long").evaluate(network, network.genomes, SEED)
    assert touched.fitness.numpy().tolist() == [33.0, 32.0, 30.0, 7.0]
    network = Scripted(list_actions(inside), [], [FORWARD] * 100, steps=100, idle=NONE)
    assert inside.evaluate(network, network.genomes, SEED).fitness.numpy().tolist() == [33.0, 1.0, 7.0]


@pytest.mark.slow
def test_incomplete_decisions_are_truncated(tmp_path: Path) -> None:
    (tmp_path / "maze.txt").write_text("########\n#S++++E#\n########\n")
    whole, cut = (FirstPersonMaze(maze=str(tmp_path / "maze.txt"), frames=frames) for frames in (20, 18))
    assert cut.decisions == whole.decisions == 5
    network: Any = Scripted([FORWARD] * 5, steps=5, idle=NONE)
    walks = [maze.simulate(network, network.genomes, trail=True) for maze in (whole, cut)]
    assert [walk.trail.shape[1] for walk in walks] == [21, 19]
    np.testing.assert_array_equal(walks[0].trail[:, :19], walks[1].trail)
    np.testing.assert_array_equal(walks[1].trail[0, -1, :2], walks[1].end[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    "maze",
    [
        pytest.param(TopdownMaze(), id="topdown"),
        pytest.param(FirstPersonMaze(frames=240), id="first-person", marks=pytest.mark.slow),
    ],
)
def test_recorded_observations_lead_to_the_same_actions(maze: Maze) -> None:
    """The network gives the same outputs on the whole observed episode as step by step."""
    times = maze.network().input_shape[1]
    network = Network(make_tiny_network(times))
    genomes = draw_genomes(network, 3)
    found = tf.function(lambda: maze.evaluate(network, genomes, SEED), autograph=False)()
    outputs = tf.function(lambda: network.rows(genomes, maze.observe(found.experience)), autograph=False)()
    script = np.argmax(outputs, axis=-1)
    again: Any = Scripted(*script.tolist(), steps=times, idle=4)
    repeated = maze.evaluate(again, again.genomes, SEED)
    np.testing.assert_array_equal(repeated.fitness, found.fitness)
    np.testing.assert_allclose(repeated.experience, found.experience, atol=1e-9)
    assert len({tuple(row) for row in script.tolist()}) > 1


@pytest.mark.parametrize(
    "maze",
    [
        pytest.param(TopdownMaze(), id="topdown"),
        pytest.param(FirstPersonMaze(frames=120), id="first-person", marks=pytest.mark.slow),
    ],
)
def test_an_evaluation_is_the_same_alone_and_in_a_batch(maze: Maze) -> None:
    network = Network(make_tiny_network(maze.network().input_shape[1]))
    genomes = draw_genomes(network, 6)

    def evaluate(genomes: tf.Tensor) -> Any:
        return tf.function(lambda: maze.evaluate(network, genomes, SEED), autograph=False)()

    together = evaluate(genomes)
    for count in (1, 2, 3):
        some = evaluate(genomes[:count])
        np.testing.assert_array_equal(some.experience, together.experience[:count])
        np.testing.assert_array_equal(some.fitness, together.fitness[:count])


@pytest.mark.sample(5)
@pytest.mark.parametrize("maze", [TopdownMaze(), FirstPersonMaze(frames=100)], ids=["topdown", "first-person"])
def test_mazes_can_be_inspected_drawn_and_pickled(maze: Maze) -> None:
    pytest.importorskip("pygame")
    assert isinstance(maze, SupportsFilm)
    assert isinstance(maze, SupportsBehaviorMap)
    network = Network(make_tiny_network(maze.network().input_shape[1]))
    film = maze.film(network, draw_genomes(network, 3), SEED)
    first, last, still = film.frame(0), film.frame(len(film) - 1), film.still()
    assert first.shape == last.shape == still.shape
    assert first.shape[0] % 2 == first.shape[1] % 2 == 0
    assert (first != still).any()
    alone = replace(film, trails=film.trails[:1]).frame(0)  # next to the map is what the agent sees
    assert alone.shape[0] == first.shape[0]
    assert alone.shape[1] > first.shape[1]
    drawn = maze.picture(np.array([0, 10]), np.full((2, 5, 2), 1.5))
    assert drawn.dtype == np.uint8
    copy = pickle.loads(pickle.dumps(maze))
    assert copy.options == maze.options


def test_a_custom_maze_can_be_walked(tmp_path: Path) -> None:
    (tmp_path / "maze.txt").write_text(SMALL)
    maze = TopdownMaze(maze=str(tmp_path / "maze.txt"), steps=6)
    network: Any = Scripted(list_moves(maze), steps=6, idle=4)
    assert maze.evaluate(network, network.genomes, SEED).solved.numpy().all()
    with pytest.raises(TfsmError, match="an episode has 5"):
        TopdownMaze(maze=str(tmp_path / "maze.txt"), steps=5)


def evolve_champion(runs: range) -> tuple[bytes, list[dict[str, object]]]:
    """Evolve runs, and return the champion of the last one and its metrics."""
    plugins, recorder = load_plugins(), Recorder()
    overrides = {"runs": len(runs), "population": 6, "evaluations": 24}
    sets = ["maze=short", "log_every=12"]
    resolved = resolve(plugins, domain="topdown-maze", mutation="sm-g-sum", overrides=overrides, sets=sets)
    engine = build_engine(plugins, resolved.settings)
    assert engine.plan.one_by_one
    assert engine.reuses_sensitivities
    loop = LockstepLoop(engine, seed=0, runs=runs, evaluations=24, log_every=12, observers=[recorder])
    champions = {result.run: result.champion.tobytes() for result in loop.run()}
    return champions[runs[-1]], [line for line in recorder.metrics if line["run"] == runs[-1]]


@pytest.mark.slow
def test_a_run_from_pixels_is_the_same_alone_and_in_a_batch() -> None:
    """In a plain graph, numbers at the end of an array may be rounded differently."""
    assert evolve_champion(range(1, 2)) == evolve_champion(range(2))
