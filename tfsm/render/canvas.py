"""A picture to draw on without a display, by pygame."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from tfsm.utils.optional import optional

Color = tuple[int, int, int]
Points = np.ndarray
"""`[N, 2]`"""

PAPER: Final[Color] = (252, 252, 250)
INK: Final[Color] = (38, 38, 46)
EARLY: Final[Color] = (250, 200, 90)
LATE: Final[Color] = (60, 20, 110)
OVERSAMPLING: Final = 3
"""Drawn so many times too large, then made smaller: smooth edges."""


class Canvas:
    """A picture of a part of the plane, to draw on in the plane's own units, with room for words above it.

    Args:
        low: the least x and y.
        high: the greatest x and y.
        size: pixels of the longer side.
    """

    def __init__(self, low: Sequence[float] | Points, high: Sequence[float] | Points, size: int = 480) -> None:
        self._pygame = optional("pygame", extra="replay", purpose="drawing")
        low, high = np.asarray(low, float), np.asarray(high, float)
        longest = float((high - low).max())
        margin, self._line = 0.02 * longest, 0.06 * longest
        self._low = low - margin - [0.0, self._line]
        extent = high + margin - self._low
        self._scale = size * OVERSAMPLING / extent.max()
        # Even numbers of pixels: most video formats insist.
        self._size = np.maximum(2, 2 * np.round(extent * self._scale / OVERSAMPLING / 2)).astype(int)
        self._surface = self._pygame.Surface(tuple((self._size * OVERSAMPLING).tolist()))
        self._surface.fill(PAPER)

    def copy(self) -> Canvas:
        """Return another like it, to draw on without changing this one."""
        twin = object.__new__(Canvas)
        twin.__dict__ = {**self.__dict__, "_surface": self._surface.copy()}
        return twin

    def line(self, points: Sequence[Sequence[float]] | Points, colour: Color, width: float) -> None:
        """Draw a line through points, with round joints."""
        places, thick = self._pixels(points), max(1, round(width * self._scale))
        if len(places) > 1:
            self._pygame.draw.lines(self._surface, colour, False, places, thick)
        for place in places:
            self._pygame.draw.circle(self._surface, colour, place, thick / 2)

    def circle(self, centre: Sequence[float] | Points, radius: float, colour: Color, *, width: float = 0.0) -> None:
        """Draw a disc, or a ring of some width."""
        thick = max(1, round(width * self._scale)) if width else 0
        self._pygame.draw.circle(self._surface, colour, self._pixels([centre])[0], radius * self._scale, thick)

    def rectangle(self, low: Sequence[float], high: Sequence[float], colour: Color) -> None:
        """Fill a rectangle."""
        (x1, y1), (x2, y2) = self._pixels([low, high])
        self._pygame.draw.rect(
            self._surface, colour, (round(x1), round(y1), round(x2) - round(x1), round(y2) - round(y1))
        )

    def dots(self, points: Points, colour: Color, radius: float, alpha: int) -> None:
        """Draw many translucent dots."""
        layer = self._pygame.Surface(self._surface.get_size(), self._pygame.SRCALPHA)
        for place in self._pixels(points):
            self._pygame.draw.circle(layer, (*colour, alpha), place, radius * self._scale)
        self._surface.blit(layer, (0, 0))

    def populations(self, evaluations: Points, places: Points, radius: float) -> None:
        """Draw populations `[T, N, 2]` after so many evaluations `[T]` as dots, the later the darker, and say so."""
        for shade, population in zip(np.linspace(0.0, 1.0, len(evaluations)), places, strict=True):
            red, green, blue = ((1 - shade) * np.array(EARLY) + shade * np.array(LATE)).round().astype(int).tolist()
            there = population[np.isfinite(population).all(axis=-1)]  # some places may be empty
            self.dots(there, (red, green, blue), radius, 110)
        self.words(f"{int(evaluations[0]):,} (light) to {int(evaluations[-1]):,} evaluations (dark)")

    def words(self, words: str) -> None:
        """Write above everything."""
        self._pygame.font.init()
        font = self._pygame.font.Font(None, round(0.9 * self._line * self._scale))
        self._surface.blit(font.render(words, True, INK), (self._line * self._scale / 2, self._line * self._scale / 4))

    def image(self) -> np.ndarray:
        """Return the picture: `[height, width, 3]`, bytes."""
        small = self._pygame.transform.smoothscale(self._surface, tuple(self._size.tolist()))
        return np.ascontiguousarray(self._pygame.surfarray.array3d(small).swapaxes(0, 1))

    def _pixels(self, points: Any) -> list[tuple[float, float]]:
        return [tuple(p) for p in ((np.asarray(points, float) - self._low) * self._scale).tolist()]


HEADLESS_ENVIRONMENT: Final = {
    "SDL_VIDEODRIVER": "dummy",
    "SDL_AUDIODRIVER": "dummy",
    # Else SDL makes a key press of SIGTERM, at which a game would end the process as if its window had been closed.
    "SDL_NO_SIGNAL_HANDLERS": "1",
}


@contextmanager
def headless_display() -> Iterator[None]:
    """Let displays that are opened in here be seen by nobody."""
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
