from __future__ import annotations

import importlib
import os
from typing import Any

import numpy as np
import pygame
import pytest

from tfsm_domains.ple.games import RATE, Arcade, Numbers, Play, games_in, load_arcade, stage

SEED = [3, 1, 4]
Trace = list[tuple[float, bool, bytes]]


def presses(actions: list[Any], count: int = 60) -> list[Any]:
    return [actions[i] for i in np.random.default_rng(1).integers(len(actions), size=count)]


def trace(play: Play) -> Trace:
    seen = []
    for action in presses(play.actions):
        play.act(action, 1)
        seen.append((play.score, play.over, play.picture().tobytes()))
    return seen


def anew(arcade: Arcade) -> Trace:
    """Play a game that was never played before, by ple alone."""
    game = arcade.game()
    environment = arcade.environment(game, fps=game.allowed_fps or RATE, rng=Numbers(SEED))
    environment.reset_game()
    seen = []
    for action in presses(environment.getActionSet()):
        environment.act(action)
        picture = np.ascontiguousarray(pygame.surfarray.array3d(game.screen).swapaxes(0, 1))
        seen.append((float(environment.score()), bool(environment.game_over()), picture.tobytes()))
    return seen


@pytest.mark.usefixtures("ple")
def test_every_game_goes_again_as_one_never_played_goes() -> None:
    names = sorted(games_in(importlib.import_module("ple.games")))
    assert {"Catcher", "FlappyBird", "RaycastMaze", "Snake"} <= set(names)
    for name in names:
        arcade = load_arcade(name)
        with stage(arcade):
            expected = anew(arcade)
            play = Play(arcade)
            play.start([9])
            other = trace(play)
            play.start(SEED)
            assert trace(play) == expected, name
            assert other != expected, name


@pytest.mark.usefixtures("ple")
def test_games_that_take_turns_do_not_disturb_each_other() -> None:
    arcade = load_arcade("Catcher")
    with stage(arcade):
        expected = anew(arcade)
        one, other = Play(arcade), Play(arcade)
        one.start(SEED)
        other.start([7])
        for action, (score, over, picture) in zip(presses(one.actions), expected, strict=True):
            one.act(action, 1)
            other.act(other.actions[0], 1)
            assert (one.score, one.over, one.picture().tobytes()) == (score, over, picture)


@pytest.mark.usefixtures("double")
def test_a_key_is_held_until_the_game_is_over() -> None:
    arcade = load_arcade("Catcher")
    with stage(arcade):
        play = Play(arcade)
        play.start(SEED)
        place = play.state()["player_x"]
        play.act(play.actions[1], 4)
        assert (play.frames, play.state()["player_x"]) == (4, place + 4)
        play.act(play.actions[0], 1000)
        assert play.over
        assert play.frames < 1000
        assert play.score <= 0


def test_whole_numbers_are_drawn_as_numpy_drew_them() -> None:
    numbers, known = Numbers(5), np.random.RandomState(5)
    with pytest.warns(DeprecationWarning, match="deprecated"):
        expected = [known.random_integers(2, 9), known.random_integers(4), *known.random_integers(0, 5, 3)]
    assert [numbers.random_integers(2, 9), numbers.random_integers(4), *numbers.random_integers(0, 5, 3)] == expected


@pytest.mark.usefixtures("double")
def test_nothing_is_shown_and_the_environment_is_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    pygame.quit()
    monkeypatch.setenv("SDL_VIDEODRIVER", "x11")
    monkeypatch.delenv("SDL_AUDIODRIVER", raising=False)
    before = dict(os.environ)
    arcade = load_arcade("Catcher")
    with stage(arcade, leave=True):
        assert pygame.display.get_driver() == "dummy"
        Play(arcade).start(SEED)
    assert dict(os.environ) == before
    assert not pygame.display.get_init(), "a window that is opened now is one to be seen"
