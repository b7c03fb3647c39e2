"""A policy in an environment does exactly what it does in the domain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

gymnasium = pytest.importorskip("gymnasium")

from tests.domains.envs.players import played, scripted, searched  # noqa: E402
from tests.domains.hardmaze.mazes import ROOM_FILE  # noqa: E402
from tests.domains.pixelmaze.scripted import Scripted  # noqa: E402
from tests.domains.pixelmaze.test_domains import actions_of, genomes_of, moves_of, tiny  # noqa: E402
from tfsm.kernels.experience import dense  # noqa: E402
from tfsm.models.network import Network  # noqa: E402
from tfsm_domains.hard_maze.domain import HardMaze  # noqa: E402
from tfsm_domains.hard_maze.robot import roll  # noqa: E402
from tfsm_domains.pixel_maze.first_person import FirstPersonMaze  # noqa: E402
from tfsm_domains.pixel_maze.raycast import FORWARD, NONE, RIGHT  # noqa: E402
from tfsm_domains.pixel_maze.topdown import TopdownMaze  # noqa: E402

SEEDS = tf.zeros([2, 2], tf.int32)


def test_a_network_steers_a_robot_as_in_the_domain_bit_for_bit() -> None:
    domain, env = HardMaze(), gymnasium.make("tfsm/HardMaze-v0")
    kl = keras.layers
    network = Network(keras.Sequential([keras.Input((11,)), kl.Dense(4, "tanh"), kl.Dense(2, "sigmoid")]))
    genomes = genomes_of(network, 2)
    found, evaluated = domain.roll(network, genomes, trail=True), domain.evaluate(network, genomes, SEEDS)
    ask = tf.function(lambda seen: network.rows(genomes, seen[:, None])[:, 0], jit_compile=True, autograph=False)
    for lane in range(2):
        episode = played(env, lambda seen, info, lane=lane: ask(tf.constant([seen] * 2)).numpy()[lane])  # type: ignore[misc]
        np.testing.assert_array_equal(episode.seen[:-1], found.seen[lane])
        places = [info["position"] for info in episode.infos]
        np.testing.assert_array_equal(places[:-1], found.trail[lane, 0:400:3, :2])
        np.testing.assert_array_equal(places[-1], found.end.position[lane])
        np.testing.assert_array_equal(places[-1].astype(np.float32), evaluated.behavior[lane])
        assert np.float32(-episode.infos[-1]["left"]) == evaluated.fitness[lane]
        assert episode.total == pytest.approx(episode.infos[0]["left"] - episode.infos[-1]["left"], abs=1e-9)
        assert (episode.terminated, episode.truncated) == (False, True)
        assert not evaluated.solved[lane]
    assert (evaluated.behavior[0] != evaluated.behavior[1]).numpy().any()


def test_an_episode_is_over_where_the_goal_is_first_in_reach(tmp_path: Path) -> None:
    (tmp_path / "room.toml").write_text(ROOM_FILE.replace("steps = 20", "steps = 100"))
    domain = HardMaze(maze=str(tmp_path / "room.toml"), hold=7)
    env: Any = gymnasium.make("tfsm/HardMaze-v0", maze=tmp_path / "room.toml", hold=7)
    ahead = np.array([0.5, 1.0], np.float32)
    episode = played(env, scripted([], ahead))
    found = roll(domain.place, lambda seen: tf.constant([ahead] * 2), 2, 7, trail=True)
    away = np.linalg.norm(found.trail[0, :, :2] - np.array([80.0, 50.0]), axis=1)
    first = int((away < 10.0).argmax())
    assert first % 7 != 0, "in the middle of a decision"
    assert len(episode.rewards) == first // 7 + 1
    assert (episode.terminated, episode.truncated) == (True, False)
    assert found.reached[0]
    np.testing.assert_allclose(episode.infos[-1]["position"], found.trail[0, first, :2], rtol=1e-12)
    # Straight ahead for 60 units, less what is left.
    assert episode.total == pytest.approx(60.0 - away[first], abs=0.1)
    assert episode.total >= env.unwrapped.reward_threshold == 49.0


def test_whoever_knows_the_way_earns_the_registered_threshold() -> None:
    env: Any = gymnasium.make("tfsm/HardMaze-v0")
    assert env.spec is not None
    script = searched(env.unwrapped._world)
    episode = played(env, scripted(script, None))
    assert episode.terminated
    assert len(episode.rewards) == len(script)
    assert episode.infos[-1]["solved"]
    threshold = env.spec.reward_threshold
    assert threshold is not None
    assert threshold <= episode.total < threshold + 10.5
    # A decision before, the goal was not in reach: the way there is no shorter than the straight line.
    assert episode.infos[-2]["left"] >= HardMaze().place.reach


@pytest.mark.parametrize("scoring", ["touched", "progress"])
def test_squares_are_touched_from_above_as_in_the_domain(scoring: Any) -> None:
    domain, env = TopdownMaze(scoring=scoring), gymnasium.make("tfsm/TopdownMaze-v0", scoring=scoring)
    path = moves_of(domain)
    scripts = [path[:-1], [2, 2, 2, 2, 0, 0, 0, 0, *path[:28]], [1] * 40]
    network: Any = Scripted(*scripts, steps=40, idle=4)
    evaluated = domain.evaluate(network, network.genomes, tf.zeros([3, 2], tf.int32))
    for lane, script in enumerate(scripts):
        episode = played(env, scripted(script, 4))
        assert episode.total == evaluated.fitness[lane] - 1.0
        assert episode.infos[-1]["squares"] == evaluated.fitness[lane]
        np.testing.assert_array_equal(episode.infos[-1]["position"], evaluated.behavior[lane])
        assert (episode.terminated, episode.truncated) == (False, True)
    assert set(episode.rewards) == {0.0, 1.0}


def test_whoever_walks_the_path_earns_the_registered_threshold() -> None:
    mazes: list[tuple[str, Any, int]] = [
        ("tfsm/TopdownMaze-v0", moves_of(TopdownMaze()), 4),
        ("tfsm/FirstPersonMaze-v0", actions_of(FirstPersonMaze()), NONE),
    ]
    for name, script, idle in mazes:
        env = gymnasium.make(name)
        assert env.spec is not None
        episode = played(env, scripted(script, idle))
        assert (episode.terminated, episode.truncated) == (True, False)
        assert len(episode.rewards) == len(script)
        assert episode.total == env.spec.reward_threshold == 32.0


@pytest.mark.parametrize(
    ("domain", "name"),
    [(TopdownMaze(), "tfsm/TopdownMaze-v0"), (FirstPersonMaze(), "tfsm/FirstPersonMaze-v0")],
    ids=["topdown", "first-person"],
)
def test_a_network_walks_as_in_the_domain(domain: Any, name: str) -> None:
    """Shown what the docstring says is its input, it decides the same, and so sees the same gray levels."""
    env = gymnasium.make(name)
    times = env.spec.max_episode_steps if env.spec is not None else None
    network = Network(tiny(times))  # type: ignore[arg-type]
    genomes = genomes_of(network, 2)
    evaluated = tf.function(lambda: domain.evaluate(network, genomes, SEEDS), autograph=False)()
    inputs = tf.function(lambda: dense(domain.observe(evaluated.experience)), jit_compile=True, autograph=False)()
    step = network.stepper(genomes, seen=tf.TensorSpec([64, 64, 1], tf.float32))
    ask = tf.function(step, autograph=False)
    for lane in range(2):
        state: Any = step.start

        def decide(seen: np.ndarray, info: Any, lane: int = lane) -> int:
            nonlocal state
            shown = seen.astype(np.float32) / 255
            outputs, state = ask(tf.constant([shown] * 2), state)
            return int(outputs.numpy()[lane].argmax())

        episode = played(env, decide)
        # Compiled, a division by a constant may be a product with its inverse, which changes the last bit.
        np.testing.assert_array_equal(episode.seen[:-1], np.rint(255 * inputs[lane, 0]))
        np.testing.assert_allclose(np.array(episode.seen[:-1], np.float32) / 255, inputs[lane, 0], rtol=2e-7)
        assert episode.total == evaluated.fitness[lane] - 1.0
        np.testing.assert_array_equal(episode.infos[-1]["position"].astype(np.float32), evaluated.behavior[lane])
        assert episode.terminated == bool(evaluated.solved[lane])


def test_frames_that_do_not_fill_a_decision_are_cut_off(tmp_path: Path) -> None:
    (tmp_path / "maze.txt").write_text("##########\n#S++++++E#\n##########\n")
    options: dict[str, Any] = {"maze": str(tmp_path / "maze.txt"), "frames": 22, "hold": 5}
    domain = FirstPersonMaze(**options)
    env: Any = gymnasium.make("tfsm/FirstPersonMaze-v0", **options)
    script = [FORWARD, FORWARD, FORWARD, RIGHT, RIGHT]
    episode = played(env, scripted(script, NONE))
    network: Any = Scripted(script, script, steps=5, idle=NONE)
    walk = domain.walk(network, network.genomes, trail=True)
    assert len(episode.rewards) == 5
    ends = [0, 5, 10, 15, 20, 22]
    np.testing.assert_allclose([i["position"] for i in episode.infos], walk.trail.numpy()[0, ends, :2], rtol=1e-12)
    np.testing.assert_allclose([i["heading"] for i in episode.infos], walk.trail.numpy()[0, ends, 2], rtol=1e-12)
    # From 1.5 a third of a square a frame, 15 times: to 6.5; seven turns, not ten.
    np.testing.assert_allclose(episode.infos[-1]["position"], [6.5, 1.5])
    assert episode.infos[-1]["heading"] == pytest.approx(7 * 12.41)
    assert episode.total == 5.0
