"""Pictures show what a replay shows, and a window opens and closes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")
pygame = pytest.importorskip("pygame")

from tests.domains.envs.players import IDS  # noqa: E402
from tests.domains.pixelmaze.scripted import Scripted  # noqa: E402
from tests.domains.pixelmaze.test_domains import moves_of  # noqa: E402
from tfsm.errors import TfsmError  # noqa: E402
from tfsm_domains.envs.env import Window  # noqa: E402
from tfsm_domains.hard_maze.domain import HardMaze  # noqa: E402
from tfsm_domains.hard_maze.drawing import MazeFilm  # noqa: E402
from tfsm_domains.hard_maze.robot import RANGE, RANGEFINDERS, sense  # noqa: E402
from tfsm_domains.pixel_maze.topdown import TopdownMaze  # noqa: E402


def test_a_robot_is_drawn_as_in_a_replay() -> None:
    env: Any = gymnasium.make("tfsm/HardMaze-v0", render_mode="rgb_array")
    maze = HardMaze().place
    env.reset()
    poses = [(*maze.start, maze.heading)]
    for _ in range(5):
        env.step(np.array([0.3, 1.0], np.float32))
        poses += [tuple(pose) for pose in env.unwrapped._moment.state.track.numpy()[0, :, :3]]
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
    script = moves_of(maze)[:9]
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
    env.unwrapped._window = Window("tfsm", 1000.0)  # not as slow as for people
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


def test_where_there_is_no_display_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "nothing-like-this")
    with pytest.raises(TfsmError, match=r'no window can be opened here \(.*\); render_mode="rgb_array" draws without'):
        Window("tfsm", 1.0).show(np.zeros([4, 4, 3], np.uint8))
