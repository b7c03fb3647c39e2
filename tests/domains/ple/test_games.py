""""""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pygame
import pytest

from tfsm.abilities import SupportsFilm
from tfsm.errors import TfsmError
from tfsm.interfaces import Domain
from tfsm.models.network import Network
from tfsm.plugins.registry import Registry
from tfsm_domains.ple import games as games
from tfsm_domains.ple import tfsm_register_domains
from tfsm_domains.ple.domain import Ple
from tfsm_domains.ple.games import (
    RATE,
    GameInstance,
    LegacyRandomState,
    LoadedGame,
    apply_patches,
    find_games,
    find_patches,
    game_display,
    load_game,
    missing_aliases,
    refuses_arrays,
)


@pytest.mark.usefixtures("nothing")
def test_without_ple_the_domain_is_listed_and_evaluating_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ple", None)
    registry = Registry("domain", plugin="tfsm-ple", distribution="tfsm", taken={})
    tfsm_register_domains(registry)
    (entry,) = registry.entries
    domain = entry.load()()
    assert isinstance(domain, Domain)
    assert isinstance(domain, SupportsFilm)
    with pytest.raises(TfsmError, match=r"needs ple.*ntasfi/PyGame-Learning-Environment.*pip install") as error:
        domain.network()
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.usefixtures("ple")
def test_an_unknown_game_is_an_error_with_a_suggestion_and_all_names() -> None:
    with pytest.raises(TfsmError, match="no game named 'Cacher', did you mean 'Catcher'") as error:
        Ple(game="Cacher").network()
    assert "RaycastMaze" in str(error.value)
    assert "PyGameWrapper" not in str(error.value)
    with pytest.raises(TfsmError, match=r"no game named 'Q'; known: Catcher,.*RaycastMaze") as error:
        Ple(game="Q").network()
    assert str(error.value).count("RaycastMaze") == 1


def package(root: Path, monkeypatch: pytest.MonkeyPatch, **files: str) -> None:
    monkeypatch.syspath_prepend(root)
    (root / "ple" / "games" / "base").mkdir(parents=True)
    base = "class PyGameWrapper: pass\n"
    texts = {"__init__": "", "games/__init__": "", "games/base/__init__": "", "games/base/pygamewrapper": base}
    for name, text in {**texts, **files}.items():
        (root / "ple" / f"{name}.py").write_text(text)


