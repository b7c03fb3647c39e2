"""Drawing with pygame, without a display: a canvas in the units of the plane, and headless SDL."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from tfsm.errors import import_optional

Color = tuple[int, int, int]
Points = np.ndarray
"""`[N, 2]`"""

PAPER: Final[Color] = (252, 252, 250)
INK: Final[Color] = (38, 38, 46)
EARLY: Final[Color] = (250, 200, 90)
LATE: Final[Color] = (60, 20, 110)
OVERSAMPLING: Final = 3
"""Pictures are drawn larger by this factor and scaled down, which smooths their edges."""


class Canvas:
    """A picture of a rectangle of the plane. Drawing uses the units of the plane; a caption has room above.

    Args:
        low: the minimum x and y.
        high: the maximum x and y.
        size: the length of the longer side in pixels.
    """

    def __init__(self, low: Sequence[float] | Points, high: Sequence[float] | Points, size: int = 480) -> None:
        self._pygame = import_optional("pygame", extra="replay", purpose="drawing")
        low, high = np.asarray(low, float), np.asarray(high, float)
        longest = float((high - low).max())
        margin, self._caption_height = 0.02 * longest, 0.06 * longest
        self._low = low - margin - [0.0, self._caption_height]
        extent = high + margin - self._low
        self._scale = size * OVERSAMPLING / extent.max()
        # Most video formats require even numbers of pixels.
        self._size = np.maximum(2, 2 * np.round(extent * self._scale / OVERSAMPLING / 2)).astype(int)
        self._surface = self._pygame.Surface(tuple((self._size * OVERSAMPLING).tolist()))
        self._surface.fill(PAPER)

    def copy(self) -> Canvas:
        """Return a copy that can be drawn on independently."""
        copy = object.__new__(Canvas)
        copy.__dict__ = {**self.__dict__, "_surface": self._surface.copy()}
        return copy

    def line(self, points: Sequence[Sequence[float]] | Points, color: Color, width: float) -> None:
        """Draw a line through points, with round joints."""
        pixels, thickness = self._to_pixels(points), max(1, round(width * self._scale))
        if len(pixels) > 1:
            self._pygame.draw.lines(self._surface, color, False, pixels, thickness)
        for pixel in pixels:
            self._pygame.draw.circle(self._surface, color, pixel, thickness / 2)

    def circle(self, center: Sequence[float] | Points, radius: float, color: Color, *, width: float = 0.0) -> None:
        """Draw a disc, or a ring if a width is given."""
        thickness = max(1, round(width * self._scale)) if width else 0
        self._pygame.draw.circle(self._surface, color, self._to_pixels([center])[0], radius * self._scale, thickness)

    def rectangle(self, low: Sequence[float], high: Sequence[float], color: Color) -> None:
        """Fill a rectangle."""
        (x1, y1), (x2, y2) = self._to_pixels([low, high])
        self._pygame.draw.rect(
            self._surface, color, (round(x1), round(y1), round(x2) - round(x1), round(y2) - round(y1))
        )

    def dots(self, points: Points, color: Color, radius: float, alpha: int) -> None:
        """Draw many translucent dots."""
        layer = self._pygame.Surface(self._surface.get_size(), self._pygame.SRCALPHA)
        for pixel in self._to_pixels(points):
            self._pygame.draw.circle(layer, (*color, alpha), pixel, radius * self._scale)
        self._surface.blit(layer, (0, 0))

    def populations(self, evaluations: np.ndarray, positions: np.ndarray, radius: float) -> None:
        """Draw populations `[T, N, 2]` after `[T]` evaluations as dots, later ones darker, with a caption."""
        for shade, population in zip(np.linspace(0.0, 1.0, len(evaluations)), positions, strict=True):
            red, green, blue = ((1 - shade) * np.array(EARLY) + shade * np.array(LATE)).round().astype(int).tolist()
            present = population[np.isfinite(population).all(axis=-1)]  # archives may have empty cells
            self.dots(present, (red, green, blue), radius, 110)
        self.caption(f"{int(evaluations[0]):,} (light) to {int(evaluations[-1]):,} evaluations (dark)")

    def caption(self, text: str) -> None:
        """Write a line of text above the picture."""
        self._pygame.font.init()
        font = self._pygame.font.Font(None, round(0.9 * self._caption_height * self._scale))
        self._surface.blit(
            font.render(text, True, INK),
            (self._caption_height * self._scale / 2, self._caption_height * self._scale / 4),
        )

    def image(self) -> np.ndarray:
        """Return the picture as an array `[height, width, 3]` of bytes."""
        scaled = self._pygame.transform.smoothscale(self._surface, tuple(self._size.tolist()))
        return np.ascontiguousarray(self._pygame.surfarray.array3d(scaled).swapaxes(0, 1))

    def _to_pixels(self, points: Any) -> list[tuple[float, float]]:
        return [tuple(p) for p in ((np.asarray(points, float) - self._low) * self._scale).tolist()]


HEADLESS_ENVIRONMENT: Final = {
    "SDL_VIDEODRIVER": "dummy",
    "SDL_AUDIODRIVER": "dummy",
    # Otherwise SDL turns SIGTERM into an event, on which a game ends the process as if its window had been closed.
    "SDL_NO_SIGNAL_HANDLERS": "1",
}


@contextmanager
def headless_display() -> Iterator[None]:
    """Open displays in this context without a window or sound."""
    before = {name: os.environ.get(name) for name in HEADLESS_ENVIRONMENT}
    os.environ.update(HEADLESS_ENVIRONMENT)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
