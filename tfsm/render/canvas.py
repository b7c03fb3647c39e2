"""Drawing with pygame, without a display: a canvas in the units of the plane, films of answers, and headless SDL."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
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
        self.text(self._low + self._caption_height * np.array([0.5, 0.25]), text, 0.9 * self._caption_height)

    def text(self, place: Sequence[float] | Points, text: str, height: float, *, align: float = 0.0) -> None:
        """Write text below a place, to its right (`align=0.0`), to its left (1.0) or around it (0.5)."""
        self._pygame.font.init()
        written = self._pygame.font.Font(None, round(height * self._scale)).render(text, True, INK)
        x, y = self._to_pixels([place])[0]
        self._surface.blit(written, (x - align * written.get_width(), y))

    def image(self) -> np.ndarray:
        """Return the picture as an array `[height, width, 3]` of bytes."""
        scaled = self._pygame.transform.smoothscale(self._surface, tuple(self._size.tolist()))
        return np.ascontiguousarray(self._pygame.surfarray.array3d(scaled).swapaxes(0, 1))

    def _to_pixels(self, points: Any) -> list[tuple[float, float]]:
        return [tuple(p) for p in ((np.asarray(points, float) - self._low) * self._scale).tolist()]


CHAMPION: Final[Color] = (0, 90, 170)
TARGET: Final[Color] = (213, 94, 0)
RIGHT: Final[Color] = (0, 140, 110)
WRONG: Final[Color] = (190, 120, 150)
GRID: Final[Color] = (215, 215, 220)
MAX_ROWS: Final = 16
"""Answers that a film of them shows."""
_ROW: Final = 6.0
_AXIS: Final = (32.0, 108.0)
"""The height of a row, and where the axis begins and ends."""
_LAST_FRAMES: Final = 15


def pick_rows(count: int) -> np.ndarray:
    """Return the indices of the answers that are shown, evenly spread, out of `count`."""
    return np.linspace(0, count - 1, min(count, MAX_ROWS)).round().astype(int)


@dataclass(frozen=True)
class AnswersFilm:
    """A film of what networks answer to one input after the other, for domains in which nothing moves.

    Every input has a row with an axis, the target (a ring), the first network's answer (a bar) and those of the others
    (dots). With a `middle`, dots are colored by whether they are on the target's side of it.
    """

    inputs: Sequence[str] | np.ndarray
    """`[S]` names, or gray levels from 0 to 1, `[S, height, width]`."""
    targets: np.ndarray
    """`[S]`"""
    answers: np.ndarray
    """`[B, S]`"""
    ends: tuple[float, float]
    """The smallest and the largest number on the axis; answers beyond it are drawn at its end."""
    names: tuple[str, str]
    """What is written at these ends."""
    caption: Callable[[int], str]
    """From the number of inputs so far to the text above the picture."""
    middle: float | None = None
    rate: float = 10.0

    def __len__(self) -> int:
        """Return the number of frames: as many for few inputs as for many."""
        return self._per_row * len(self.targets) + _LAST_FRAMES

    @property
    def _per_row(self) -> int:
        return max(4, 48 // len(self.targets))

    def frame(self, index: int) -> np.ndarray:
        """Draw one frame."""
        row, step = divmod(index, self._per_row)
        done = min(row, len(self.targets))
        canvas = self._empty.copy()
        for shown in range(done):
            self._draw_row(canvas, shown, 1.0)
        if row < len(self.targets):
            self._draw_row(canvas, row, step / (self._per_row - 1))
        canvas.caption(self.caption(min(done + 1, len(self.targets))))
        return canvas.image()

    def still(self) -> np.ndarray:
        """Draw all answers."""
        return self.frame(len(self) - 1)

    @cached_property
    def _empty(self) -> Canvas:
        low, high = _AXIS
        bottom = _ROW * len(self.targets)
        canvas = Canvas((0.0, 0.0), (high + 4.0, bottom + 7.0))
        for place in (low, high) if self.middle is None else (low, self._place(self.middle), high):
            canvas.line([(place, 0.0), (place, bottom)], GRID, 0.4)
        for place, name, align in zip(_AXIS, self.names, (0.0, 1.0), strict=True):
            canvas.text((place, bottom + 1.0), name, 6.0, align=align)
        return canvas

    def _draw_row(self, canvas: Canvas, row: int, share: float) -> None:
        """Draw an input, its target, and a share of the answers."""
        top, center = _ROW * row, _ROW * (row + 0.5)
        self._draw_input(canvas, row)
        canvas.line([(_AXIS[0], center), (_AXIS[1], center)], GRID, 0.2)
        canvas.circle((self._place(self.targets[row]), center), 2.0, TARGET, width=0.7)
        others = self.answers[1:, row]
        # Dots are spread over the height of the row, always in the same order.
        heights = top + _ROW * (0.15 + 0.7 * (np.arange(len(others)) * 0.618 % 1.0))
        for answer, height in list(zip(others, heights, strict=True))[: round(share * len(others))]:
            canvas.circle((self._place(answer), float(height)), 0.8, self._color(row, answer))
        place = self._place(self.answers[0, row])
        canvas.line([(place, top + 0.9), (place, top + _ROW - 0.9)], CHAMPION, 1.1)

    def _draw_input(self, canvas: Canvas, row: int) -> None:
        shown = self.inputs[row]
        if isinstance(shown, str):
            canvas.text((_AXIS[0] - 3.0, _ROW * (row + 0.2)), shown, 5.0, align=1.0)
            return
        height, width = shown.shape
        pixel = min((_ROW - 0.8) / height, (_AXIS[0] - 6.0) / width)
        left, top = _AXIS[0] - 4.0 - pixel * width, _ROW * (row + 0.5) - pixel * height / 2
        edge = 0.25
        canvas.rectangle(
            (left - edge, top - edge), (left + pixel * width + edge, top + pixel * height + edge), (160, 160, 168)
        )
        for y, x in np.ndindex(height, width):
            level = round(255 - 217 * float(np.clip(shown[y, x], 0.0, 1.0)))
            place = left + pixel * x, top + pixel * y
            canvas.rectangle(place, (place[0] + pixel, place[1] + pixel), (level, level, level))

    def _color(self, row: int, answer: float) -> Color:
        if self.middle is None:
            return RIGHT
        return RIGHT if (answer - self.middle) * (self.targets[row] - self.middle) > 0 else WRONG

    def _place(self, number: float) -> float:
        low, high = self.ends
        share = float(np.clip(np.nan_to_num((number - low) / (high - low), nan=0.0), 0.0, 1.0))
        return _AXIS[0] + share * (_AXIS[1] - _AXIS[0])


HEADLESS_ENVIRONMENT: Final = {
    "SDL_VIDEODRIVER": "dummy",
    "SDL_AUDIODRIVER": "dummy",
    # Otherwise SDL turns SIGTERM into an event, on which a game ends the process as if its window had been closed.
    "SDL_NO_SIGNAL_HANDLERS": "1",
}


def open_window(pygame: Any, size: tuple[int, int]) -> Any:
    """Open a window and return its surface; raise `pygame.error` where there is no display.

    Without a display, SDL crashes if Wayland's libraries are installed. Therefore it is not even asked then.
    """
    display = ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER")
    if sys.platform == "linux" and not any(os.environ.get(name) for name in display):
        raise pygame.error("there is no display: neither DISPLAY nor WAYLAND_DISPLAY is set")
    pygame.display.init()
    return pygame.display.set_mode(size)


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
