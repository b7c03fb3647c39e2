from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import numpy as np
import pygame
import pytest

from tfsm.models.network import Network
from tfsm_domains.ple import games as mending
from tfsm_domains.ple.domain import Ple
from tfsm_domains.ple.games import mended, mends, missing_aliases, refuses_arrays


def namespaces() -> list[dict[str, Any]]:
    return [dict(vars(module)) for module in (np, pygame, pygame.draw)]


@pytest.mark.usefixtures("ple")
def test_a_game_for_an_older_numpy_and_pygame_is_played_and_nothing_of_it_stays() -> None:
    module: Any = importlib.import_module("ple.games.raycastmaze")
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
def test_without_the_mends_the_double_fails_as_the_real_game_does() -> None:
    assert "int" in missing_aliases()
    assert refuses_arrays(pygame)
    maze = importlib.import_module("ple.games.raycastmaze").RaycastMaze()
    maze.rng, maze.screen = np.random.RandomState(0), pygame.Surface((16, 12))
    with pytest.raises(AttributeError, match="int"):
        maze.init()
    with mended(mends([importlib.import_module("ple.games.raycastmaze")], pygame)):
        maze.init()
    maze.pressed = list
    with pytest.raises(TypeError, match="start_pos"):
        maze.step(1.0)


def test_names_are_put_back_when_a_game_fails() -> None:
    module = ModuleType("game")
    module.__dict__.update(numpy=np, pg=pygame, draw=pygame.draw, line=pygame.draw.line, other=importlib)
    before = dict(vars(module))
    found = mends([module], pygame)
    assert {mend.name for mend in found} == {"numpy", "pg", "draw", "line"}
    with mended(found):
        assert module.numpy.int is int
        assert module.numpy.float32 is np.float32
        assert module.pg.draw.line is module.draw.line is module.line
        assert module.pg.draw.rect is pygame.draw.rect
    assert vars(module) == before
    with pytest.raises(ZeroDivisionError), mended(found):
        module.numpy.int(1 / 0)
    assert vars(module) == before


def test_where_the_libraries_do_as_expected_there_is_nothing_to_mend(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("game")
    module.__dict__.update(np=np, pygame=pygame)
    monkeypatch.setattr(mending, "ALIASES", {"float32": float})
    monkeypatch.setattr(mending, "refuses_arrays", lambda pygame: False)
    assert mends([module], pygame) == ()


def test_a_line_between_arrays_is_the_line_between_their_numbers() -> None:
    module: Any = ModuleType("game")
    module.pygame = pygame
    pictures = [pygame.Surface((8, 8)) for _ in range(2)]
    with mended(mends([module], pygame)):
        module.pygame.draw.line(pictures[0], (9, 9, 9), (np.int64(1), np.array([2])), (np.array([6]), 5), 1)
    pygame.draw.line(pictures[1], (9, 9, 9), (1, 2), (6, 5), 1)
    mine, theirs = (pygame.surfarray.array3d(picture) for picture in pictures)
    np.testing.assert_array_equal(mine, theirs)
    assert mine.any()
