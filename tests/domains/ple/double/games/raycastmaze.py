from __future__ import annotations

import numpy as np
import pytest

from tests.domains.ple.double.games.base.pygamewrapper import PyGameWrapper

pygame = pytest.importorskip("pygame")


class RaycastMaze(PyGameWrapper):
    """Uses removed functions of NumPy and pygame, and has no state."""

    def __init__(self) -> None:
        super().__init__(16, 12, {"forward": pygame.K_w, "left": pygame.K_a})

    def init(self) -> None:
        self.score = 0.0
        self.walls = self.rng.uniform(1.0, 11.0, [16, 1]).astype(np.int)  # type: ignore[attr-defined]  # noqa: NPY001

    def step(self, dt: float) -> None:
        self.score += self.actions["forward"] in self.pressed()
        self.screen.fill((0, 0, 0))
        for column, bottom in enumerate(self.walls):  # [1]
            pygame.draw.line(self.screen, (200, 200, 200), (column, np.zeros(1, int)), (column, bottom), 1)
