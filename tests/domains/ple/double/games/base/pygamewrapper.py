from __future__ import annotations

from typing import Any

import pytest

pygame = pytest.importorskip("pygame")


class PyGameWrapper:
    def __init__(self, width: int, height: int, actions: dict[str, int]) -> None:
        self.actions, self.screen_dim = actions, (width, height)
        self.width, self.height = width, height
        self.score = 0.0
        self.screen: Any = None
        self.clock: Any = None
        self.rng: Any = None
        self.allowed_fps: int | None = None

    def _setup(self) -> None:
        pygame.init()
        self.screen = pygame.display.set_mode(self.screen_dim, 0, 32)
        self.clock = pygame.time.Clock()

    def setRNG(self, rng: Any) -> None:
        if self.rng is None:
            self.rng = rng

    def init(self) -> None:
        raise NotImplementedError

    def reset(self) -> None:
        self.init()

    def getGameState(self) -> Any:
        return None

    def getScore(self) -> float:
        return self.score

    def game_over(self) -> bool:
        return False

    def step(self, dt: float) -> None:
        raise NotImplementedError

    def pressed(self) -> list[int]:
        return [event.key for event in pygame.event.get() if event.type == pygame.KEYDOWN]