@pytest.mark.usefixtures("nothing")
@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "the installed package 'ple' is an unrelated one: clone the GitHub project"),
        ({"__init__": "import surely_not_installed"}, "ple needs surely_not_installed"),
        ({"__init__": "class PLE: pass", "games/__init__": "\tindented"}, "cannot be imported: IndentationError"),
    ],
    ids=["another package", "a library is missing", "a broken file"],
)
def test_an_unusable_ple_is_reported_in_one_message(
    files: dict[str, str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package(tmp_path, monkeypatch, **files)
    with pytest.raises(TfsmError, match=message):
        load_game("Catcher")


@pytest.mark.usefixtures("nothing")
def test_an_unrelated_ple_is_named_by_its_distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ple").mkdir()
    (tmp_path / "ple" / "__init__.py").write_text("__version__ = '0.0.4'\n")
    info = tmp_path / "fast_ple-0.0.4.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fast-ple\nVersion: 0.0.4\n")
    (info / "top_level.txt").write_text("ple\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(TfsmError) as error:
        load_game("Catcher")
    assert str(error.value) == (
        "the domain 'ple': the installed package 'ple', of fast-ple, is an unrelated one: "
        "run 'pip uninstall fast-ple', then clone the GitHub project ntasfi/PyGame-Learning-Environment and "
        "run 'pip install -e .' in it"
    )


@pytest.mark.usefixtures("double")
def test_a_game_without_its_images_says_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    game = load_game("Catcher")

    def load_images(self: Any) -> None:
        pygame.image.load("no/such/assets/bird.png")

    monkeypatch.setattr(game.game_class, "__init__", load_images)
    with game_display(game), pytest.raises(TfsmError) as error:
        GameInstance(game)
    assert "the game 'Catcher' does not find its images" in str(error.value)
    assert "PLE's packaging omits them" in str(error.value)
    assert "pip install -e ." in str(error.value)


@pytest.mark.usefixtures("nothing")
def test_output_of_ple_during_import_is_discarded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    games = "print('no doom')\nfrom ple.games.base.pygamewrapper import PyGameWrapper\nclass Own(PyGameWrapper): pass\n"
    package(tmp_path, monkeypatch, **{"__init__": "class PLE: pass", "games/__init__": games})
    assert load_game("Own").name == "Own"
    assert capsys.readouterr() == ("", "")


def namespaces() -> list[dict[str, Any]]:
    return [dict(vars(module)) for module in (np, pygame, pygame.draw)]


@pytest.mark.usefixtures("ple")
def test_a_game_for_older_libraries_works_and_patches_are_removed() -> None:
    module: Any = importlib.import_module("ple.games.raycastmaze")
    importlib.import_module("pygame.freetype")  # the first use of pygame may import it
    before, own = namespaces(), dict(vars(module))
    domain = Ple(game="RaycastMaze", observation="pixels", side=20, frames=8)
    network = Network(domain.network())
    found = domain.evaluate(network, np.zeros([1, network.size], np.float32), np.zeros([1, 2], np.int32))
    assert np.isfinite(found.fitness).all()
    assert len(np.unique(found.experience)) > 2, "lines are drawn"
    assert namespaces() == before
    assert vars(module) == own
    assert module.np is np
    assert module.pygame is pygame


@pytest.mark.usefixtures("double")
def test_without_the_patches_the_double_fails_as_the_real_game_does() -> None:
    assert "int" in missing_aliases()
    assert refuses_arrays(pygame)
    maze = importlib.import_module("ple.games.raycastmaze").RaycastMaze()
    maze.rng, maze.screen = np.random.RandomState(0), pygame.Surface((16, 12))
    with pytest.raises(AttributeError, match="int"):
        maze.init()
    with apply_patches(find_patches([importlib.import_module("ple.games.raycastmaze")], pygame)):
        maze.init()
    maze.pressed = list
    with pytest.raises(TypeError, match="start_pos"):
        maze.step(1.0)


def test_patches_are_removed_when_a_game_fails() -> None:
    module = ModuleType("game")
    module.__dict__.update(numpy=np, pg=pygame, draw=pygame.draw, line=pygame.draw.line, other=importlib)
    before = dict(vars(module))
    found = find_patches([module], pygame)
    assert {patch.name for patch in found} == {"numpy", "pg", "draw", "line"}
    with apply_patches(found):
        assert module.numpy.int is int
        assert module.numpy.float32 is np.float32
        assert module.pg.draw.line is module.draw.line is module.line
        assert module.pg.draw.rect is pygame.draw.rect
    assert vars(module) == before
    with pytest.raises(ZeroDivisionError), apply_patches(found):
        module.numpy.int(1 / 0)
    assert vars(module) == before


def test_nothing_is_patched_if_the_libraries_work(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("game")
    module.__dict__.update(np=np, pygame=pygame)
    monkeypatch.setattr(games, "ALIASES", {"float32": float})
    monkeypatch.setattr(games, "refuses_arrays", lambda pygame: False)
    assert find_patches([module], pygame) == ()


def test_a_line_between_arrays_is_the_line_between_their_numbers() -> None:
    module: Any = ModuleType("game")
    module.pygame = pygame
    pictures = [pygame.Surface((8, 8)) for _ in range(2)]
    with apply_patches(find_patches([module], pygame)):
        module.pygame.draw.line(pictures[0], (9, 9, 9), (np.int64(1), np.array([2])), (np.array([6]), 5), 1)
    pygame.draw.line(pictures[1], (9, 9, 9), (1, 2), (6, 5), 1)
    mine, theirs = (pygame.surfarray.array3d(picture) for picture in pictures)
    np.testing.assert_array_equal(mine, theirs)
    assert mine.any()


SEED = [3, 1, 4]
Trace = list[tuple[float, bool, bytes]]


def presses(actions: list[Any], count: int = 60) -> list[Any]:
    return [actions[i] for i in np.random.default_rng(1).integers(len(actions), size=count)]


def trace(play: GameInstance) -> Trace:
    seen = []
    for action in presses(play.actions):
        play.act(action, 1)
        seen.append((play.score, play.over, play.screenshot().tobytes()))
    return seen


def play_fresh(loaded: LoadedGame) -> Trace:
    """Play a new game with ple directly."""
    game = loaded.game_class()
    environment = loaded.ple_class(game, fps=game.allowed_fps or RATE, rng=LegacyRandomState(SEED))
    environment.reset_game()
    seen = []
    for action in presses(environment.getActionSet()):
        environment.act(action)
        picture = np.ascontiguousarray(pygame.surfarray.array3d(game.screen).swapaxes(0, 1))
        seen.append((float(environment.score()), bool(environment.game_over()), picture.tobytes()))
    return seen


@pytest.mark.usefixtures("ple")
def test_a_reset_game_behaves_like_a_new_one() -> None:
    names = sorted(find_games(importlib.import_module("ple.games")))
    assert {"Catcher", "FlappyBird", "RaycastMaze", "Snake"} <= set(names)
    for name in names:
        game = load_game(name)
        with game_display(game):
            try:
                expected = play_fresh(game)
            except FileNotFoundError:  # the images of two games, unless the install is editable
                with pytest.raises(TfsmError, match=f"the game '{name}' does not find its images"):
                    GameInstance(game)
                continue
            play = GameInstance(game)
            play.start([9])
            other = trace(play)
            play.start(SEED)
            assert trace(play) == expected, name
            assert other != expected, name


@pytest.mark.usefixtures("ple")
def test_alternating_games_do_not_affect_each_other() -> None:
    game = load_game("Catcher")
    with game_display(game):
        expected = play_fresh(game)
        one, other = GameInstance(game), GameInstance(game)
        one.start(SEED)
        other.start([7])
        for action, (score, over, picture) in zip(presses(one.actions), expected, strict=True):
            one.act(action, 1)
            other.act(other.actions[0], 1)
            assert (one.score, one.over, one.screenshot().tobytes()) == (score, over, picture)


@pytest.mark.usefixtures("double")
def test_a_key_is_held_until_the_game_is_over() -> None:
    game = load_game("Catcher")
    with game_display(game):
        play = GameInstance(game)
        play.start(SEED)
        place = play.state()["player_x"]
        play.act(play.actions[1], 4)
        assert (play.frames, play.state()["player_x"]) == (4, place + 4)
        play.act(play.actions[0], 1000)
        assert play.over
        assert play.frames < 1000
        assert play.score <= 0


def test_integers_are_drawn_as_by_numpy() -> None:
    numbers, known = LegacyRandomState(5), np.random.RandomState(5)
    with pytest.warns(DeprecationWarning, match="deprecated"):
        expected = [known.random_integers(2, 9), known.random_integers(4), *known.random_integers(0, 5, 3)]
    assert [numbers.random_integers(2, 9), numbers.random_integers(4), *numbers.random_integers(0, 5, 3)] == expected


@pytest.mark.usefixtures("double")
def test_no_window_opens_and_the_environment_is_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    pygame.quit()
    monkeypatch.setenv("SDL_VIDEODRIVER", "x11")
    monkeypatch.delenv("SDL_AUDIODRIVER", raising=False)
    before = dict(os.environ)
    game = load_game("Catcher")
    with game_display(game, leave=True):
        assert pygame.display.get_driver() == "dummy"
        GameInstance(game).start(SEED)
    assert dict(os.environ) == before
    assert not pygame.display.get_init(), "a window that is opened now is visible"
