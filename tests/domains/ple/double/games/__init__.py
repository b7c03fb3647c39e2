from __future__ import annotations

from tests.domains.ple.double.games.awkward import FlappyBird, Snake, Stubborn
from tests.domains.ple.double.games.catcher import Catcher
from tests.domains.ple.double.games.raycastmaze import RaycastMaze

__all__ = ["Catcher", "FlappyBird", "RaycastMaze", "Snake", "Stubborn"]
