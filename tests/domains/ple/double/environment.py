from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pygame = pytest.importorskip("pygame")


class PLE:
    def __init__(
        self, game: Any, fps: int = 30, frame_skip: int = 1, display_screen: bool = False, rng: Any = 24
    ) -> None:
        assert isinstance(rng, np.random.RandomState)
        assert game.allowed_fps in (None, fps)
        self.game, self.fps, self.frame_skip = game, fps, frame_skip
        self.last_action: Any = []
        pygame.display.set_mode((1, 1), pygame.NOFRAME)
        game.setRNG(rng)
        game._setup()
        game.init()

    def getActionSet(self) -> list[Any]:
        return [*self.game.actions.values(), None]

    def getScreenDims(self) -> tuple[int, int]:
        return self.game.screen_dim

    def game_over(self) -> bool:
        return self.game.game_over()

    def score(self) -> float:
        return self.game.getScore()

    def reset_game(self) -> None:
        self.last_action = []
        self.game.reset()

    def act(self, action: Any) -> float:
        before = self.score()
        for _ in range(self.frame_skip):
            if self.game_over():
                break
            if action is not None:
                pygame.event.post(pygame.event.Event(pygame.KEYDOWN, {"key": action}))
                pygame.event.post(pygame.event.Event(pygame.KEYUP, {"key": self.last_action}))
            self.last_action = action
            self.game.step(1000.0 / self.fps)
        return self.score() - before
