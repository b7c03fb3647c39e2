from __future__ import annotations

from typing import Any

import pytest

from tests.domains.ple.double.games.base.pygamewrapper import PyGameWrapper

pygame = pytest.importorskip("pygame")


class Snake(PyGameWrapper):
    """Its state has lists, one of them of pairs, and they grow."""

    def __init__(self) -> None:
        super().__init__(20, 10, {"up": pygame.K_w})

    def init(self) -> None:
        self.score, self.ticks = 0.0, 0
        self.head = float(self.rng.uniform(5, 15))

    def getGameState(self) -> Any:
        body = [self.head + i for i in range(1 + self.ticks // 5)]
        return {"snake_head_x": self.head, "snake_body": body, "snake_body_pos": [[x, 2.0] for x in body]}

    def step(self, dt: float) -> None:
        self.ticks += 1
        self.score += len(self.pressed())
        self.screen.fill((0, 0, int(10 * self.head)))


class FlappyBird(PyGameWrapper):
    """Keeps the speed of its bird when it is reset, and uses a function that NumPy deprecated."""

    def __init__(self) -> None:
        super().__init__(20, 30, {"up": pygame.K_w})
        self.allowed_fps = 30
        picture = pygame.Surface((4, 4))
        picture.fill((255, 255, 0))
        self.images = {"bird": [picture]}
        self.bird: dict[str, float] | None = None

    def init(self) -> None:
        if self.bird is None:
            self.bird = {"speed": 0.0}
        self.bird["y"] = float(self.rng.random_integers(10, 20))
        self.score, self.lives = 0.0, 1

    def getGameState(self) -> Any:
        assert self.bird is not None
        return dict(self.bird)

    def game_over(self) -> bool:
        return self.lives == 0

    def step(self, dt: float) -> None:
        assert self.bird is not None
        self.bird["speed"] += -0.6 if self.pressed() else 0.2
        self.bird["y"] += self.bird["speed"]
        self.score += 1.0
        self.lives = int(0 < self.bird["y"] < 30)
        self.screen.fill((0, 0, 80))
        self.screen.blit(self.images["bird"][0], (8, self.bird["y"]))


class Stubborn(FlappyBird):
    """Has an attribute that cannot be copied."""

    def __init__(self) -> None:
        super().__init__()
        self.shades = iter_of_shades()


def iter_of_shades() -> Any:
    yield from range(256)
