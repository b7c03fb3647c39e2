"""The requirements of Gymnasium for every environment, and the errors for wrong use."""

from __future__ import annotations

import copy
import importlib
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

gymnasium = pytest.importorskip("gymnasium")
from gymnasium.utils.env_checker import check_env  # noqa: E402

import tfsm_domains.envs  # noqa: E402
from tests.domains.envs.players import IDS  # noqa: E402
from tests.domains.hard_maze.mazes import ROOM_FILE  # noqa: E402
from tfsm.errors import TfsmError  # noqa: E402

pygame = pytest.importorskip("pygame")
from tests.domains.envs.players import follow_script, play_episode, search_actions  # noqa: E402
from tests.domains.pixel_maze.scripted import Scripted  # noqa: E402
from tests.domains.pixel_maze.test_domains import (  # noqa: E402
    draw_genomes,
    list_actions,
    list_moves,
    make_tiny_network,
)
from tfsm.kernels.experience import to_dense  # noqa: E402
from tfsm.models.network import Network  # noqa: E402
from tfsm_domains.envs.env import Window  # noqa: E402
from tfsm_domains.hard_maze.domain import HardMaze  # noqa: E402
from tfsm_domains.hard_maze.drawing import MazeFilm  # noqa: E402
from tfsm_domains.hard_maze.robot import (  # noqa: E402
    RANGE,
    RANGEFINDERS,
    sense,
    simulate,
)
from tfsm_domains.pixel_maze.first_person import FirstPersonMaze  # noqa: E402
from tfsm_domains.pixel_maze.raycast import FORWARD, NONE, RIGHT  # noqa: E402
from tfsm_domains.pixel_maze.topdown import TopdownMaze  # noqa: E402


