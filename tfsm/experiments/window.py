"""A window that shows a film."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfsm.contracts import Film
from tfsm.errors import TfsmError
from tfsm.extras import optional

KEYS = "space: pause, left and right: one frame, up and down: faster and slower, home: again, q: quit"


class _Picture:
    """A film of one frame."""

    rate = 10.0

    def __init__(self, picture: np.ndarray) -> None:
        self._picture = picture

    def __len__(self) -> int:
        return 1

    def frame(self, index: int) -> np.ndarray:
        return self._picture

    def still(self) -> np.ndarray:
        return self._picture


def show_picture(picture: np.ndarray, title: str) -> None:
    """Show one picture until the user closes the window."""
    show(_Picture(picture), title)


def show(film: Film, title: str) -> None:
    """Play a film in a window until the user closes it; `KEYS` says how it is steered."""
    pygame = optional("pygame", extra="replay", purpose="a window")
    try:
        pygame.display.init()
        first = film.frame(0)
        screen = pygame.display.set_mode((first.shape[1], first.shape[0]))
    except pygame.error as error:
        raise TfsmError(f"no window can be opened here ({error}); --save FILE writes a file instead") from None
    try:
        _play(pygame, screen, film, title)
    finally:
        pygame.quit()


def _play(pygame: Any, screen: Any, film: Film, title: str) -> None:
    clock, index, speed, paused = pygame.time.Clock(), 0, 1.0, len(film) == 1
    drawn = -1
    while True:
        for event in pygame.event.get():
            if event.type == pygame.QUIT:
                return
            if event.type != pygame.KEYDOWN:
                continue
            if event.key in (pygame.K_q, pygame.K_ESCAPE):
                return
            if event.key == pygame.K_SPACE:
                paused = not paused
            elif event.key in (pygame.K_LEFT, pygame.K_RIGHT):
                paused = True
                index += 1 if event.key == pygame.K_RIGHT else -1
            elif event.key in (pygame.K_UP, pygame.K_DOWN):
                speed = min(8.0, max(0.125, speed * (2.0 if event.key == pygame.K_UP else 0.5)))
            elif event.key == pygame.K_HOME:
                index, paused = 0, False
        index = min(max(index, 0), len(film) - 1)
        if index != drawn:
            picture = film.frame(index)
            screen.blit(pygame.surfarray.make_surface(picture.swapaxes(0, 1)), (0, 0))
            pygame.display.set_caption(f"{title}: frame {index + 1} of {len(film)}, {speed:g}x")
            pygame.display.flip()
            drawn = index
        clock.tick(film.rate * speed if not paused else 30)
        index += 0 if paused else 1
