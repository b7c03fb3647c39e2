"""A window for `render_mode="human"`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfsm.errors import TfsmError
from tfsm.extras import optional


class Window:
    """Shows pictures one after the other, at a rate; it opens with the first.

    Args:
        title: what is written above it.
        rate: pictures a second at most.
    """

    def __init__(self, title: str, rate: float) -> None:
        self._title, self._rate = title, rate
        self._screen: Any = None
        self._clock: Any = None

    def show(self, picture: np.ndarray) -> None:
        """Show a picture, and wait until the next one is due."""
        pygame = optional("pygame", extra="replay", purpose="a window")
        if self._screen is None:
            self._open(pygame, picture)
        self._screen.blit(pygame.surfarray.make_surface(picture.swapaxes(0, 1)), (0, 0))
        pygame.event.pump()
        pygame.display.flip()
        self._clock.tick(self._rate)

    def close(self) -> None:
        """Close it, if it is open."""
        if self._screen is not None:
            optional("pygame", extra="replay", purpose="a window").display.quit()
            self._screen = self._clock = None

    def _open(self, pygame: Any, picture: np.ndarray) -> None:
        try:
            pygame.display.init()
            self._screen = pygame.display.set_mode((picture.shape[1], picture.shape[0]))
        except pygame.error as error:
            raise TfsmError(
                f'no window can be opened here ({error}); render_mode="rgb_array" draws without one'
            ) from None
        pygame.display.set_caption(self._title)
        self._clock = pygame.time.Clock()

    def __getstate__(self) -> dict[str, Any]:
        """Be closed in a copy."""
        return {**self.__dict__, "_screen": None, "_clock": None}
