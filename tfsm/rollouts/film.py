"""Pictures that a simulator drew one after the other, to be looked at."""

from __future__ import annotations

import math
import zlib
from typing import Final

import numpy as np

LEAST: Final = 256
"""Pixels that the longer side of a picture has at least."""
TILES: Final = 4
"""Pictures in a row and rows in a still."""


class PictureFilm:
    """Pictures, frame by frame, all of one size.

    Args:
        rate: frames a second.
    """

    def __init__(self, rate: float) -> None:
        self.rate = float(rate)
        self._shape: tuple[int, ...] = ()
        # A minute of a large screen is a gigabyte; most of a screen is of one colour.
        self._frames: list[bytes] = []

    def add(self, picture: np.ndarray) -> None:
        """Take a picture `[height, width, 3]`, bytes."""
        self._shape = self._shape or picture.shape
        self._frames.append(zlib.compress(picture.tobytes(), 1))

    def __len__(self) -> int:
        """Return how many pictures there are."""
        return len(self._frames)

    def frame(self, index: int) -> np.ndarray:
        """Return a picture, large enough to be seen: each pixel of a small screen becomes a square."""
        larger = math.ceil(LEAST / max(self._shape))
        return _even(self._small(index).repeat(larger, axis=0).repeat(larger, axis=1))

    def still(self) -> np.ndarray:
        """Return pictures from the first to the last, row by row."""
        chosen = np.linspace(0, len(self) - 1, TILES * TILES).round().astype(int)
        tiles = np.stack([np.pad(self._small(int(i)), ((0, 2), (0, 2), (0, 0)), constant_values=128) for i in chosen])
        height, width = tiles.shape[1:3]
        rows = tiles.reshape(TILES, TILES, height, width, 3).transpose(0, 2, 1, 3, 4)
        return _even(np.ascontiguousarray(rows.reshape(TILES * height, TILES * width, 3)))

    def _small(self, index: int) -> np.ndarray:
        return np.frombuffer(zlib.decompress(self._frames[index]), np.uint8).reshape(self._shape)


def _even(picture: np.ndarray) -> np.ndarray:
    """Add a row and a column where their number is odd: most video formats insist."""
    height, width, _ = picture.shape
    return np.pad(picture, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
