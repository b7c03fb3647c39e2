"""What Gymnasium demands of every environment, and what is told to who uses it wrongly."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")

from gymnasium.utils.env_checker import check_env  # noqa: E402

from tests.domains.envs.players import IDS  # noqa: E402
from tests.domains.hardmaze.mazes import ROOM_FILE  # noqa: E402
from tfsm.errors import TfsmError  # noqa: E402


@pytest.fixture(autouse=True)
def no_display(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")


@pytest.mark.parametrize("name", IDS)
def test_the_checker_has_nothing_to_say(name: str) -> None:
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


def same(one: Any, other: Any) -> None:
    np.testing.assert_array_equal(one[0], other[0])
    assert one[1:-1] == other[1:-1]
    assert one[-1].keys() == other[-1].keys()
    for key, value in one[-1].items():
        np.testing.assert_array_equal(value, other[-1][key])


@pytest.mark.parametrize("name", IDS)
def test_a_copy_goes_on_where_it_was_made(name: str) -> None:
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
        same(one.step(action), after)
        np.testing.assert_array_equal(one.render(), env.render())
        one.close()
        one.close()


@pytest.mark.parametrize("name", IDS)
def test_a_seed_changes_nothing_but_the_generator(name: str) -> None:
    env = gymnasium.make(name).unwrapped
    first, again = env.reset(seed=1), env.reset(seed=2)
    same(first, again)
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
    with pytest.warns(UserWarning, match="nothing is drawn without a render mode"):
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
def test_what_is_no_action_is_refused(name: str, action: Any) -> None:
    env = gymnasium.make(name)
    env.reset()
    with pytest.raises(TfsmError, match="an action is"):
        env.step(action)


def test_outputs_beyond_the_space_are_as_good_as_those_at_its_edge() -> None:
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
        ("tfsm/TopdownMaze-v0", {"steps": 31}, "walking the whole path takes 32 moves, and an episode has 31"),
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


def test_a_maze_with_more_steps_is_not_cut_off_silently(tmp_path: Path) -> None:
    (tmp_path / "maze.txt").write_text("#####\n#S+E#\n#####\n")
    options = {"maze": tmp_path / "maze.txt", "steps": 45}

    def steps_of(env: Any) -> int:
        env.reset()
        return next(count for count in range(1, 99) if env.step(4)[3])

    assert steps_of(whole := gymnasium.make("tfsm/TopdownMaze-v0", max_episode_steps=-1, **options)) == 45
    assert steps_of(whole) == 45
    cut = gymnasium.make("tfsm/TopdownMaze-v0", **options)
    assert steps_of(cut) == 40
    with pytest.warns(UserWarning, match="has 45 steps, but is cut off after 40"):
        cut.reset()
    with pytest.warns(UserWarning, match="has 45 steps, but is cut off after 40"):
        gymnasium.make_vec("tfsm/TopdownMaze-v0", num_envs=2, **options)


def test_a_maze_of_ones_own_has_its_own_number_of_decisions(tmp_path: Path) -> None:
    (tmp_path / "room.toml").write_text(ROOM_FILE)
    env: Any = gymnasium.make("tfsm/HardMaze-v0", maze=tmp_path / "room.toml", hold=6)
    env.reset()
    ended = [env.step(np.array([0.5, 0.5], np.float32))[3] for _ in range(4)]
    assert ended == [False, False, False, True]  # 20 steps, six at a time
    assert env.metadata["render_fps"] == pytest.approx(40 / 6)


@pytest.mark.slow
def test_environments_may_live_in_processes_of_their_own() -> None:
    envs = gymnasium.make_vec(
        "tfsm/TopdownMaze-v0", num_envs=2, vectorization_mode="async", vector_kwargs={"context": "spawn"}
    )
    try:
        envs.reset(seed=0)
        _, rewards, *_ = envs.step(np.array([1, 4]))
        assert rewards.tolist() == [1.0, 0.0]
    finally:
        envs.close()
