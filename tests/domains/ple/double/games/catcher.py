from __future__ import annotations

from typing import Any

import pytest

from tests.domains.ple.double.games.base.pygamewrapper import PyGameWrapper

pygame = pytest.importorskip("pygame")

FALL = 22
"""Frames that a fruit takes: enough for the paddle to be there, from wherever it was."""


class Catcher(PyGameWrapper):
    """A paddle under falling fruit; a player that follows the fruit catches all of it."""

    def __init__(self) -> None:
        super().__init__(24, 24, {"left": pygame.K_a, "right": pygame.K_d})

    def init(self) -> None:
        self.score, self.lives, self.x = 0.0, 3, 12
        self._drop()

    def _drop(self) -> None:
        self.fruit_x, self.fruit_y = int(self.rng.randint(2, 22)), 0

    def getGameState(self) -> Any:
        return {"player_x": self.x, "player_vel": 0.0, "fruit_x": self.fruit_x, "fruit_y": self.fruit_y}

    def game_over(self) -> bool:
        return self.lives == 0

    def step(self, dt: float) -> None:
        for key in self.pressed():
            self.x += {self.actions["left"]: -1, self.actions["right"]: 1}[key]
        self.x = min(max(self.x, 3), 20)
        self.fruit_y += 1
        if self.fruit_y == FALL:
            caught = abs(self.fruit_x - self.x) <= 3
            self.score += 1.0 if caught else -1.0
            self.lives -= not caught
            self._drop()
        self.screen.fill((0, 0, 0))
        pygame.draw.rect(self.screen, (255, 255, 255), (self.x - 3, FALL, 7, 2))
        self.screen.set_at((self.fruit_x, self.fruit_y), (255, 120, 120))