@pytest.fixture(autouse=True)
def no_display(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")


@pytest.mark.sample(7)
@pytest.mark.parametrize("name", IDS)
def test_the_environment_checker_passes(name: str) -> None:
    pytest.importorskip("pygame")
    env = gymnasium.make(name)
    check_env(env.unwrapped)
    env.close()


@pytest.mark.parametrize("name", IDS)
def test_spaces_are_those_of_the_domain(name: str) -> None:
    env = gymnasium.make(name)
    if name == "tfsm/HardMaze-v0":
        assert env.observation_space == gymnasium.spaces.Box(0.0, 1.0, (11,), np.float32)
        assert env.action_space == gymnasium.spaces.Box(0.0, 1.0, (2,), np.float32)
    else:
        assert env.observation_space == gymnasium.spaces.Box(0, 255, (64, 64, 1), np.uint8)
        assert env.action_space == gymnasium.spaces.Discrete(5)


def assert_same(one: Any, other: Any) -> None:
    np.testing.assert_array_equal(one[0], other[0])
    assert one[1:-1] == other[1:-1]
    assert one[-1].keys() == other[-1].keys()
    for key, value in one[-1].items():
        np.testing.assert_array_equal(value, other[-1][key])


@pytest.mark.parametrize("name", IDS)
def test_a_copy_continues_from_the_same_state(name: str) -> None:
    pytest.importorskip("pygame")
    env = gymnasium.make(name, render_mode="rgb_array")
    env.reset(seed=3)
    env.action_space.seed(3)
    for _ in range(4):
        env.step(env.action_space.sample())
    before = env.render()
    copies = [pickle.loads(pickle.dumps(env)), copy.deepcopy(env)]
    action = env.action_space.sample()
    after = env.step(action)
    for one in copies:
        np.testing.assert_array_equal(one.render(), before)
        assert_same(one.step(action), after)
        np.testing.assert_array_equal(one.render(), env.render())
        one.close()
        one.close()


@pytest.mark.parametrize("name", IDS)
def test_a_seed_changes_nothing_but_the_generator(name: str) -> None:
    env = gymnasium.make(name).unwrapped
    first, again = env.reset(seed=1), env.reset(seed=2)
    assert_same(first, again)
    assert env.np_random_seed == 2


def test_an_episode_needs_a_reset_before_it_and_after_it(tmp_path: Path) -> None:
    (tmp_path / "maze.txt").write_text("#####\n#S+E#\n#####\n")
    env: Any = gymnasium.make("tfsm/TopdownMaze-v0", maze=tmp_path / "maze.txt", steps=3).unwrapped
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(1)
    env.reset()
    assert [env.step(1)[2:4] for _ in range(2)] == [(False, False), (True, False)]
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(1)
    env.reset()
    assert [env.step(4)[2:4] for _ in range(3)] == [(False, False), (False, False), (False, True)]
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(1)
    with pytest.warns(UserWarning, match="nothing is rendered without a render mode"):
        assert env.render() is None


@pytest.mark.parametrize(
    ("name", "action"),
    [
        ("tfsm/HardMaze-v0", [0.5]),
        ("tfsm/HardMaze-v0", [0.5, np.nan]),
        ("tfsm/TopdownMaze-v0", 5),
        ("tfsm/TopdownMaze-v0", -1),
        ("tfsm/TopdownMaze-v0", 1.0),
        ("tfsm/TopdownMaze-v0", [1]),
    ],
)
def test_an_invalid_action_is_refused(name: str, action: Any) -> None:
    env = gymnasium.make(name)
    env.reset()
    with pytest.raises(TfsmError, match="an action is"):
        env.step(action)


def test_outputs_beyond_the_space_are_clipped() -> None:
    envs = [gymnasium.make("tfsm/HardMaze-v0") for _ in range(2)]
    for env in envs:
        env.reset()
    for beyond in ([9.0, 3.0], [-2.0, 1.5], [0.5, -7.0]):
        action = np.array(beyond, np.float32)
        found = [env.step(given) for env, given in zip(envs, (action, np.clip(action, 0, 1)), strict=True)]
        np.testing.assert_allclose(found[0][-1]["position"], found[1][-1]["position"], rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("tfsm/HardMaze-v0", {"hold": 0}, "tfsm/HardMaze-v0 hold=0: expected "),
        ("tfsm/HardMaze-v0", {"maze": "/nowhere/maze.toml"}, "cannot read the maze '/nowhere/maze.toml'"),
        ("tfsm/TopdownMaze-v0", {"scoring": "touch"}, "tfsm/TopdownMaze-v0 scoring=touch: expected "),
        ("tfsm/TopdownMaze-v0", {"steps": 25}, "walking the whole path takes 26 moves, but an episode has 25"),
        ("tfsm/FirstPersonMaze-v0", {"hold": 0}, "tfsm/FirstPersonMaze-v0 hold=0: expected "),
    ],
)
def test_wrong_options_are_named(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(TfsmError, match=message):
        gymnasium.make(name, **options)


def test_an_unknown_render_mode_is_named() -> None:
    from tfsm_domains.envs.pixel_mazes import TopdownMazeEnv

    with pytest.raises(TfsmError, match="no render mode named 'humen', did you mean 'human'"):
        TopdownMazeEnv(render_mode="humen")


def test_a_longer_maze_is_not_truncated_silently(tmp_path: Path) -> None:
    (tmp_path / "maze.txt").write_text("#####\n#S+E#\n#####\n")
    options = {"maze": tmp_path / "maze.txt", "steps": 45}

    def count_steps(env: Any) -> int:
        env.reset()
        return next(count for count in range(1, 99) if env.step(4)[3])

    assert count_steps(whole := gymnasium.make("tfsm/TopdownMaze-v0", max_episode_steps=-1, **options)) == 45
    assert count_steps(whole) == 45
    cut = gymnasium.make("tfsm/TopdownMaze-v0", **options)
    assert count_steps(cut) == 40
    with pytest.warns(UserWarning, match="has 45 steps, but is cut off after 40"):
        cut.reset()
    with pytest.warns(UserWarning, match="has 45 steps, but is cut off after 40"):
        gymnasium.make_vec("tfsm/TopdownMaze-v0", num_envs=2, **options)


@pytest.mark.slow
def test_a_custom_maze_has_its_own_number_of_decisions(tmp_path: Path) -> None:
    (tmp_path / "room.toml").write_text(ROOM_FILE)
    env: Any = gymnasium.make("tfsm/HardMaze-v0", maze=tmp_path / "room.toml", hold=6)
    env.reset()
    ended = [env.step(np.array([0.5, 0.5], np.float32))[3] for _ in range(4)]
    assert ended == [False, False, False, True]  # 20 steps, six at a time
    assert env.metadata["render_fps"] == pytest.approx(40 / 6)


@pytest.mark.slow
def test_environments_may_run_in_processes() -> None:
    envs = gymnasium.make_vec(
        "tfsm/TopdownMaze-v0", num_envs=2, vectorization_mode="async", vector_kwargs={"context": "spawn"}
    )
    try:
        envs.reset(seed=0)
        _, rewards, *_ = envs.step(np.array([1, 4]))
        assert rewards.tolist() == [1.0, 0.0]
    finally:
        envs.close()


@pytest.mark.parametrize(
    ("name", "count", "options"),
    [(IDS[0], 2, {}), (IDS[1], 3, {"maze": "short"}), (IDS[2], 1, {})],
    ids=["hard", "topdown", "first-person"],
)
def test_vectorized_and_single_environments_agree(name: str, count: int, options: dict[str, Any]) -> None:
    """Also beyond the end of an episode, which is earlier for an agent that solves the maze."""
    at_once = gymnasium.make_vec(name, num_envs=count, **options)
    one_by_one = gymnasium.make_vec(name, num_envs=count, vectorization_mode="sync", **options)
    assert at_once.observation_space == one_by_one.observation_space
    assert at_once.action_space == one_by_one.action_space
    assert at_once.metadata["autoreset_mode"] == one_by_one.metadata["autoreset_mode"]
    at_once.action_space.seed(1)
    assert_same_batch(at_once.reset(seed=1), one_by_one.reset(seed=1))
    assert at_once.spec is not None
    assert at_once.spec.max_episode_steps is not None
    for _ in range(at_once.spec.max_episode_steps + 3):
        actions = at_once.action_space.sample()
        assert_same_batch(at_once.step(actions), one_by_one.step(actions))
    at_once.close()
    one_by_one.close()


def assert_same_batch(one: Any, other: Any) -> None:
    for mine, theirs in zip(one[:-1], other[:-1], strict=True):
        np.testing.assert_array_equal(mine, theirs)
        assert mine.dtype == theirs.dtype
    assert one[-1].keys() == other[-1].keys()
    for key, value in one[-1].items():
        np.testing.assert_array_equal(value, other[-1][key])
        assert value.dtype == other[-1][key].dtype


def test_environments_of_a_vector_reset_independently() -> None:
    """The first walks the path of the short maze and the second stands still, so they end at different times."""
    from tests.domains.pixel_maze.test_domains import list_moves
    from tfsm_domains.pixel_maze.topdown import TopdownMaze

    path = list_moves(TopdownMaze(maze="short"))
    envs = gymnasium.make_vec("tfsm/TopdownMaze-v0", num_envs=3, maze="short")
    first, _ = envs.reset()
    ended = {lane: [] for lane in range(3)}  # type: ignore[var-annotated]
    for t in range(41):
        script = [*path, 4][t % (len(path) + 1)]  # the step in between resets it
        seen, rewards, terminated, truncated, info = envs.step(np.array([script, 4, 1]))
        for lane in range(3):
            if terminated[lane] or truncated[lane]:
                ended[lane].append((t + 1, bool(terminated[lane])))
        if t in (18, 37):
            np.testing.assert_array_equal(seen[0], first[0])
            assert (rewards[0], info["squares"][0]) == (0.0, 1)
    assert ended == {0: [(18, True), (37, True)], 1: [(40, False)], 2: [(40, False)]}


def test_a_vector_is_not_rendered() -> None:
    with pytest.raises(TfsmError, match='use vectorization_mode="sync"'):
        gymnasium.make_vec("tfsm/TopdownMaze-v0", num_envs=2, render_mode="rgb_array")


def test_the_step_limit_can_be_lowered() -> None:
    envs = gymnasium.make_vec("tfsm/TopdownMaze-v0", num_envs=3, maze="short", max_episode_steps=2)
    envs.reset()
    assert [bool(envs.step(np.full([3], 4))[3].all()) for _ in range(5)] == [False, True, False, False, True]


def test_wrong_actions_are_refused() -> None:
    envs = gymnasium.make_vec("tfsm/TopdownMaze-v0", num_envs=3, maze="short")
    with pytest.raises(gymnasium.error.ResetNeeded):
        envs.step(np.zeros([3], int))
    envs.reset()
    for wrong in (np.zeros([2], int), np.full([3], 7)):
        with pytest.raises(TfsmError, match="an action is an integer from 0 to 4"):
            envs.step(wrong)


def test_importing_registers_all_environments_without_tensorflow() -> None:
    code = f"""
import sys, gymnasium, tfsm_domains.envs  # noqa: E402
assert "tensorflow" not in sys.modules and "keras" not in sys.modules
gymnasium.register_envs(tfsm_domains.envs)
assert set({IDS!r}) <= set(gymnasium.registry)
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_the_module_in_the_name_replaces_the_import() -> None:
    code = f"""
import gymnasium
for name in {IDS!r}:
    gymnasium.make("tfsm_domains.envs:" + name).close()
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_entry_point_registers_the_environments_while_gymnasium_is_imported() -> None:
    # As Gymnasium 0.29 does it, whose main module has no attributes yet when it loads its plugins.
    code = f"""
import sys, types
import gymnasium.envs.registration as registration
sys.modules["gymnasium"] = types.ModuleType("gymnasium")
from importlib.metadata import entry_points
(plugin,) = entry_points(group="gymnasium.envs", name="tfsm")
with registration.namespace(plugin.name):
    plugin.load()()
assert set({IDS!r}) <= set(registration.registry)
assert "tensorflow" not in sys.modules
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_importing_twice_changes_nothing() -> None:
    before = {name: gymnasium.spec(name) for name in IDS}
    importlib.reload(tfsm_domains.envs)
    assert all(gymnasium.spec(name) is spec for name, spec in before.items())


def test_the_error_without_gymnasium_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)  # as if it were not installed
    with pytest.raises(TfsmError, match=r"^tfsm_domains.envs needs gymnasium: pip install 'tfsm\[gym\]'$"):
        importlib.reload(tfsm_domains.envs)


@pytest.mark.parametrize("name", IDS)
def test_registered_values_agree_with_the_default_maze(name: str) -> None:
    spec = gymnasium.spec(name)
    env: Any = gymnasium.make(f"tfsm_domains.envs:{name}")
    assert spec.reward_threshold == env.unwrapped.reward_threshold
    assert spec.max_episode_steps == env.unwrapped._simulator.limit
    assert not spec.nondeterministic
    # The class has the same values as its instances.
    assert type(env.unwrapped).metadata == env.metadata
    env.close()


def test_the_reward_threshold_is_the_path_length() -> None:
    from tfsm_domains.hard_maze.domain import HardMaze

    maze = HardMaze()
    way = float(maze.path_length.at([maze.geometry.start])[0])
    assert way == pytest.approx(461.3, abs=0.05)  # docs/tasks/hard-maze.md
    threshold = gymnasium.spec("tfsm/HardMaze-v0").reward_threshold
    assert way - maze.geometry.reach - 1.0 < threshold <= way - maze.geometry.reach


def test_other_mazes_have_thresholds_of_their_own() -> None:
    for name in IDS[1:]:
        env: Any = gymnasium.make(name, maze="short")
        assert env.unwrapped.reward_threshold == 18.0  # of 19 squares


def test_a_robot_is_drawn_as_in_a_replay() -> None:
    env: Any = gymnasium.make("tfsm/HardMaze-v0", render_mode="rgb_array")
    maze = HardMaze().geometry
    env.reset()
    poses = [(*maze.start, maze.heading)]
    for _ in range(5):
        env.step(np.array([0.3, 1.0], np.float32))
        poses += [tuple(pose) for pose in env.unwrapped._agents.state.track.numpy()[0, :, :3]]
    trail = np.array([poses])
    sensors = sense(maze, trail[0, :, :2], trail[0, :, 2]).numpy()
    film = MazeFilm(maze, trail, sensors, np.zeros([1], bool), np.zeros([1]), RANGEFINDERS, RANGE)
    assert len(film) == 16
    np.testing.assert_array_equal(env.render(), film.frame(15))
    env.reset()
    np.testing.assert_array_equal(env.render(), film.frame(0))


def test_an_agent_is_drawn_as_in_a_replay() -> None:
    env: Any = gymnasium.make("tfsm/TopdownMaze-v0", render_mode="rgb_array")
    maze = TopdownMaze()
    script = list_moves(maze)[:9]
    network: Any = Scripted(script, steps=40, idle=4)
    film = maze.film(network, network.genomes, None)
    env.reset()
    np.testing.assert_array_equal(env.render(), film.frame(0))
    for action in script:
        env.step(action)
    np.testing.assert_array_equal(env.render(), film.frame(9))


def test_the_view_in_first_person_is_beside_the_map() -> None:
    env: Any = gymnasium.make("tfsm/FirstPersonMaze-v0", render_mode="rgb_array")
    env.reset()
    seen, *_ = env.step(0)
    picture = env.render()
    times = (picture.shape[0] - 40) // 64
    view = np.kron(seen[..., 0], np.ones([times, times], np.uint8))
    top, left = (picture.shape[0] - len(view)) // 2, picture.shape[1] - len(view) - 10
    np.testing.assert_array_equal(picture[top : top + len(view), left : left + len(view), 0], view)


@pytest.mark.parametrize("name", IDS)
def test_a_window_shows_every_step_until_it_is_closed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    drawn: Any = gymnasium.make(name, render_mode="rgb_array")
    env: Any = gymnasium.make(name, render_mode="human")
    env.unwrapped._window = Window("tfsm", 1000.0)  # faster than in real time
    for one in (drawn, env):
        one.reset()
        one.step(one.action_space.sample() if one is drawn else 0 * one.action_space.sample())
    drawn.reset()
    drawn.step(0 * drawn.action_space.sample())
    assert env.render() is None
    shown = pygame.surfarray.array3d(pygame.display.get_surface()).swapaxes(0, 1)
    np.testing.assert_array_equal(shown, drawn.render())
    env.close()
    assert not pygame.display.get_init()
    env.close()


def test_rates_are_those_of_a_replay_in_decisions() -> None:
    rates = [gymnasium.make(name).metadata["render_fps"] for name in IDS]
    assert rates == pytest.approx([40 / 3, 6.0, 30 / 4])


def test_a_missing_display_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "nothing-like-this")
    with pytest.raises(TfsmError, match=r'cannot open a window \(.*\); use render_mode="rgb_array"'):
        Window("tfsm", 1.0).show(np.zeros([4, 4, 3], np.uint8))


SEEDS = tf.zeros([2, 2], tf.int32)


def test_a_network_steers_a_robot_as_in_the_domain_bit_for_bit() -> None:
    domain, env = HardMaze(), gymnasium.make("tfsm/HardMaze-v0")
    kl = keras.layers
    network = Network(keras.Sequential([keras.Input((11,)), kl.Dense(4, "tanh"), kl.Dense(2, "sigmoid")]))
    genomes = draw_genomes(network, 2)
    found, evaluated = domain.simulate(network, genomes, trail=True), domain.evaluate(network, genomes, SEEDS)
    ask = tf.function(lambda seen: network.rows(genomes, seen[:, None])[:, 0], jit_compile=True, autograph=False)
    for lane in range(2):
        episode = play_episode(env, lambda seen, info, lane=lane: ask(tf.constant([seen] * 2)).numpy()[lane])  # type: ignore[misc]
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


@pytest.mark.slow
def test_an_episode_ends_when_the_goal_is_first_reached(tmp_path: Path) -> None:
    (tmp_path / "room.toml").write_text(ROOM_FILE.replace("steps = 20", "steps = 100"))
    domain = HardMaze(maze=str(tmp_path / "room.toml"), hold=7)
    env: Any = gymnasium.make("tfsm/HardMaze-v0", maze=tmp_path / "room.toml", hold=7)
    ahead = np.array([0.5, 1.0], np.float32)
    episode = play_episode(env, follow_script([], ahead))
    found = simulate(domain.geometry, lambda seen: tf.constant([ahead] * 2), 2, 7, trail=True)
    away = np.linalg.norm(found.trail[0, :, :2] - np.array([80.0, 50.0]), axis=1)
    first = int((away < 10.0).argmax())
    assert first % 7 != 0, "in the middle of a decision"
    assert len(episode.rewards) == first // 7 + 1
    assert (episode.terminated, episode.truncated) == (True, False)
    assert found.reached[0]
    np.testing.assert_allclose(episode.infos[-1]["position"], found.trail[0, first, :2], rtol=1e-12)
    # Straight ahead for 60 units, minus the remaining distance.
    assert episode.total == pytest.approx(60.0 - away[first], abs=0.1)
    assert episode.total >= env.unwrapped.reward_threshold == 49.0


@pytest.mark.slow
def test_reaching_the_goal_earns_the_registered_threshold() -> None:
    env: Any = gymnasium.make("tfsm/HardMaze-v0")
    assert env.spec is not None
    script = search_actions(env.unwrapped._simulator)
    episode = play_episode(env, follow_script(script, None))
    assert episode.terminated
    assert len(episode.rewards) == len(script)
    assert episode.infos[-1]["solved"]
    threshold = env.spec.reward_threshold
    assert threshold is not None
    assert threshold <= episode.total < threshold + 10.5
    # A decision before, the goal was not in reach: the path is no shorter than the straight line.
    assert episode.infos[-2]["left"] >= HardMaze().geometry.reach


@pytest.mark.parametrize("scoring", ["touched", "progress"])
def test_squares_are_touched_from_above_as_in_the_domain(scoring: Any) -> None:
    options = {"maze": "long", "scoring": scoring}
    domain, env = TopdownMaze(**options), gymnasium.make("tfsm/TopdownMaze-v0", **options)
    path = list_moves(domain)
    scripts = [path[:-1], [2, 2, 2, 2, 0, 0, 0, 0, *path[:28]], [1] * 40]
    network: Any = Scripted(*scripts, steps=40, idle=4)
    evaluated = domain.evaluate(network, network.genomes, tf.zeros([3, 2], tf.int32))
    for lane, script in enumerate(scripts):
        episode = play_episode(env, follow_script(script, 4))
        assert episode.total == evaluated.fitness[lane] - 1.0
        assert episode.infos[-1]["squares"] == evaluated.fitness[lane]
        np.testing.assert_array_equal(episode.infos[-1]["position"], evaluated.behavior[lane])
        assert (episode.terminated, episode.truncated) == (False, True)
    assert set(episode.rewards) == {0.0, 1.0}


def test_walking_the_path_earns_the_registered_threshold() -> None:
    mazes: list[tuple[str, Any, int, float]] = [
        ("tfsm/TopdownMaze-v0", list_moves(TopdownMaze()), 4, 26.0),
        ("tfsm/FirstPersonMaze-v0", list_actions(FirstPersonMaze()), NONE, 18.0),
    ]
    for name, script, idle, threshold in mazes:
        env = gymnasium.make(name)
        assert env.spec is not None
        episode = play_episode(env, follow_script(script, idle))
        assert (episode.terminated, episode.truncated) == (True, False)
        assert len(episode.rewards) == len(script)
        assert episode.total == env.spec.reward_threshold == threshold


@pytest.mark.slow
@pytest.mark.parametrize(
    ("domain", "name"),
    [(TopdownMaze(), "tfsm/TopdownMaze-v0"), (FirstPersonMaze(), "tfsm/FirstPersonMaze-v0")],
    ids=["topdown", "first-person"],
)
def test_a_network_walks_as_in_the_domain(domain: Any, name: str) -> None:
    """With the input that the docstring describes, the network makes the same decisions as in the domain."""
    env = gymnasium.make(name)
    times = env.spec.max_episode_steps if env.spec is not None else None
    network = Network(make_tiny_network(times))  # type: ignore[arg-type]
    genomes = draw_genomes(network, 2)
    evaluated = tf.function(lambda: domain.evaluate(network, genomes, SEEDS), autograph=False)()
    inputs = tf.function(lambda: to_dense(domain.observe(evaluated.experience)), jit_compile=True, autograph=False)()
    step = network.stepper(genomes, observation=tf.TensorSpec([64, 64, 1], tf.float32))
    ask = tf.function(step, autograph=False)
    for lane in range(2):
        state: Any = step.start

        def decide(seen: np.ndarray, info: Any, lane: int = lane) -> int:
            nonlocal state
            shown = seen.astype(np.float32) / 255
            outputs, state = ask(tf.constant([shown] * 2), state)
            return int(outputs.numpy()[lane].argmax())

        episode = play_episode(env, decide)
        # Compiled, a division by a constant may be a product with its inverse, which changes the last bit.
        np.testing.assert_array_equal(episode.seen[:-1], np.rint(255 * inputs[lane, 0]))
        np.testing.assert_allclose(np.array(episode.seen[:-1], np.float32) / 255, inputs[lane, 0], rtol=2e-7)
        assert episode.total == evaluated.fitness[lane] - 1.0
        np.testing.assert_array_equal(episode.infos[-1]["position"].astype(np.float32), evaluated.behavior[lane])
        assert episode.terminated == bool(evaluated.solved[lane])


@pytest.mark.slow
def test_frames_that_do_not_fill_a_decision_are_cut_off(tmp_path: Path) -> None:
    (tmp_path / "maze.txt").write_text("##########\n#S++++++E#\n##########\n")
    options: dict[str, Any] = {"maze": str(tmp_path / "maze.txt"), "frames": 22, "hold": 5}
    domain = FirstPersonMaze(**options)
    env: Any = gymnasium.make("tfsm/FirstPersonMaze-v0", **options)
    script = [FORWARD, FORWARD, FORWARD, RIGHT, RIGHT]
    episode = play_episode(env, follow_script(script, NONE))
    network: Any = Scripted(script, script, steps=5, idle=NONE)
    walk = domain.simulate(network, network.genomes, trail=True)
    assert len(episode.rewards) == 5
    ends = [0, 5, 10, 15, 20, 22]
    np.testing.assert_allclose([i["position"] for i in episode.infos], walk.trail.numpy()[0, ends, :2], rtol=1e-12)
    np.testing.assert_allclose([i["heading"] for i in episode.infos], walk.trail.numpy()[0, ends, 2], rtol=1e-12)
    # From 1.5 a third of a square a frame, 15 times: to 6.5; seven turns, not ten.
    np.testing.assert_allclose(episode.infos[-1]["position"], [6.5, 1.5])
    assert episode.infos[-1]["heading"] == pytest.approx(7 * 12.41)
    assert episode.total == 5.0
