"""Many agents at once do what each does alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")

from tests.domains.envs.players import IDS  # noqa: E402
from tfsm.errors import TfsmError  # noqa: E402


@pytest.mark.parametrize(
    ("name", "count", "options"),
    [(IDS[0], 2, {}), (IDS[1], 3, {"maze": "short"}), (IDS[2], 1, {})],
    ids=["hard", "topdown", "first-person"],
)
def test_simulated_at_once_or_one_by_one_is_the_same(name: str, count: int, options: dict[str, Any]) -> None:
    """Also beyond the end of an episode, which comes earlier for one than for another where one solves the maze."""
    at_once = gymnasium.make_vec(name, num_envs=count, **options)
    one_by_one = gymnasium.make_vec(name, num_envs=count, vectorization_mode="sync", **options)
    assert at_once.observation_space == one_by_one.observation_space
    assert at_once.action_space == one_by_one.action_space
    assert at_once.metadata["autoreset_mode"] == one_by_one.metadata["autoreset_mode"]
    at_once.action_space.seed(1)
    same(at_once.reset(seed=1), one_by_one.reset(seed=1))
    assert at_once.spec is not None
    assert at_once.spec.max_episode_steps is not None
    for _ in range(at_once.spec.max_episode_steps + 3):
        actions = at_once.action_space.sample()
        same(at_once.step(actions), one_by_one.step(actions))
    at_once.close()
    one_by_one.close()


def same(one: Any, other: Any) -> None:
    for mine, theirs in zip(one[:-1], other[:-1], strict=True):
        np.testing.assert_array_equal(mine, theirs)
        assert mine.dtype == theirs.dtype
    assert one[-1].keys() == other[-1].keys()
    for key, value in one[-1].items():
        np.testing.assert_array_equal(value, other[-1][key])
        assert value.dtype == other[-1][key].dtype


def test_each_begins_again_by_itself() -> None:
    """The first walks the path of the short maze, the second stands still: they are over at different times."""
    from tests.domains.pixelmaze.test_domains import moves_of
    from tfsm_domains.pixel_maze.topdown import TopdownMaze

    path = moves_of(TopdownMaze(maze="short"))
    envs = gymnasium.make_vec("tfsm/TopdownMaze-v0", num_envs=3, maze="short")
    first, _ = envs.reset()
    ended = {lane: [] for lane in range(3)}  # type: ignore[var-annotated]
    for t in range(41):
        script = [*path, 4][t % (len(path) + 1)]  # one step in between, that puts it at the start
        seen, rewards, terminated, truncated, info = envs.step(np.array([script, 4, 1]))
        for lane in range(3):
            if terminated[lane] or truncated[lane]:
                ended[lane].append((t + 1, bool(terminated[lane])))
        if t in (18, 37):
            np.testing.assert_array_equal(seen[0], first[0])
            assert (rewards[0], info["squares"][0]) == (0.0, 1)
    assert ended == {0: [(18, True), (37, True)], 1: [(40, False)], 2: [(40, False)]}


def test_many_are_not_drawn() -> None:
    with pytest.raises(TfsmError, match='vectorization_mode="sync" draws them'):
        gymnasium.make_vec("tfsm/TopdownMaze-v0", num_envs=2, render_mode="rgb_array")


def test_fewer_steps_may_be_asked_for() -> None:
    envs = gymnasium.make_vec("tfsm/TopdownMaze-v0", num_envs=3, maze="short", max_episode_steps=2)
    envs.reset()
    assert [bool(envs.step(np.full([3], 4))[3].all()) for _ in range(5)] == [False, True, False, False, True]


def test_wrong_actions_are_refused() -> None:
    envs = gymnasium.make_vec("tfsm/TopdownMaze-v0", num_envs=3, maze="short")
    with pytest.raises(gymnasium.error.ResetNeeded):
        envs.step(np.zeros([3], int))
    envs.reset()
    for wrong in (np.zeros([2], int), np.full([3], 7)):
        with pytest.raises(TfsmError, match="an action is a whole number from 0 to 4"):
            envs.step(wrong)
